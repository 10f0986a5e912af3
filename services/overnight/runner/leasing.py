"""Leasing the devices that each experiment of this worker gets: all of them, or none.

Workers of one session lease one after the other, so that none takes from another what that one
waits for; workers of other sessions may hold what they have for hours, and are waited for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from overnight.contracts.errors import SessionHeldError
from overnight.runner.hardware import DeviceLock

log = structlog.get_logger()

POLL_SECONDS = 0.5
TURN_SECONDS = 5.0  #: a worker that waits longer for its turn says so


class TurnLock(DeviceLock):
    """Whose turn it is to lease among the workers of one session."""

    kind = "turn lock"

    def __init__(self, folder: Path, sid: str) -> None:
        super().__init__(folder, f"turn-{sid}")

    @property
    def name(self) -> str:
        """What people see of it."""
        return "the turn to lease devices"


@dataclass(frozen=True)
class Lease:
    """Devices that are ours until we let go, or end."""

    devices: tuple[str, ...]
    locks: tuple[DeviceLock, ...]

    def release(self) -> None:
        """Let go."""
        for lock in self.locks:
            lock.release()


@dataclass(frozen=True, kw_only=True)
class Leasing:
    """Of one worker."""

    folder: Path  #: the host's device locks
    turn: TurnLock | None  #: None: there is no choice, so that nobody stands in the way
    wanted: tuple[str, ...]  #: the ones that it may take, the preferred ones first
    needs: int  #: how many
    unfit: Callable[[str], str | None] = lambda device: None  #: why it can't be used now
    poll_seconds: float = POLL_SECONDS

    def acquire(
        self, stop: Callable[[], bool], on_wait: Callable[[str | None], None] = lambda why: None
    ) -> Lease:
        """Wait until so many are free and fit; tells *on_wait* why, and each time it changes.

        Raises:
            SessionHeldError: *stop* said so before they were.
            InfrastructureError: the lock folder can't be used.
        """
        said = self._wait_for_turn(stop, on_wait)
        try:
            while True:
                got, why = self._try()
                if got is not None:
                    if said is not None:
                        on_wait(None)
                    return got
                if why != said:
                    log.warning("devices_busy", reason=why)
                    on_wait(why)
                    said = why
                if stop():
                    raise SessionHeldError(why)
                # Two sessions that try at once, and each gets a part, must not meet for ever.
                time.sleep(self.poll_seconds * random.uniform(0.5, 1.5))  # noqa: S311
        finally:
            if self.turn is not None:
                self.turn.release()

    def can_replace(self, lease: Lease) -> bool:
        """Would a worker that let go of *lease* find devices that are all fit now?"""
        fit = sum(self.unfit(device) is None for device in lease.devices)
        for device in self.wanted:
            if device in lease.devices or self.unfit(device) is not None:
                continue
            lock = DeviceLock(self.folder, device)
            if lock.try_acquire():
                lock.release()
                fit += 1
        return fit >= self.needs

    def _wait_for_turn(
        self, stop: Callable[[], bool], on_wait: Callable[[str | None], None]
    ) -> str | None:
        """What was said meanwhile: workers that start together wait for moments, which is no news.

        Raises:
            SessionHeldError: *stop* said so before it was ours.
        """
        said: str | None = None
        began = time.monotonic()
        while self.turn is not None and not self.turn.try_acquire():
            if stop():
                raise SessionHeldError(f"{self.turn.name} did not come")
            if said is None and time.monotonic() - began > TURN_SECONDS:
                said = f"{self.turn.name} is pid {self.turn.holder()}'s"
                on_wait(said)
            time.sleep(self.poll_seconds / 5)
        return said

    def _try(self) -> tuple[Lease | None, str]:
        taken: list[tuple[str, DeviceLock]] = []
        problems: list[str] = []
        for device in self.wanted:
            if len(taken) == self.needs:
                break
            unfit = self.unfit(device)
            if unfit is not None:
                problems.append(unfit)
                continue
            lock = DeviceLock(self.folder, device)
            if lock.try_acquire():
                taken.append((device, lock))
            else:
                problems.append(f"{lock.name} is held by pid {lock.holder()}")
        if len(taken) == self.needs:
            return Lease(tuple(d for d, _ in taken), tuple(lock for _, lock in taken)), ""
        for _, lock in taken:
            lock.release()
        return None, _told(self.needs, len(taken), problems)


def _told(needs: int, free: int, problems: Sequence[str]) -> str:
    first = problems[0] if problems else "there are no more"
    more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
    return first if needs == 1 else f"needs {needs} devices, {free} are free: {first}{more}"
