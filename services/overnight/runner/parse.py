"""The candidate's output, read while it comes: metric, claims and last words, in bounded memory."""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass, field

from overnight.contracts.experiment import Claim
from overnight.contracts.untrusted import one_line, strip_escapes, strip_terminal

LINE_BYTES = 4096  #: a line is matched and remembered by this much of its start
TAIL_LINES = 50
TAIL_COLUMNS = 1000  #: a line in a tail is cut to this many characters
MAX_CLAIMS = 64
RAW_CHARACTERS = 64  #: Claim.value can't be longer
PEAK_VRAM = "peak_vram_mb"
MAX_VRAM_MB = 1e9

NO_METRIC = "no_metric"
AMBIGUOUS = "ambiguous_metric"
UNPARSABLE = "metric_unparsable"
NONFINITE = "nonfinite"
ON_STDERR = "metric_on_stderr"  #: flag: stdout had none
MULTIPLE = "multiple_metric_lines"  #: flag: several different values, the summary's last one won
BEFORE_RULE = "metric_before_rule"  #: flag: only above the last `---`, where it does not count

_PAIR = re.compile(rb"[ \t]*([A-Za-z_][A-Za-z0-9_./@-]{0,63})[ \t]*:(.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NONFINITE = re.compile(
    r"[+-]?(?:s?nan(?:\([a-z0-9_]*\))?|inf(?:inity)?|1\.#(?:inf|ind|qnan|snan)0*)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What the output said. Exactly one of value and problem is set."""

    value: float | None  #: finite
    problem: str | None  #: no_metric, ambiguous_metric, metric_unparsable or nonfinite
    raw: str | None  #: the metric as printed, safe and cut; None when no line counted
    flags: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()  #: other `name: value` lines of the summary, last value of each
    peak_vram_mb: float | None = None
    tail: str = ""  #: last lines of both streams in order of arrival, terminal-safe
    #: The last lines of stderr alone. Python writes its buffered stdout after the traceback,
    #: so the traceback is often no longer among the last lines of both.
    error_tail: str = ""


@dataclass(frozen=True)
class _Outcome:
    value: float | None
    problem: str | None
    raw: str

    @property
    def key(self) -> float | str | None:
        """Two outcomes with the same key are the same value."""
        return self.problem if self.value is None else self.value


@dataclass
class _Stream:
    """One pipe: its unfinished line, and what its metric lines said so far."""

    line: bytearray = field(default_factory=bytearray)
    cut: bool = False  #: the unfinished line is longer than what we hold of it
    progress: bytes = b""  #: ended by CR, may still be overwritten
    first: _Outcome | None = None
    last: _Outcome | None = None
    several: bool = False

    def note(self, outcome: _Outcome) -> None:
        if self.first is None:
            self.first = outcome
        self.several = self.several or outcome.key != self.first.key
        self.last = outcome


class MetricParser:
    """Fed with every chunk of both pipes; the bounds of the chunks never matter."""

    def __init__(self, metric_name: str) -> None:
        self._name = metric_name.encode()
        self._streams = {"stdout": _Stream(), "stderr": _Stream()}
        self._ruled = False  #: stdout had a `---` line
        self._block: _Outcome | None = None  #: last metric line below the last `---`
        self._claims: dict[bytes, bytes] = {}
        self._tail: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._error_tail: deque[bytes] = deque(maxlen=TAIL_LINES)

    def feed(self, stream: str, data: bytes) -> None:
        """Take one chunk of *stream* ("stdout" or "stderr"), in order of arrival."""
        pieces = data.split(b"\n")
        last = len(pieces) - 1
        state = self._streams[stream]
        for index, piece in enumerate(pieces):
            if b"\r" in piece:
                *done, piece = piece.split(b"\r")
                for part in done:
                    self._end(stream, state, part, by_cr=True)
            if index < last:
                self._end(stream, state, piece, by_cr=False)
            else:
                self._hold(state, piece)

    def finish(self) -> Parsed:
        """What all of the output said; an unterminated last line counts as a line."""
        for name, state in self._streams.items():
            self._end(name, state, b"", by_cr=False)
        value, problem, raw, flags = self._verdict()
        claims = {name.decode(): _plain(text) for name, text in self._claims.items()}
        return Parsed(
            value=value,
            problem=problem,
            raw=raw,
            flags=flags,
            claims=tuple(
                Claim(name=name, value=one_line(text, RAW_CHARACTERS))
                for name, text in claims.items()
            ),
            peak_vram_mb=_vram(claims.get(PEAK_VRAM)),
            tail=_text(self._tail),
            error_tail=_text(self._error_tail),
        )

    def _hold(self, state: _Stream, piece: bytes) -> None:
        room = LINE_BYTES - len(state.line)
        state.line += piece[:room]
        state.cut = state.cut or len(piece) > room

    def _end(self, stream: str, state: _Stream, piece: bytes, *, by_cr: bool) -> None:
        """The line ends with *piece*: read it, and keep it unless a CR lets the next one win."""
        if not piece and not state.line and not state.progress:
            return
        if state.line or len(piece) > LINE_BYTES:
            self._hold(state, piece)
            line, cut = bytes(state.line), state.cut
            state.line.clear()
            state.cut = False
        else:
            line, cut = piece, False
        if line:
            self._read(stream, state, line, cut)
        if by_cr:
            state.progress = line or state.progress
            return
        shown = line or state.progress
        state.progress = b""
        if shown and not shown.isspace():
            self._tail.append(shown)
            if stream == "stderr":
                self._error_tail.append(shown)

    def _read(self, stream: str, state: _Stream, line: bytes, cut: bool) -> None:
        if b"\x1b" in line or b"\xc2" in line:  # ESC, or the first byte of a C1 control
            line = strip_escapes(line.decode("utf-8", "replace")).encode()
        if stream == "stdout" and b"---" in line and line.strip(b" \t") == b"---" and not cut:
            self._ruled = True
            self._block = None
            self._claims.clear()
            return
        pair = _PAIR.match(line)
        if pair is None:
            return
        name, text = pair.groups()
        if name == self._name:
            outcome = _outcome(_plain(text), cut)
            state.note(outcome)
            if stream == "stdout":
                self._block = outcome
        elif stream == "stdout" and not cut:
            self._claim(name, text)

    def _claim(self, name: bytes, text: bytes) -> None:
        """Keep the last value of each name. Above a `---` only numbers: logs are full of colons."""
        if not self._ruled and _NUMBER.fullmatch(_plain(text)) is None:
            return
        known = name in self._claims or len(self._claims) < MAX_CLAIMS
        if known or name == PEAK_VRAM.encode():
            self._claims[name] = text

    def _verdict(self) -> tuple[float | None, str | None, str | None, tuple[str, ...]]:
        out, err = self._streams["stdout"], self._streams["stderr"]
        if out.last is not None and self._ruled:
            if self._block is None:
                return None, NO_METRIC, None, (BEFORE_RULE,)
            flags = (MULTIPLE,) if out.several else ()
            return self._block.value, self._block.problem, self._block.raw, flags
        chosen, flags = (out, ()) if out.last is not None else (err, (ON_STDERR,))
        if chosen.first is None or chosen.last is None:
            return None, NO_METRIC, None, ()
        if chosen.several:
            both = one_line(f"{chosen.first.raw} ... {chosen.last.raw}", RAW_CHARACTERS)
            return None, AMBIGUOUS, both, flags
        return chosen.last.value, chosen.last.problem, chosen.last.raw, flags


def _plain(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip(" \t")


def _outcome(text: str, cut: bool) -> _Outcome:
    raw = one_line(text, RAW_CHARACTERS)
    if not cut and _NUMBER.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return _Outcome(value, None, raw)
        return _Outcome(None, NONFINITE, raw)
    if not cut and _NONFINITE.fullmatch(text):
        return _Outcome(None, NONFINITE, raw)
    return _Outcome(None, UNPARSABLE, raw)


def _vram(text: str | None) -> float | None:
    if text is None or _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if 0 <= value <= MAX_VRAM_MB else None


def _text(lines: deque[bytes]) -> str:
    shown = (strip_terminal(line.decode("utf-8", "replace"))[:TAIL_COLUMNS] for line in lines)
    return "\n".join(shown)
