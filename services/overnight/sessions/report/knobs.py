"""What is known of each knob: which values were tried, alone or with others, and what came of it.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from overnight.contracts.status import Status
from overnight.sessions.report.entries import FAILED, Entry, Facts, Step, Value

_NEAR_SHARE = 0.05  #: of the whole gain: so close to the best counts as a near miss


@dataclass(frozen=True)
class Trial:
    """One value of a knob in one experiment."""

    step: Step
    entry: Entry
    alone: bool


@dataclass
class Knob:
    """All trials of one knob, oldest first."""

    name: str
    here: Value | None = None  #: in the best
    trials: list[Trial] = field(default_factory=list)

    @property
    def alone(self) -> list[Trial]:
        """Those in which nothing else was moved: the only ones that say what it does."""
        return [trial for trial in self.trials if trial.alone]

    @property
    def kept(self) -> int:
        """How many of its trials were kept."""
        return sum(1 for trial in self.trials if trial.entry.status is Status.KEEP)

    @property
    def failed(self) -> list[Trial]:
        """Crashes and timeouts."""
        return [trial for trial in self.trials if trial.entry.status in FAILED]

    @property
    def best(self) -> Trial | None:
        """Its trial with the largest gain over its parent; one alone goes first.

        Nothing that broke a rule: what it gained nobody may have.
        """
        sound = [t for t in self.trials if t.entry.gain is not None and t.entry.objection is None]
        measured = [t for t in sound if t.alone] or sound
        return max(measured, key=lambda t: t.entry.gain or 0.0, default=None)

    @property
    def swing(self) -> float:
        """How far it moved the metric by itself, at most, whichever way."""
        return max((abs(t.entry.gain) for t in self.alone if t.entry.gain is not None), default=0.0)

    @property
    def values(self) -> list[Value]:
        """Every value it had, in order where there is one."""
        found: dict[str, Value] = {}
        for trial in self.trials:
            for one in (trial.step.before, trial.step.after):
                if one is not None:
                    found.setdefault(repr(one), one)
        if all(is_number(one) for one in found.values()):
            return sorted(found.values(), key=lambda one: float(one))
        return list(found.values())


def is_number(value: Value | None) -> bool:
    """Has it an order? Booleans have none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def knobs(facts: Facts) -> Mapping[str, Knob]:
    """Every knob that is known of the session, those that moved the metric most first."""
    found = {name: Knob(name, here) for name, here in facts.knobs.items()}
    for entry in facts.ideas:
        for step in entry.steps:
            knob = found.setdefault(step.knob, Knob(step.knob))
            knob.trials.append(Trial(step, entry, entry.alone is not None))
    order = sorted(found.values(), key=lambda k: (-k.swing, -len(k.trials), k.name))
    return {knob.name: knob for knob in order}


def near(facts: Facts) -> float:
    """So much worse than the best is still close to it: two sigma, or a share of the gain."""
    if facts.noise is not None:
        return 2 * facts.noise[0]
    return _NEAR_SHARE * max(facts.total_gain or 0.0, 0.0)


def near_misses(facts: Facts, limit: int = 3) -> list[Entry]:
    """Discarded ideas that came closest to what was the best at their time, closest first."""
    bound = near(facts)
    close = [
        e
        for e in facts.ideas
        if e.status is Status.DISCARD
        and e.objection is None
        and e.gain_on_best is not None
        and -bound <= e.gain_on_best
    ]
    close.sort(key=lambda e: (-(e.gain_on_best or 0.0), e.id))
    chosen: dict[str, Entry] = {}
    for entry in close:
        chosen.setdefault(entry.group, entry)
    return list(chosen.values())[:limit]
