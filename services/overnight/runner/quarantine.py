"""A device on which something lives after its sandbox was ended: no job runs there until it's gone.

The reason lies beside the device's lock, so that the next runner of whatever session knows it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from overnight.contracts.execution import Executor, Stuck

log = structlog.get_logger()

LOOK_SECONDS = 2.0  #: between two tries to end what is left
HELD_SECONDS = 10.0  #: another runner of this host may be ending it just now


@dataclass(frozen=True)
class Notice:
    """The file `<device>.quarantined`: why, and which processes."""

    path: Path

    def post(self, reason: str, pids: Iterable[int]) -> None:
        """Say why nobody may use the device. A disk that refuses it changes nothing."""
        living = {str(pid): began for pid in pids if (began := _began(pid)) is not None}
        beside = self.path.with_suffix(f".{os.getpid()}")
        try:
            beside.write_text(json.dumps({"reason": reason, "pids": living}) + "\n")
            os.replace(beside, self.path)
        except OSError as error:
            log.warning("notice_not_written", path=str(self.path), reason=str(error))

    def stands(self) -> str | None:
        """The reason, while one of its processes lives; whoever wrote it."""
        try:
            said = json.loads(self.path.read_bytes()[:65536])
            reason, pids = str(said["reason"])[:500], dict(said["pids"])
            alive = any(_began(int(pid)) == began for pid, began in pids.items())
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return reason if alive else None

    def lift(self) -> None:
        """The device is free again. Another user's notice of the dead stays, and means nothing."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


@dataclass
class Quarantine:
    """Of one runner's device."""

    executor: Executor
    sid: str
    runner: str
    device: str
    notice: Notice
    should_stop: Callable[[], bool]
    say_waiting: Callable[[str | None], None]
    set_gauge: Callable[[float], None]

    def wait(self) -> bool:
        """End what is left on the device, for as long as it takes; was it free at once?

        Returns False early when this runner is told to end.
        """
        began, said = time.monotonic(), False
        while (why := self._why()) is not None:
            reason, pids, is_sure = why
            if not said and (is_sure or time.monotonic() - began > HELD_SECONDS):
                said = True
                log.error("device_quarantined", device=self.device, reason=reason)
                if pids:
                    self.notice.post(reason, pids)
                self.set_gauge(1)
                self.say_waiting(f"{self.device} is quarantined: {reason}")
            if self._stops_within(LOOK_SECONDS if said else 0.1):
                return False
        if said:
            log.info("quarantine_lifted", device=self.device)
            self.set_gauge(0)
            self.say_waiting(None)
        self.notice.lift()
        return not said

    def _why(self) -> tuple[str, tuple[int, ...], bool] | None:
        """The reason, what lives if we know, and whether it may not pass by itself at once."""
        own = self.executor.reconcile({"sid": self.sid, "runner": self.runner})
        stuck = (*own.stuck, *self.executor.reconcile({"device": self.device}).stuck)
        if stuck:
            return stuck[0].reason, _pids(stuck), True
        if own.held:
            return "a sandbox of this slot has an owner that lives", (), False
        noticed = self.notice.stands()
        return None if noticed is None else (noticed, (), True)

    def _stops_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self.should_stop():
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        return True


def _pids(stuck: Iterable[Stuck]) -> tuple[int, ...]:
    return tuple(sorted({pid for each in stuck for pid in each.pids}))


def _began(pid: int) -> int | None:
    """When a live process began, in ticks since boot: tells it from a later one with its number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
