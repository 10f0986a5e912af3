"""A device that fails fast must not eat the queue: it rests, and the others get the work. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: Infra reasons that the device may be behind. A full disk, a stopped runner and a snapshot that
#: can't be exported are the same on every device.
OF_THE_DEVICE = frozenset({"device_lost", "xid", "sandbox"})


@dataclass(kw_only=True)
class Breaker:
    """Of one worker. Times are of its monotonic clock, in seconds."""

    failures: int  #: in a row before it rests
    pause_seconds: float  #: after each failure before that
    rest_seconds: float  #: the first rest; doubled by each failure that follows it at once
    rest_max_seconds: float
    in_a_row: int = 0
    _until: float = 0.0
    _reason: str = ""

    def ended(self, reason: str | None, detail: str, *, now: float, alone: bool) -> None:
        """An attempt ended. reason: of a status `infra`, else None.

        alone: no other runner lives that would take its work; then a rest only costs time.
        """
        if reason is not None and reason not in OF_THE_DEVICE:
            return  # it says nothing about the device
        if reason is None:
            self.in_a_row, self._until = 0, 0.0
            return
        self.in_a_row += 1
        if alone:
            return
        if self.in_a_row < self.failures:
            self._until = now + self.pause_seconds
        else:
            longer = 2.0 ** min(self.in_a_row - self.failures, 30)
            self._until = now + min(self.rest_seconds * longer, self.rest_max_seconds)
        self._reason = detail

    def rests(self, now: float) -> str | None:
        """Why no job may be taken now; None: one may, and shows if the device works again."""
        if now >= self._until:
            return None
        times = f"{self.in_a_row} failures in a row" if self.in_a_row > 1 else "a failure"
        return f"it rests after {times}: {self._reason}"

    @property
    def is_open(self) -> bool:
        """Did it fail so often that somebody should look?"""
        return self.in_a_row >= self.failures
