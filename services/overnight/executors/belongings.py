"""What a sandbox has beside its walls: folders with the tree and the results, and a trace of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from overnight.contracts.execution import Collected, SandboxSpec
from overnight.executors.cage import unavailable
from overnight.executors.collect import Choice, collect
from overnight.executors.diskwatch import DiskWatch, Quota
from overnight.executors.records import Record, UserSlot
from overnight.executors.tree import Place

log = structlog.get_logger()


class Belongings(Protocol):
    """Filled once, watched while the command runs, taken from when it is dead, released."""

    def fill(self, snapshot: Path) -> list[str]:
        """Give the command its own copy; relative paths of its files."""
        ...

    def watch(
        self, members: Callable[[], Iterable[int]], on_over: Callable[[str], None]
    ) -> AbstractContextManager[object]:
        """While inside, *on_over* is told when its files take more than they may."""
        ...

    def collect(self, into: Path) -> tuple[Collected, ...]:
        """Of /out."""
        ...

    def take(self, into: Path) -> tuple[Collected, ...]:
        """Of the working directory, what `keep` names."""
        ...

    def remove(self) -> bool:
        """The folders; False if something stayed."""
        ...

    def release(self, gone: bool) -> None:
        """Forget it when all is *gone*; else leave it to a later `reconcile`."""
        ...


@dataclass(frozen=True)
class HostBelongings:
    """On this host, held by the process that runs the sandbox."""

    spec: SandboxSpec
    record: Record
    slot: UserSlot | None
    place: Place

    def fill(self, snapshot: Path) -> list[str]:
        """Copy it."""
        with unavailable(f"the snapshot {snapshot} could not be copied"):
            return self.place.fill(snapshot)

    def watch(
        self, members: Callable[[], Iterable[int]], on_over: Callable[[str], None]
    ) -> DiskWatch:
        """By walking through its folders."""
        quota = Quota(self.spec.limits.disk_bytes, self.spec.limits.disk_files)
        return DiskWatch(self.place.scratch, quota, members, on_over)

    def collect(self, into: Path) -> tuple[Collected, ...]:
        """Of /out."""
        with unavailable("what the command left could not be taken"):
            return collect(self.place.out, into, self.spec.limits.out_bytes)

    def take(self, into: Path) -> tuple[Collected, ...]:
        """Of the working directory."""
        choice = Choice(self.spec.keep, self.spec.frozen)
        with unavailable("what the command left could not be taken"):
            return collect(self.place.work, into, self.spec.limits.out_bytes, choice)

    def remove(self) -> bool:
        """The folders."""
        try:
            self.place.remove()
        except OSError as error:
            log.error("sandbox_not_removed", scratch=str(self.spec.scratch), error=str(error))
            return False
        return True

    def release(self, gone: bool) -> None:
        """In any case the record is let go: held by a runner that lives, it would look alive."""
        if gone:
            self.record.remove()
        else:
            self.record.abandon()
        if self.slot is not None:
            self.slot.release()
