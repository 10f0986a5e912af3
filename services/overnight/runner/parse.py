"""The candidate's output, read while it comes: metric, claims and last words, in bounded memory."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from overnight.contracts.experiment import Claim
from overnight.contracts.loop import Constraint, RegexSource, Source
from overnight.contracts.untrusted import one_line, strip_escapes
from overnight.runner.lines import LINE_BYTES, TAIL_LINES, OutputLines
from overnight.runner.patterns import ON_STDERR, SLOW, Patterns
from overnight.runner.values import (
    AMBIGUOUS,
    NO_METRIC,
    RAW_CHARACTERS,
    Found,
    Outcome,
    found,
    is_number,
    outcome,
)

__all__ = ["LINE_BYTES", "MAX_CLAIMS", "TAIL_LINES", "MetricParser", "Parsed"]

MAX_CLAIMS = 64
PEAK_VRAM = "peak_vram_mb"
MAX_VRAM_MB = 1e9
LOG_TAIL_CHARACTERS = 4000

MULTIPLE = "multiple_metric_lines"  #: flag: several different values, the summary's last one won
BEFORE_RULE = "metric_before_rule"  #: flag: only above the last `---`, where it does not count

_PAIR = re.compile(rb"[ \t]*([A-Za-z_][A-Za-z0-9_./@-]{0,63})[ \t]*:(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What the output said. Exactly one of value and problem is set."""

    value: float | None  #: finite
    problem: str | None  #: no_metric, ambiguous_metric, metric_unparsable or nonfinite
    raw: str | None  #: the metric as printed, safe and cut; None when no line counted
    why: str = ""  #: the problem in words
    flags: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()  #: other `name: value` lines of the summary, last value of each
    measures: dict[str, float] = field(default_factory=dict)  #: of the constraints; finite
    peak_vram_mb: float | None = None
    tail: str = ""  #: last lines of both streams in order of arrival, terminal-safe
    #: The last lines of stderr alone. Python writes its buffered stdout after the traceback,
    #: so the traceback is often no longer among the last lines of both.
    error_tail: str = ""

    @property
    def log_tail(self) -> str:
        """The last words for a result: of both, and of stderr where it is not among them."""
        if not self.error_tail or self.error_tail[-200:] in self.tail:
            return self.tail[-LOG_TAIL_CHARACTERS:]
        half = LOG_TAIL_CHARACTERS // 2 - 10
        last = self.tail.split("\n")[-TAIL_LINES // 2 :]
        errors = self.error_tail.split("\n")[1 - TAIL_LINES // 2 :]
        return "\n".join(("\n".join(last)[-half:], "stderr:", "\n".join(errors)[-half:]))


@dataclass
class _Named:
    """What one stream's lines said of one name."""

    first: Outcome | None = None
    last: Outcome | None = None
    several: bool = False

    def note(self, one: Outcome) -> None:
        if self.first is None:
            self.first = one
        self.several = self.several or one.key != self.first.key
        self.last = one


class MetricParser:
    """Fed with every chunk of both pipes; the bounds of the chunks never matter.

    With a source that is no text of the output (json, command) it finds no metric.
    Where patterns are sought, call it from the main thread.
    """

    def __init__(
        self,
        metric_name: str,
        source: Source = "stdout_line",
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self._metric = metric_name
        self._name = metric_name.encode()
        self._source = source
        self._constraints = constraints
        self._streams = {"stdout": _Named(), "stderr": _Named()}
        self._ruled = False  #: stdout had a `---` line
        self._block: Outcome | None = None  #: last metric line below the last `---`
        self._claims: dict[bytes, bytes] = {}
        self._measured = {
            c.name.encode(): {"stdout": _Named(), "stderr": _Named()}
            for c in constraints
            if c.regex is None
        }
        wanted = [c.regex for c in constraints if c.regex is not None]
        if isinstance(source, RegexSource):
            wanted.append(source.regex)
        self._patterns = Patterns(wanted) if wanted else None
        self._lines = OutputLines(self._read)

    def feed(self, stream: str, data: bytes) -> None:
        """Take one chunk of *stream* ("stdout" or "stderr"), in order of arrival."""
        with self._chunk():
            self._lines.feed(stream, data)

    def finish(self) -> Parsed:
        """What all of the output said; an unterminated last line counts as a line."""
        with self._chunk():
            self._lines.finish()
        said = self._verdict()
        measures, flags = self._measures()
        claims = {name.decode(): _plain(text) for name, text in self._claims.items()}
        return Parsed(
            value=said.value,
            problem=said.problem,
            raw=said.raw,
            why=said.why,
            flags=(*said.flags, *flags),
            claims=tuple(
                Claim(name=name, value=one_line(text, RAW_CHARACTERS))
                for name, text in claims.items()
            ),
            measures=measures,
            peak_vram_mb=_vram(claims.get(PEAK_VRAM)),
            tail=self._lines.tail,
            error_tail=self._lines.error_tail,
        )

    def _chunk(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._patterns is None else self._patterns.chunk()

    def _read(self, stream: str, line: bytes, cut: bool) -> None:
        if b"\x1b" in line or b"\xc2" in line:  # ESC, or the first byte of a C1 control
            line = strip_escapes(line.decode("utf-8", "replace")).encode()
        if self._patterns is not None:
            self._patterns.read(stream, line.decode("utf-8", "replace"), cut)
        if stream == "stdout" and b"---" in line and line.strip(b" \t") == b"---" and not cut:
            self._ruled = True
            self._block = None
            self._claims.clear()
            return
        pair = _PAIR.match(line)
        if pair is None:
            return
        name, text = pair.groups()
        if name in self._measured:
            self._measured[name][stream].note(outcome(_plain(text), cut))
        if name == self._name:
            one = outcome(_plain(text), cut)
            self._streams[stream].note(one)
            if stream == "stdout":
                self._block = one
        elif stream == "stdout" and not cut:
            self._claim(name, text)

    def _claim(self, name: bytes, text: bytes) -> None:
        """Keep the last value of each name. Above a `---` only numbers: logs are full of colons."""
        if not self._ruled and not is_number(_plain(text)):
            return
        known = name in self._claims or len(self._claims) < MAX_CLAIMS
        if known or name == PEAK_VRAM.encode():
            self._claims[name] = text

    def _verdict(self) -> Found:
        if isinstance(self._source, RegexSource):
            assert self._patterns is not None  # made for it
            return self._patterns.metric(self._source, self._metric)
        if self._source != "stdout_line":
            return Found(problem=NO_METRIC)
        out, err = self._streams["stdout"], self._streams["stderr"]
        if out.last is not None and self._ruled:
            if self._block is None:
                return Found(problem=NO_METRIC, flags=(BEFORE_RULE,))
            return found(self._block, (MULTIPLE,) if out.several else ())
        chosen, flags = (out, ()) if out.last is not None else (err, (ON_STDERR,))
        if chosen.first is None or chosen.last is None:
            return Found(problem=NO_METRIC)
        if chosen.several:
            both = one_line(f"{chosen.first.raw} ... {chosen.last.raw}", RAW_CHARACTERS)
            return Found(problem=AMBIGUOUS, raw=both, flags=flags)
        return found(chosen.last, flags)

    def _measures(self) -> tuple[dict[str, float], tuple[str, ...]]:
        """Each constraint's last number, where there is one."""
        measures: dict[str, float] = {}
        for constraint in self._constraints:
            if constraint.regex is not None:
                assert self._patterns is not None  # made for it
                value = self._patterns.last(constraint.regex)
            else:
                streams = self._measured[constraint.name.encode()]
                last = streams["stdout"].last or streams["stderr"].last
                value = None if last is None else last.value
            if value is not None:
                measures[constraint.name] = value
        slow = self._patterns is not None and self._patterns.gave_up
        return measures, (SLOW,) if slow else ()


def _plain(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip(" \t")


def _vram(text: str | None) -> float | None:
    if text is None or not is_number(text):
        return None
    value = float(text)
    return value if 0 <= value <= MAX_VRAM_MB else None
