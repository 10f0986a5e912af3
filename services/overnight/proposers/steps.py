"""Single steps near the incumbent: which knob, which way, how far, from what was learned so far."""

from __future__ import annotations

import random
from collections.abc import Iterator

from overnight.proposers.constants import Value
from overnight.proposers.names import LORE
from overnight.proposers.past import Move, Record, Setting, fingerprint
from overnight.proposers.space import Knob, Space


def single(space: Space, record: Record) -> Setting | None:
    """The next change of one knob by itself: the knob least often tried alone, then by promise."""
    moves = {knob.key: moves_of(knob, record) for knob in space.knobs}
    for knob in sorted(space.knobs, key=lambda knob: len(moves[knob.key])):
        for value in targets(knob, moves[knob.key]):
            setting = {**space.setting, knob.key: value}
            if (knob.key, value) in record.failed_alone or fingerprint(setting) in record.tried:
                continue
            return setting
    return None


def moves_of(knob: Knob, record: Record) -> list[Move]:
    """The steps of this knob alone, oldest first."""
    return [move for move in record.moves if move.key == knob.key]


def targets(knob: Knob, moves: list[Move]) -> Iterator[Value]:
    """Values to step to, the best guess first.

    On in a direction that won, else the other way; smaller steps after failures.
    """
    here = knob.values.index(knob.value)
    if not knob.ordered:
        yield from (knob.values[(here + n) % len(knob.values)] for n in range(1, len(knob.values)))
        return
    direction = LORE[knob.kind].first
    failures = 0
    for move in moves:
        if move.direction:
            direction = move.direction if move.won else -move.direction
        failures = 0 if move.won else failures + (move.won is False)
    last = len(knob.values) - 1
    for stride in _strides(knob.stride, failures // 2):
        for way in (direction, -direction):
            place = min(max(here + way * stride, 0), last)
            if place != here:
                yield knob.values[place]


def _strides(bold: int, halvings: int) -> list[int]:
    """From the bold step down to 1, without those that failures have ruled out."""
    strides: list[int] = []
    while bold >= 1:
        strides.append(bold)
        bold //= 2
    return strides[halvings:] or [1]


def weights(space: Space, record: Record) -> dict[str, float]:
    """How likely a knob is to be part of the next change: promise, and what it brought."""
    found: dict[str, float] = {}
    for knob in space.knobs:
        kept, ended = record.credit.get(knob.key, (0, 0))
        # A win says: further that way. Where there are only two values there is no further.
        wins = kept if len(knob.values) > 2 and knob.ordered else 0
        found[knob.key] = max(knob.promise, 1.0) ** 0.5 * (1 + wins) / (1 + ended)
    return found


def draw(rng: random.Random, keys: list[str], weight: dict[str, float], count: int) -> list[str]:
    """*count* different keys, by weight."""
    left = list(keys)
    drawn: list[str] = []
    while left and len(drawn) < count:
        key = rng.choices(left, [weight[key] for key in left])[0]
        left.remove(key)
        drawn.append(key)
    return drawn


def nearby(space: Space, record: Record, rng: random.Random, count: int) -> Setting:
    """The incumbent's setting with *count* knobs a step away, to values not known to be worse."""
    setting = space.setting
    open_targets = {knob.key: _open_targets(knob, record) for knob in space.knobs}
    keys = [key for key, values in open_targets.items() if values]
    for key in draw(rng, keys, weights(space, record), count):
        values = open_targets[key]
        setting[key] = values[min(int(rng.expovariate(1.0)), len(values) - 1)]
    return setting


def _open_targets(knob: Knob, record: Record) -> list[Value]:
    known = record.failed_alone | record.worse_alone
    return [
        value for value in targets(knob, moves_of(knob, record)) if (knob.key, value) not in known
    ]


def towards(space: Space, record: Record, suggested: Setting, keys: list[str]) -> Setting:
    """The incumbent's setting with *keys* moved to what is suggested, at most a bold step far."""
    setting = space.setting
    for knob in space.knobs:
        if knob.key not in keys:
            continue
        here, there = knob.place(knob.value), knob.place(suggested[knob.key])
        if knob.ordered:
            there = min(max(there, here - knob.stride), here + knob.stride)
        value = knob.values[there]
        if (knob.key, value) not in record.failed_alone | record.worse_alone:
            setting[knob.key] = value
    return setting
