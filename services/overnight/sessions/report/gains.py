"""Which gains are real, and which may be one lucky run. Pure.

A kept change that was run once is told as that. Only re-runs of the same code, or a spread that is
known, say more.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum

from overnight.contracts.status import Status
from overnight.sessions.report.entries import SIMPLIFICATION, Entry, Facts
from overnight.sessions.report.figures import count, number

_JUMP = 4.0  #: times the median kept gain
_JUMP_NEEDS = 3  #: kept gains, before one of them can stick out


class Standing(StrEnum):
    """How sure a kept gain is."""

    HELD = "held"  #: re-run, and still better
    FELL = "fell"  #: re-run, and no better than before
    ABOVE_NOISE = "above_noise"  #: one run, beyond two sigma of a known spread
    INSIDE_NOISE = "inside_noise"  #: one run, within two sigma of a known spread
    SIMPLER = "simpler"  #: kept for less code, not for its number
    ONE_RUN = "one_run"  #: never re-run, and no spread is known


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One kept change and how sure its gain is."""

    entry: Entry
    gain: float | None  #: over the best of its time
    standing: Standing
    reruns: int
    jump: float | None  #: how many times the usual kept gain, where it sticks out

    @property
    def words(self) -> str:
        """For a person."""
        told = {
            Standing.HELD: f"re-run {count(self.reruns, 'time')}: it held",
            Standing.FELL: f"re-run {count(self.reruns, 'time')}: it did not hold",
            Standing.ABOVE_NOISE: "one run only, beyond the noise",
            Standing.INSIDE_NOISE: "one run only, inside the noise",
            Standing.SIMPLER: "kept for less code, not for its number",
            Standing.ONE_RUN: "not re-run: one run only",
        }[self.standing]
        if self.jump is not None:
            told += f"; a single jump, {self.jump:.0f} times the usual gain: re-run it first"
        return told


def gains(facts: Facts) -> list[Gain]:
    """All kept ideas, in the order in which they were kept."""
    kept = [e for e in facts.entries if e.is_idea and e.status is Status.KEEP]
    sizes = {e.id: e.gain_on_best for e in kept if e.gain_on_best is not None}
    sound = [size for size in sizes.values() if size > 0]
    usual = statistics.median(sound) if len(sound) >= _JUMP_NEEDS else math.inf
    return [
        Gain(
            entry=entry,
            gain=sizes.get(entry.id),
            standing=_standing(facts, entry, sizes.get(entry.id)),
            reruns=len(facts.reruns.get(entry.id, ())),
            jump=_jump(sizes.get(entry.id), usual),
        )
        for entry in kept
    ]


def _standing(facts: Facts, entry: Entry, size: float | None) -> Standing:
    if entry.reason == SIMPLIFICATION:
        return Standing.SIMPLER
    again = facts.reruns.get(entry.id)
    if again and entry.metric is not None and size is not None:
        # The first run was chosen for being good; only the others are fair.
        sign = 1.0 if facts.gain(0.0, 1.0) == 1.0 else -1.0
        before = entry.metric - sign * size
        held = facts.gain(before, math.fsum(again) / len(again))
        return Standing.HELD if held is not None and held > 0 else Standing.FELL
    if facts.noise is None or size is None:
        return Standing.ONE_RUN
    return Standing.ABOVE_NOISE if size > 2 * facts.noise[0] else Standing.INSIDE_NOISE


def _jump(size: float | None, usual: float) -> float | None:
    """How far one gain sticks out of the others."""
    times = 0.0 if size is None else size / usual
    return times if times >= _JUMP and math.isfinite(times) else None


def noise_words(facts: Facts) -> str:
    """What is known of the spread of the same code."""
    if facts.noise is None:
        return "the noise is not known: no code was run twice"
    sigma, runs = facts.noise
    return f"noise {number(sigma)} (one sigma, {runs} runs of the same code)"
