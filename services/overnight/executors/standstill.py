"""Notices that whoever watches a sandbox was itself stopped, or that its host was asleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

GAP_SECONDS = 2.0  #: a loop that looks every quarter of a second was stopped if it took so long
ASLEEP_SECONDS = 1.0  #: the two clocks drift by less when the host does not sleep
TOGETHER_SECONDS = 0.05  #: two clocks are read at once, or they are read again


def boottime() -> float:
    """Seconds that go on while the host sleeps, unlike the monotonic clock. Linux only."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass
class Standstill:
    """Call `look` in every round of a loop. The clocks can be replaced in a test."""

    monotonic: Callable[[], float] = time.monotonic
    boottime: Callable[[], float] = boottime
    stalled_seconds: float = 0.0  #: monotonic time that passed without a look
    asleep_seconds: float = 0.0  #: time that passed on no monotonic clock: the host slept

    def __post_init__(self) -> None:
        self._last, self._ahead = self._read()

    def look(self) -> float:
        """The monotonic clock now."""
        now, ahead = self._read()
        if now - self._last > GAP_SECONDS:
            self.stalled_seconds += now - self._last
        self._last = now
        if ahead - self._ahead > ASLEEP_SECONDS:
            self.asleep_seconds = ahead - self._ahead
        return now

    def _read(self) -> tuple[float, float]:
        """The monotonic clock, and how far the other is ahead; a stop in between is no sleep."""
        while True:
            before, boot, after = self.monotonic(), self.boottime(), self.monotonic()
            if after - before < TOGETHER_SECONDS:
                return before, boot - before
