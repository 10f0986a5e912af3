"""Single steps near the parent: which knob, which way, how far, from what was learned so far."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

from overnight.proposers.constants import Value
from overnight.proposers.names import LORE
from overnight.proposers.past import Move, Record, Setting, fingerprint
from overnight.proposers.space import Knob, Space

_BACK = 6  #: places that a try by itself costs, so that the best guess has not to wait for all
_COMBINED = 6  #: near misses that are combined with each other


# --- one knob ----------------------------------------------------------------------------------


def singles(space: Space, record: Record) -> Iterator[Setting]:
    """Changes of one knob by itself: by promise, what was tried alone before further back."""
    moves = {knob.key: len(moves_of(knob, record)) for knob in space.knobs}
    turn = {knob.key: rank + _BACK * moves[knob.key] for rank, knob in enumerate(space.knobs)}
    for knob in sorted(space.knobs, key=lambda knob: turn[knob.key]):
        yield from of_knob(space, record, knob)


def of_knob(space: Space, record: Record, knob: Knob, direction: int = 0) -> Iterator[Setting]:
    """Steps of this knob that were not tried and did not fail; *direction*: +1 or -1 only."""
    here = knob.values.index(knob.value)
    values = [*targets(knob, moves_of(knob, record), direction)]
    if direction and knob.ordered:
        beyond = knob.values[here + 1 :] if direction > 0 else knob.values[:here][::-1]
        values = [*dict.fromkeys(value for value in [*values, *beyond] if value in beyond)]
    for value in values:
        setting = {**space.setting, knob.key: value}
        if (knob.key, value) not in record.failed_alone and (
            fingerprint(setting) not in record.tried
        ):
            yield setting


def moves_of(knob: Knob, record: Record) -> list[Move]:
    """The steps of this knob alone, oldest first."""
    return [move for move in record.moves if move.key == knob.key]


def targets(knob: Knob, moves: list[Move], direction: int = 0) -> Iterator[Value]:
    """Values to step to, the best guess first.

    On in a direction that won, else the other way; smaller steps after failures. *direction*: the
    first one, where somebody has said it.
    """
    here = knob.values.index(knob.value)
    if not knob.ordered:
        yield from (knob.values[(here + n) % len(knob.values)] for n in range(1, len(knob.values)))
        return
    way = LORE[knob.kind].first
    failures = 0
    for move in moves:
        if move.direction:
            way = move.direction if move.won else -move.direction
        failures = 0 if move.won else failures + (move.won is False)
    way = direction or way
    last = len(knob.values) - 1
    for stride in _strides(knob.stride, failures // 2):
        for toward in (way, -way):
            place = min(max(here + toward * stride, 0), last)
            if place != here:
                yield knob.values[place]


def _strides(bold: int, halvings: int) -> list[int]:
    """From the bold step down to 1, without those that failures have ruled out."""
    strides: list[int] = []
    while bold >= 1:
        strides.append(bold)
        bold //= 2
    return strides[halvings:] or [1]


def halved(space: Space, record: Record) -> Iterator[Setting]:
    """Half the way of the newest idea, if it failed: its first knob alone, then its others."""
    newest = record.misses[-1] if record.misses else None
    values = newest.values if newest is not None and newest.behind is None else {}
    for knob in space.knobs:
        if knob.key not in values or not knob.ordered:
            continue
        here, there = knob.values.index(knob.value), knob.place(values[knob.key])
        place = here + int((there - here) / 2)
        if place != here:
            yield {**space.setting, knob.key: knob.values[place]}


# --- several knobs -----------------------------------------------------------------------------


def onward(space: Space, record: Record, lag: int) -> Setting | None:
    """On from the parent in the direction of its last *lag* gains together, as far again."""
    if len(record.path) <= lag:
        return None
    before, setting = record.path[-1 - lag], space.setting
    for knob in space.knobs:
        here, there = knob.place(knob.value), knob.place(before[knob.key])
        if knob.ordered and here != there:
            place = min(max(2 * here - there, 0), len(knob.values) - 1)
            setting[knob.key] = knob.values[place]
    return setting


def overtaken(space: Space, record: Record) -> Iterator[tuple[Setting, int]]:
    """(setting, id): what was a gain on its own parent, while another was kept, on top of this one.

    Nearly all of many runners' gains are such.
    """
    free = {knob.key for knob in space.knobs if len(knob.values) > 1}
    gains = [miss for miss in record.misses if miss.behind is not None and miss.behind < 0]
    for miss in sorted(gains, key=lambda miss: (miss.behind or 0.0, miss.id)):
        if set(miss.values) <= free:
            yield {**space.setting, **miss.values}, miss.id


def near_misses(space: Space, record: Record, most: int) -> Iterator[tuple[Setting, list[int]]]:
    """(setting, ids): what was nearly good enough together on top of the parent, nearest first."""
    measured = [(miss.behind, -miss.id, miss) for miss in record.misses if miss.behind is not None]
    nearest = [miss for _, _, miss in sorted(measured, key=lambda item: item[:2])[:_COMBINED]]
    pairs = sorted(
        itertools.combinations(nearest, 2),
        key=lambda pair: (pair[0].behind or 0.0) + (pair[1].behind or 0.0),
    )
    keys = {knob.key for knob in space.knobs if len(knob.values) > 1}
    for one, other in pairs:
        values = {**other.values, **one.values}
        changed = {key for key, value in values.items() if value != space.setting.get(key)}
        if changed <= keys and len(changed) <= most and set(one.values) != set(other.values):
            yield {**space.setting, **values}, sorted((one.id, other.id))


def weights(space: Space, record: Record) -> dict[str, float]:
    """How likely a knob is to be part of the next change: promise, and what it brought."""
    found: dict[str, float] = {}
    for knob in space.knobs:
        kept, ended = record.credit.get(knob.key, (0, 0))
        # A win says: further that way. Where there are only two values there is no further.
        wins = kept if len(knob.values) > 2 and knob.ordered else 0
        found[knob.key] = max(knob.promise, 1.0) ** 0.5 * (1 + wins) / (1 + ended)
    return found


def draw(rng: random.Random, keys: list[str], weight: Mapping[str, float], count: int) -> list[str]:
    """*count* different keys, by weight."""
    left = list(keys)
    drawn: list[str] = []
    while left and len(drawn) < count:
        key = rng.choices(left, [weight[key] for key in left])[0]
        left.remove(key)
        drawn.append(key)
    return drawn


def nearby(space: Space, record: Record, rng: random.Random, count: int) -> Setting:
    """The parent's setting with *count* knobs a step away, to values not known to be worse."""
    setting, known = space.setting, record.failed_alone | record.worse_alone
    open_targets = {
        knob.key: [
            value
            for value in targets(knob, moves_of(knob, record))
            if (knob.key, value) not in known
        ]
        for knob in space.knobs
    }
    keys = [key for key, values in open_targets.items() if values]
    for key in draw(rng, keys, weights(space, record), count):
        values = open_targets[key]
        setting[key] = values[min(int(rng.expovariate(1.0)), len(values) - 1)]
    return setting


def anywhere(space: Space, rng: random.Random, count: int, record: Record | None = None) -> Setting:
    """The parent's setting with *count* knobs at any other of their values."""
    setting = space.setting
    knobs = {knob.key: knob for knob in space.knobs if len(knob.values) > 1}
    weight = weights(space, record) if record else dict.fromkeys(knobs, 1.0)
    for key in draw(rng, [*knobs], weight, count):
        others = [value for value in knobs[key].values if value != knobs[key].value]
        setting[key] = rng.choice(others)
    return setting


def towards(space: Space, record: Record, suggested: Setting, keys: list[str]) -> Setting:
    """The parent's setting with *keys* moved to what is suggested, if that did not fail."""
    moved = {
        key: suggested[key] for key in keys if (key, suggested[key]) not in record.failed_alone
    }
    return {**space.setting, **moved}
