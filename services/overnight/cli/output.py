"""Standard output: safe text for people, JSON for scripts. A lost reader never ends the work."""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

from overnight.contracts.untrusted import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

QUEUE_LINES = 10_000  #: written but not yet taken by a slow reader; more are dropped
MESSAGE_CHARS = 1000


class Outlet:
    """A text file over standard output whose reader may be slow, stalled or gone.

    A thread of its own writes, so that a stalled pager never stalls whoever reports. What comes
    after the reader is gone is dropped silently.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        self.lost = False
        self.dropped = 0  #: texts that a stalled reader never got
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUE_LINES)
        self._thread = Thread(target=self._work, name="outlet", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Hand *text* over. Never blocks, never fails."""
        if text and not self.lost:
            try:
                self._lines.put_nowait(text)
            except queue.Full:
                self.dropped += 1
        return len(text)

    def write_last(self, text: str) -> None:
        """Hand *text* over, waiting for the reader if need be: for when nothing runs any more."""
        if not self.lost:
            self._lines.put(text)

    @property
    def idle(self) -> bool:
        """Has the reader taken all? If not, what is only of the moment can be left out."""
        return self._lines.empty()

    def flush(self) -> None:
        """Nothing to do: each text is flushed when it is written."""

    def isatty(self) -> bool:
        """Is it a terminal?"""
        return is_terminal()

    def close(self) -> None:
        """Wait until the reader took everything, or is gone."""
        self._lines.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (text := self._lines.get()) is not None:
            if not self.lost:
                self.lost = not _write(text)


def is_terminal() -> bool:
    """Is standard output a terminal?"""
    try:
        return sys.stdout.isatty()
    except ValueError:
        return False


def width() -> int | None:
    """Columns of the terminal on standard output; None: it is none."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def prepare() -> None:
    """What this terminal can't show is written as an escape, never an error. Once a process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """One line (or more) of our own words. Untrusted parts went through `safe` before."""
    _write(text + "\n")


def write(text: str) -> None:
    """Text that ends its own lines."""
    _write(text)


def emit(value: Any) -> None:
    """One JSON value on one line, ASCII: nothing in it can drive a terminal."""
    _write(as_json(value) + "\n")


def as_json(value: Any) -> str:
    """One line of strict JSON."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def fail(message: str) -> None:
    """The one line on standard error."""
    try:
        sys.stderr.write(f"overnight: {one_line(message, MESSAGE_CHARS)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # nobody to tell


def safe(text: str, limit: int = 200) -> str:
    """Untrusted text as one line that can't drive a terminal."""
    return one_line(text, limit)


def console(file: Any = None) -> Console:
    """A rich console without markup, emoji codes or highlighting: texts are data."""
    from rich.console import Console

    sink: Any = _Plain() if file is None else file
    return Console(file=sink, markup=False, emoji=False, highlight=False)


def show(*lines: Text | str) -> None:
    """Styled lines, for verbs that print once and end."""
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)


class _Plain:
    """Standard output for rich; a lost reader is no error."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        _write(text)
        return len(text)

    def flush(self) -> None:
        """Flushed with each write."""

    def isatty(self) -> bool:
        return is_terminal()


def _write(text: str) -> bool:
    """False when nobody reads any more; from then on all goes nowhere."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except ValueError:  # closed
        return False
    except OSError:
        # What is buffered would be tried again at exit, with a traceback.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        return False
    return True
