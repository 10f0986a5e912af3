"""The proposer `search`: tunes module-level constants, one knob early, few at a time later.

It needs no model and no network. It changes literals only; ideas that need new code are others'.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator

from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History
from overnight.proposers import past, steps, telling, tpe
from overnight.proposers.past import Record, Setting, fingerprint
from overnight.proposers.space import Space

_DRAWS = 24  #: may turn out to be repeats before what is left is gone through
_SUGGESTIONS = 2  #: of TPE, the slow part, for one proposal
_ENUMERABLE = 20_000


class SearchProposer:
    """One knob by itself for the first ideas, then two or three, by TPE or a step away.

    Options: `max_knobs` (3) changed at once, `early` (6) ideas of one knob each, `seed` (the
    session's). The same history and seed give the same proposal.
    """

    name = "search"

    def __init__(self, options: dict[str, object]) -> None:
        chosen = telling.whole_options(options, {"max_knobs": 3, "early": 6, "seed": None})
        self._max_knobs = max(1, chosen["max_knobs"] or 1)
        self._early = chosen["early"] or 0
        self._seed = chosen["seed"]
        self._reader = telling.Reader()

    def propose(self, history: History) -> Proposal:
        """Raises ProposerError: no constants to tune, or every setting was tried."""
        space = self._reader.space(history)
        record = past.read(history, space)
        own = sum(one.proposer == self.name for one in history.experiments)
        if own < self._early:
            setting = steps.single(space, record)
            if setting is not None:
                return telling.proposal(history, space, setting, self.name)
        seed = history.seed if self._seed is None else self._seed
        rng = rng_for(seed, history.next_id)
        ideas = self._nearby(space, record, rng)
        why = None
        if (own - self._early) % 2 == 1:
            ideas = self._suggested(space, record, rng)
            why = "closer to the settings that did well so far"
        setting = first_new(space, record, ideas, rng)
        return telling.proposal(history, space, setting, self.name, why)

    def _nearby(self, space: Space, record: Record, rng: random.Random) -> Iterator[Setting]:
        for _ in range(_DRAWS):
            yield steps.nearby(space, record, rng, rng.randint(1, self._max_knobs))

    def _suggested(self, space: Space, record: Record, rng: random.Random) -> Iterator[Setting]:
        """TPE's suggestions, brought down to few knobs on top of the incumbent."""
        weight = steps.weights(space, record)
        for _ in range(_SUGGESTIONS):
            suggested = tpe.suggest(space, record.told, rng.getrandbits(32))
            moved = [knob.key for knob in telling.changes(space, suggested)]
            for _ in range(_DRAWS // _SUGGESTIONS):
                kept = steps.draw(rng, moved, weight, self._max_knobs)
                yield steps.towards(space, record, suggested, kept)


def rng_for(seed: int, next_id: int) -> random.Random:
    """The one source of chance for a proposal."""
    digest = hashlib.sha256(f"{seed}:{next_id}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))  # noqa: S311 - not for secrets


def first_new(
    space: Space, record: Record, ideas: Iterator[Setting], rng: random.Random
) -> Setting:
    """The first of *ideas* that was not tried; when they only repeat, what is left, near first.

    Raises:
        ProposerError: all settings were tried.
    """
    for setting in ideas:
        if _is_new(setting, record) and not _fails(setting, space, record):
            return setting
    for settings in (_differing(space, 1), _differing(space, 2), _anywhere(space, rng)):
        left = [setting for setting in settings if _is_new(setting, record)]
        sound = [setting for setting in left if not _fails(setting, space, record)]
        if sound:
            return rng.choice(sound)
    if not left:
        raise telling.exhausted(space)
    return rng.choice(left)


def uniform(space: Space, rng: random.Random) -> Setting:
    """Every knob anywhere on its ladder."""
    return {knob.key: rng.choice(knob.values) for knob in space.knobs}


def _differing(space: Space, count: int) -> Iterator[Setting]:
    """Every setting that differs from the incumbent's in up to *count* knobs."""
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
