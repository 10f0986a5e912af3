"""What to try next: one narrow family of experiments, and what nobody looked at yet. Pure.

Only what the ledger shows is used: knobs, their values, near misses. Where it shows nothing, that
is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from overnight.contracts.status import Status
from overnight.sessions.report import figures
from overnight.sessions.report.entries import Facts, Value
from overnight.sessions.report.knobs import Knob, is_number, knobs, near_misses

_WIDE = 1.5  #: ratio of two values from which on a ladder goes by ratios
_SQUEEZED = 0.1

NOTHING_KNOWN = (
    "no knob of this session is known by name, so no family can be derived: name one in program.md"
)


@dataclass(frozen=True)
class Family:
    """A few experiments that belong together."""

    what: str  #: e.g. `LR at 0.002 and 0.005, one at a time`
    why: str


def next_family(facts: Facts) -> Family | None:
    """The next narrow family; None when nothing of this session points anywhere."""
    known = knobs(facts)
    again = _overtaken(known)
    if again is not None:
        return again
    won = [k for k in known.values() if k.best is not None and (k.best.entry.gain or 0.0) > 0]
    won.sort(key=lambda k: (k.best is not None and k.best.alone, _gain(k) * _room(k)), reverse=True)
    for knob in won:
        family = _around(knob)
        if family is not None:
            return family
    return _combined(facts) or _untouched(known) or _close(facts)


def unexplored(facts: Facts, limit: int = 3) -> list[Family]:
    """Where nobody looked yet, the most obvious first."""
    known = knobs(facts)
    found = [
        _overtaken(known),
        _untouched(known),
        _one_way(known),
        _only_together(known),
        _combined(facts),
    ]
    return [family for family in found if family is not None][:limit]


def _overtaken(known: Mapping[str, Knob]) -> Family | None:
    """What won against its parent while something else won more: nobody tried it on the best."""
    found = []
    for knob in known.values():
        alone = knob.alone
        lost = {t.step.after for t in alone if (t.entry.gain or 0.0) <= 0} | {knob.here}
        won = [t.entry for t in alone if t.entry.overtaken and t.step.after not in lost]
        found += won if knob.here is not None else []
    if not found:
        return None
    found.sort(key=lambda e: (-(e.gain or 0.0), e.id))
    told = [f"{figures.what(e, 40)} ({e.id:03d}, {figures.change(e.gain)})" for e in found[:3]]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return Family(f"on top of today's best: {', '.join(told)}{more}",
                  "each won against its parent, but was overtaken")  # fmt: skip


def _gain(knob: Knob) -> float:
    return knob.best.entry.gain or 0.0 if knob.best is not None else 0.0


def _around(knob: Knob) -> Family | None:
    """Beside the value that won: between its neighbours, and beyond it where nothing was tried."""
    best, centre, values = knob.best, _centre(knob), knob.values
    assert best is not None  # the caller has looked
    if centre is None:
        return None
    lower, upper = _neighbours(knob, centre)
    new = [
        between(lower, centre) if lower is not None else beyond(upper, centre),
        between(centre, upper) if upper is not None else beyond(lower, centre),
    ]
    if _doubles(values):  # 2048 and 4096: nobody means 2900
        new = [_doubled(centre, up=False), _doubled(centre, up=True)]
    fresh = [v for v in new if v is not None and v not in values and v != centre]
    if not fresh:
        return None
    places = figures.names([figures.value(v) for v in sorted(fresh, key=float)], 3)
    alone = "" if best.alone else " (never tried alone)"
    return Family(
        f"{knob.name} at {places}" + (", one at a time" if len(fresh) > 1 else ""),
        f"{figures.step(best.step)} brought {abs(_gain(knob)):.3g} ({best.entry.id:03d}){alone}"
        f"; now {figures.value(centre)}",
    )


def _centre(knob: Knob) -> Value | None:
    """Its value in the best, where all its values are numbers and there is more than one."""
    centre = knob.here if knob.here is not None or knob.best is None else knob.best.step.after
    numbers = len(knob.values) > 1 and all(is_number(v) for v in knob.values)
    return centre if numbers and is_number(centre) else None


def _neighbours(knob: Knob, centre: Value) -> tuple[Value | None, Value | None]:
    """The next tried values below and above."""
    lower = max((v for v in knob.values if float(v) < float(centre)), key=float, default=None)
    upper = min((v for v in knob.values if float(v) > float(centre)), key=float, default=None)
    return lower, upper


def _room(knob: Knob) -> float:
    """How much there may be left: most at an open end, little between close neighbours."""
    centre = _centre(knob)
    if centre is None:
        return 0.0
    lower, upper = _neighbours(knob, centre)
    if lower is None or upper is None:
        return 1.0
    a, b, c = float(lower), float(upper), float(centre)
    return _SQUEEZED if a > 0 and c / a < _WIDE and b / c < _WIDE else 0.5


def _doubles(values: Sequence[Value]) -> bool:
    """Powers of two, as sizes often are."""
    whole = [v for v in values if isinstance(v, int) and v > 1 and v & (v - 1) == 0]
    return len(whole) == len(values) > 1


def _doubled(value: Value, *, up: bool) -> Value | None:
    number = int(value) * 2 if up else int(value) // 2
    return number if number > 0 else None


def between(low: Value | None, high: Value | None) -> Value | None:
    """A value halfway, by ratio where the two lie far apart; None where there is none."""
    if not (is_number(low) and is_number(high)):
        return None
    a, b = float(low or 0), float(high or 0)
    wide = a > 0 and b > 0 and max(a, b) / min(a, b) >= _WIDE
    middle = math.sqrt(a) * math.sqrt(b) if wide else a / 2 + b / 2
    return _like(middle, low, high)


def beyond(before: Value | None, here: Value | None) -> Value | None:
    """As far again on the other side of *here*, half a step."""
    if not (is_number(before) and is_number(here)):
        return None
    a, b = float(before or 0), float(here or 0)
    further = b * math.sqrt(b / a) if a > 0 and b > 0 else b + (b - a) / 2
    return _like(further, before, here)


def _like(number: float, *others: Value | None) -> Value | None:
    """Rounded, and whole where the others are; None where that gives one of them."""
    if not math.isfinite(number):
        return None
    whole = all(isinstance(other, int) for other in others)
    found: Value = round(number) if whole else float(f"{number:.2g}")
    return None if found in others else found


def _combined(facts: Facts) -> Family | None:
    """Near misses of different knobs, as one idea."""
    chosen, used = [], set[str]()
    for entry in near_misses(facts, 8):
        moved = {step.knob for step in entry.steps} or {entry.group}
        if not moved & used:
            chosen.append(entry)
            used |= moved
    if len(chosen) < 2:
        return None
    pick = chosen[:2]
    told = " with ".join(f"{figures.what(e, 44)} ({e.id:03d})" for e in pick)
    closest = ", ".join(figures.change(e.gain_on_best) for e in pick)
    return Family(f"near misses combined: {told}", f"each came close alone: {closest}")


def _untouched(known: Mapping[str, Knob]) -> Family | None:
    names = [knob.name for knob in known.values() if not knob.trials]
    if not names:
        return None
    return Family(
        f"{figures.names(names, 5)}: one at a time",
        f"{figures.count(len(names), 'knob')} of {len(known)} never moved",
    )


def _one_way(known: Mapping[str, Knob]) -> Family | None:
    """Knobs that were tried on one side of the best's value only."""
    told = []
    for knob in known.values():
        centre, values = knob.here, [v for v in knob.values if is_number(v)]
        if knob.trials and is_number(centre) and centre is not None:
            sides = {float(v) > float(centre) for v in values if v != centre}
            # A share, a rate or a decay of zero has nothing below it.
            if len(sides) == 1 and not (sides == {True} and centre == 0):
                told.append(f"{knob.name} {'below' if sides == {True} else 'above'}"
                            f" {figures.value(centre)}")  # fmt: skip
    if not told:
        return None
    return Family(f"the other side: {figures.names(told, 4)}", "tried on one side only so far")


def _only_together(known: Mapping[str, Knob]) -> Family | None:
    names = [knob.name for knob in known.values() if knob.trials and not knob.alone]
    if not names:
        return None
    return Family(
        f"{figures.names(names, 5)}: each by itself",
        "only tried together with others, so nobody knows what each does",
    )


def _close(facts: Facts) -> Family | None:
    """Without a knob that is known: what came closest."""
    misses = near_misses(facts, 2)
    if misses:
        told = " and ".join(f"{figures.what(e)} ({e.id:03d})" for e in misses)
        return Family(f"variants of {told}", "closest to the best without reaching it")
    kept = [e for e in facts.ideas if e.status is Status.KEEP]
    if kept:
        last = kept[-1]
        return Family(f"smaller and larger variants of {figures.what(last)} ({last.id:03d})",
                      "the last change that was kept")  # fmt: skip
    return None


def texts(families: Sequence[Family]) -> list[str]:
    """One line each."""
    return [f"{family.what} ({family.why})" for family in families]
