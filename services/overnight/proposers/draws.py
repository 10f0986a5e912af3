"""The first idea that was never tried, and what is left when ideas only repeat."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator

from overnight.proposers import telling
from overnight.proposers.past import Record, Setting, fingerprint
from overnight.proposers.space import Space

_ENUMERABLE = 20_000


def rng_for(seed: int, next_id: int) -> random.Random:
    """The one source of chance for a proposal."""
    digest = hashlib.sha256(f"{seed}:{next_id}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))  # noqa: S311 - not for secrets


def first_new(
    space: Space, record: Record, ideas: Iterable[tuple[Setting, str | None]], rng: random.Random
) -> tuple[Setting, str | None]:
    """The first of *ideas* that was not tried; when they only repeat, what is left, near first.

    Raises:
        ProposerError: all settings were tried.
    """
    for setting, why in ideas:
        if _is_new(setting, record) and not _fails(setting, space, record):
            return setting, why
    for settings in (_differing(space, 1), _differing(space, 2), _anywhere(space, rng)):
        left = [setting for setting in settings if _is_new(setting, record)]
        sound = [setting for setting in left if not _fails(setting, space, record)]
        if sound:
            return rng.choice(sound), None
    if not left:
        raise telling.exhausted(space)
    return rng.choice(left), None


def uniform(space: Space, rng: random.Random) -> Setting:
    """Every knob anywhere on its ladder."""
    return {knob.key: rng.choice(knob.values) for knob in space.knobs}


def _differing(space: Space, count: int) -> Iterator[Setting]:
    """Every setting that differs from the parent's in up to *count* knobs."""
    for knobs in itertools.combinations(space.knobs, min(count, len(space.knobs))):
        for values in itertools.product(*(knob.values for knob in knobs)):
            keys = (knob.key for knob in knobs)
            yield {**space.setting, **dict(zip(keys, values, strict=True))}


def _anywhere(space: Space, rng: random.Random) -> Iterator[Setting]:
    """All settings where they can be counted, else some that nobody will have tried."""
    if space.size <= _ENUMERABLE:
        yield from _differing(space, len(space.knobs))
    else:
        yield from (uniform(space, rng) for _ in range(1000))


def _is_new(setting: Setting, record: Record) -> bool:
    return fingerprint(setting) not in record.tried


def _fails(setting: Setting, space: Space, record: Record) -> bool:
    return any((knob.key, setting[knob.key]) in record.failed_alone for knob in space.knobs)
