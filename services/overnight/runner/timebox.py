"""Bounds what a person's pattern may cost: `re` backtracks, and on some lines without end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

CHUNK_SECONDS = 0.25  #: CPU for the patterns in one chunk of output; honest ones need milliseconds


class TooSlowError(Exception):
    """The time is used up."""


class Timebox:
    """CPU-seconds that the code inside `running` may use, together, since the last `refill`.

    `re` looks for signals while it backtracks, so that a timer can end it. The timer counts this
    process's own CPU, not the clock: a busy machine makes no pattern slow. Signals are handled in
    the main thread alone, which is where a runner works.
    """

    def __init__(self, seconds: float = CHUNK_SECONDS) -> None:
        self._seconds = seconds
        self._left = seconds
        self._armed = False

    def refill(self) -> None:
        """The whole time again."""
        self._left = self._seconds

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Our handler stands while inside."""
        before = signal.signal(signal.SIGVTALRM, self._ring)
        try:
            yield
        finally:
            signal.signal(signal.SIGVTALRM, before)

    def start(self) -> None:
        """Count from here, only while `installed`. TooSlowError comes at any line until `stop`."""
        if self._left <= 0:
            raise TooSlowError
        self._armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, self._left)

    def stop(self) -> None:
        """Count no more."""
        self._armed = False  # first: a signal that is on its way must not ring outside
        self._left = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0]

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            self._left = 0.0
            raise TooSlowError
