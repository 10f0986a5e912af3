"""A device on which something lives after its sandbox was ended, or that is in trouble itself: no
job runs there until that is over.

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

from overnight.contracts.errors import SandboxAwayError
from overnight.contracts.execution import Executor, Stuck
from overnight.runner.cards import Trouble

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
    beside: tuple[Notice, ...] = ()  #: of its further devices
    trouble: Callable[[], Trouble | None] = lambda: None  #: what the devices themselves say

    def wait(self) -> bool:
        """End what is left on the device, for as long as it takes; was it free at once?

        Returns False early when this runner is told to end.
        """
        began, said = time.monotonic(), False
        while (why := self._why()) is not None:
            if not said and time.monotonic() - began >= why.grace_seconds:
                said = True
                log.error("device_quarantined", device=self.device, reason=why.reason)
                for notice in (self.notice, *self.beside) if why.is_news else ():
                    notice.post(why.reason, why.pids)
                self.set_gauge(1)
                reason = why.reason.removeprefix(f"{self.device}: ")
                self.say_waiting(f"{self.device} is quarantined: {reason}")
            if self._stops_within(LOOK_SECONDS if said else 0.1):
                return False
        if said:
            log.info("quarantine_lifted", device=self.device)
            self.set_gauge(0)
            self.say_waiting(None)
        for notice in (self.notice, *self.beside):
            notice.lift()
        return not said

    def _why(self) -> Trouble | None:
        try:
            own = self.executor.reconcile({"sid": self.sid, "runner": self.runner})
            stuck = (*own.stuck, *self.executor.reconcile({"device": self.device}).stuck)
        except SandboxAwayError:
            # Who comes back ends what is left before it makes the next one, and a job waits for it.
            return self.trouble()
        if stuck:
            return Trouble(reason=stuck[0].reason, pids=_pids(stuck))
        if own.held:
            reason = "a sandbox of this slot has an owner that lives"
            return Trouble(reason=reason, grace_seconds=HELD_SECONDS, is_news=False)
        noticed = next(filter(None, (one.stands() for one in (self.notice, *self.beside))), None)
        return self.trouble() if noticed is None else Trouble(reason=noticed, is_news=False)

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
