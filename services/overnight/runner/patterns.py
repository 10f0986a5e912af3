"""Numbers that a person's regular expression finds in the output's lines."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from overnight.contracts.loop import RegexSource
from overnight.contracts.untrusted import one_line
from overnight.runner.timebox import Timebox, TooSlowError
from overnight.runner.values import (
    AMBIGUOUS,
    NO_METRIC,
    RAW_CHARACTERS,
    UNPARSABLE,
    Found,
    Outcome,
    found,
    outcome,
)

ON_STDERR = "metric_on_stderr"  #: flag: stdout had none
SLOW = "slow_pattern"  #: flag: a constraint's pattern was given up on this output
SHOWN_CHARACTERS = 120


@dataclass
class _Matches:
    """What one pattern found in one stream."""

    first: Outcome | None = None
    last: Outcome | None = None
    bad: Outcome | None = None  #: the last that is no finite number
    least: Outcome | None = None
    most: Outcome | None = None
    several: bool = False

    def note(self, one: Outcome) -> None:
        self.last = one
        if self.first is None:
            self.first = one
        self.several = self.several or one.key != self.first.key
        if one.value is None:
            self.bad = one
            return
        if self.least is None or one.value < (self.least.value or 0.0):
            self.least = one
        if self.most is None or one.value > (self.most.value or 0.0):
            self.most = one


@dataclass
class _Watch:
    """One pattern and what it found so far."""

    pattern: re.Pattern[str]
    streams: dict[str, _Matches] = field(
        default_factory=lambda: {"stdout": _Matches(), "stderr": _Matches()}
    )

    @property
    def counted(self) -> tuple[_Matches, bool]:
        """The matches that count, and whether they are stderr's."""
        out, err = self.streams["stdout"], self.streams["stderr"]
        return (err, True) if out.last is None and err.last is not None else (out, False)


class Patterns:
    """Several patterns on one output. The first that takes too long ends the search for all.

    An output that makes a pattern backtrack without end says nothing worth a wait; a runner that
    waits could not end the candidate at its deadline.
    """

    def __init__(self, patterns: Sequence[str], timebox: Timebox | None = None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on what a later Python may read otherwise
            self._watches = {text: _Watch(re.compile(text)) for text in patterns}
        self._timebox = timebox or Timebox()
        self.gave_up = False

    @contextlib.contextmanager
    def chunk(self) -> Iterator[None]:
        """Lines are read inside. Each chunk of output may cost the same, so that the runner is
        never long away; call from the main thread."""
        self._timebox.refill()
        with self._timebox.installed():
            yield

    def read(self, stream: str, line: str, cut: bool) -> None:
        """Look at one line of a `chunk`; *cut*: its end is missing."""
        if self.gave_up:
            return
        try:
            for watch in self._watches.values():
                for one in self._search(watch.pattern, line, cut):
                    watch.streams[stream].note(one)
        except TooSlowError:
            self.gave_up = True

    def _search(self, pattern: re.Pattern[str], line: str, cut: bool) -> Iterator[Outcome]:
        start = 0
        while start <= len(line):
            self._timebox.start()
            try:
                match = pattern.search(line, start)
            finally:
                self._timebox.stop()
            if match is None:
                return
            if match[1] is not None:  # a group in a branch that was not taken finds nothing
                yield outcome(match[1].strip(" \t"), cut and match.end(1) == len(line))
            start = match.end() if match.end() > match.start() else match.end() + 1

    def metric(self, source: RegexSource, name: str) -> Found:
        """The metric, by *source*'s pattern and its `take`."""
        shown = one_line(source.regex, SHOWN_CHARACTERS)
        matches, on_stderr = self._watches[source.regex].counted
        flags = (ON_STDERR,) if on_stderr else ()
        if self.gave_up:
            why = f"the pattern /{shown}/ takes too long on this output: write a simpler one"
            return Found(problem=UNPARSABLE, why=why)
        if matches.first is None or matches.last is None:
            return Found(problem=NO_METRIC, why=f"nothing in the output matches /{shown}/")
        if source.take == "only" and matches.several:
            both = one_line(f"{matches.first.raw} ... {matches.last.raw}", RAW_CHARACTERS)
            why = f"/{shown}/ finds different values of {name} (take: only): {both}"
            return Found(problem=AMBIGUOUS, raw=both, flags=flags, why=why)
        chosen = {
            "last": matches.last,
            "only": matches.last,
            "min": matches.bad or matches.least or matches.last,
            "max": matches.bad or matches.most or matches.last,
        }[source.take]
        why = ""
        if chosen.value is None:
            why = f"/{shown}/ finds '{chosen.raw}', which is not a finite plain number"
        return found(chosen, flags, why)

    def last(self, pattern: str) -> float | None:
        """The last number that *pattern* found; None when it is none."""
        matches, _ = self._watches[pattern].counted
        return None if matches.last is None else matches.last.value
