"""Failures that come again: crashes and timeouts by what they died of, with the knobs they share.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from overnight.contracts.status import Status
from overnight.contracts.untrusted import one_line
from overnight.sessions.report.entries import BROKE, FAILED, Entry, Facts
from overnight.sessions.report.figures import names, value

CAUSE_CHARS = 70
_WORDS = {"oom": "out of memory", "nonfinite": "metric not finite", "no_metric": "no metric",
          "exit_code": "", "train": "over its budget"}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """One way to fail."""

    cause: str  #: `crash: out of memory`, safe to show
    entries: tuple[Entry, ...]

    @property
    def count(self) -> int:
        """How often."""
        return len(self.entries)

    @property
    def example(self) -> int:
        """One experiment to look at: the newest."""
        return self.entries[-1].id

    @property
    def shared(self) -> str:
        """What all of them moved, and to which values: `BATCH (64, 128)`; empty: nothing."""
        knobs = [{step.knob for step in entry.steps} for entry in self.entries]
        common = sorted(set.intersection(*knobs)) if knobs else []
        told = []
        for knob in common[:2]:
            values = [value(s.after) for e in self.entries for s in e.steps if s.knob == knob]
            told.append(f"{knob} ({names(list(dict.fromkeys(values)), 4)})")
        return ", ".join(told)


def patterns(facts: Facts) -> list[Pattern]:
    """All of them, the commonest first."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in facts.ideas:
        if entry.status in FAILED or entry.objection in BROKE:
            found[_cause(entry)].append(entry)
    by_count = sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0].id))
    return [Pattern(cause, tuple(entries)) for cause, entries in by_count]


def never_helped(facts: Facts, least: int = 3) -> list[tuple[str, Sequence[Entry]]]:
    """Knobs that were tried at least so often by themselves and never kept, with the trials."""
    alone: dict[str, list[Entry]] = defaultdict(list)
    for entry in facts.ideas:
        if entry.alone is not None:
            alone[entry.alone.knob].append(entry)
    lost = [
        (knob, entries)
        for knob, entries in alone.items()
        if len(entries) >= least and all(e.status is not Status.KEEP for e in entries)
    ]
    return sorted(lost, key=lambda item: (-len(item[1]), item[0]))


def _cause(entry: Entry) -> str:
    reason = _WORDS.get(entry.reason or "", (entry.reason or "").replace("_", " "))
    # Out of memory is one pattern wherever it struck; other crashes differ by what they say.
    own = "" if entry.reason in ("oom", "train", *BROKE) else entry.signature or entry.detail
    told = [entry.status.value, reason, one_line(own, CAUSE_CHARS)]
    return one_line(": ".join(part for part in told if part), CAUSE_CHARS + 30)
