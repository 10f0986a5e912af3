"""What one repetition of a case showed, and how several of them are said in one table cell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Counted from outside: in /proc, and in the file that each system keeps its results in."""

    seed: int = 0
    wanted: int = 1  #: experiments that were asked for
    once: int = 1  #: of them, with exactly one result
    doubled: int = 0  #: of them, with more than one
    left: int = 0  #: candidate processes alive 2 s after the deadline or the kill
    trainings: int | None = None  #: training processes started; None: not counted
    at_once: int | None = None  #: most of them at the same time where one was allowed
    executed: bool | None = None  #: did what was planted run? None: nothing was planted
    seconds: float | None = None  #: from the deadline or the fault to the last result
    watched_seconds: float = 0.0  #: how long a missing result was waited for
    note: str = ""

    @property
    def lost(self) -> int:
        """Experiments without any result."""
        return self.wanted - self.once - self.doubled

    @property
    def as_promised(self) -> bool:
        """Nothing left, lost, doubled, and nothing planted was executed."""
        return self.left == self.lost == self.doubled == 0 and not self.executed


def cell(outcomes: Sequence[Outcome]) -> str:
    """One table cell: the range over the repetitions, in bold what nobody wants."""
    if not outcomes:
        return "not run"
    of = f" of {outcomes[0].wanted}"
    lost, doubled = [o.lost for o in outcomes], [o.doubled for o in outcomes]
    said = [_bad([o.left for o in outcomes], " left running")]
    said += [_bad(lost, f"{of} lost")] if any(lost) else []
    said += [_bad(doubled, f"{of} doubled")] if any(doubled) else []
    said += [] if any(lost) or any(doubled) else [f"{outcomes[0].wanted}{of} once"]
    trainings = [o.trainings for o in outcomes if o.trainings is not None]
    said += [f"{_range(trainings)} trainings"] if trainings else []
    at_once = max(o.at_once or 0 for o in outcomes)
    said += [f"**{at_once} at once**"] if at_once > 1 else []
    if any(o.executed is not None for o in outcomes):
        said.append("**executed**" if any(o.executed for o in outcomes) else "refused")
    said.append(_when(outcomes))
    said += [" or ".join(dict.fromkeys(o.note for o in outcomes if o.note))]
    return "; ".join(filter(None, said))


def _bad(values: Sequence[int], what: str) -> str:
    return f"**{_range(values)}{what}**" if any(values) else f"0{what}"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _when(outcomes: Sequence[Outcome]) -> str:
    seconds = [o.seconds for o in outcomes if o.seconds is not None]
    if len(seconds) < len(outcomes):
        return f"not all within {max(o.watched_seconds for o in outcomes):.0f} s"
    return f"{statistics.median(seconds):+.1f} s"
