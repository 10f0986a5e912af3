"""The lines of both pipes while they come, in bounded memory: whole, and the last ones kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from overnight.contracts.untrusted import strip_terminal

LINE_BYTES = 4096  #: a line is matched and remembered by this much of its start
TAIL_LINES = 50
TAIL_COLUMNS = 1000  #: a line in a tail is cut to this many characters

OnLine = Callable[[str, bytes, bool], None]  #: stream, the line, was its end cut off?


@dataclass
class _Stream:
    """One pipe's unfinished line."""

    line: bytearray = field(default_factory=bytearray)
    cut: bool = False  #: the unfinished line is longer than what we hold of it
    progress: bytes = b""  #: ended by CR, may still be overwritten


class OutputLines:
    """Fed with every chunk of both pipes; the bounds of the chunks never matter.

    LF and CR both end a line: every redraw of a progress bar is told to *on_line*, but only the
    last one stands in the tail.
    """

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._streams = {"stdout": _Stream(), "stderr": _Stream()}
        self._tail: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._error_tail: deque[bytes] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> str:
        """The last lines of both streams in order of arrival, terminal-safe."""
        return _text(self._tail)

    @property
    def error_tail(self) -> str:
        """The last lines of stderr alone."""
        return _text(self._error_tail)

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
                _hold(state, piece)

    def finish(self) -> None:
        """An unterminated last line counts as a line."""
        for name, state in self._streams.items():
            self._end(name, state, b"", by_cr=False)

    def _end(self, stream: str, state: _Stream, piece: bytes, *, by_cr: bool) -> None:
        """The line ends with *piece*: read it, and keep it unless a CR lets the next one win."""
        if not piece and not state.line and not state.progress:
            return
        if state.line or len(piece) > LINE_BYTES:
            _hold(state, piece)
            line, cut = bytes(state.line), state.cut
            state.line.clear()
            state.cut = False
        else:
            line, cut = piece, False
        if line:
            self._on_line(stream, line, cut)
        if by_cr:
            state.progress = line or state.progress
            return
        shown = line or state.progress
        state.progress = b""
        if shown and not shown.isspace():
            self._tail.append(shown)
            if stream == "stderr":
                self._error_tail.append(shown)


def _hold(state: _Stream, piece: bytes) -> None:
    room = LINE_BYTES - len(state.line)
    state.line += piece[:room]
    state.cut = state.cut or len(piece) > room


def _text(lines: deque[bytes]) -> str:
    shown = (strip_terminal(line.decode("utf-8", "replace"))[:TAIL_COLUMNS] for line in lines)
    return "\n".join(shown)
