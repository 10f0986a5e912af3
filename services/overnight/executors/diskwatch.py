"""How much disk a running sandbox takes in its folders; looked at by a thread of its own.

A walk may take seconds where a candidate has made a million files, so it is never done by the loop
that has a deadline to keep. No link is followed, and what was unlinked but is still open is counted
through /proc.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

LOOK_SECONDS = 1.0  #: between two walks, at least
EFFORT = 20  #: times the walk's own length between two walks, at most a twentieth of a core
BLOCK_BYTES = 512  #: of st_blocks, whatever the file system's own
MAX_OPEN_FILES = 20_000  #: looked at for unlinked ones in one round
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Quota:
    """What all files of a sandbox may take together. None: no limit."""

    space: int | None  #: bytes
    files: int | None  #: inodes


@dataclass
class Usage:
    """What they take."""

    space: int = 0
    files: int = 0

    def exceeds(self, quota: Quota) -> str | None:
        """What is too much, in words; None when nothing is."""
        if quota.space is not None and self.space > quota.space:
            return f"more than {quota.space / 1024**2:.0f} MiB of disk"
        if quota.files is not None and self.files > quota.files:
            return f"more than {quota.files} files"
        return None


class DiskWatch:
    """Use as a context manager around the command; *on_over* is called once, from the thread."""

    def __init__(
        self,
        folder: Path,
        quota: Quota,
        members: Callable[[], Iterable[int]],
        on_over: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._quota = quota
        self._members = members
        self._on_over = on_over
        self._over = Event()
        self._thread = Thread(target=self._watch, name="disk", daemon=True)

    def __enter__(self) -> DiskWatch:
        if self._quota != Quota(None, None):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        pause = LOOK_SECONDS
        while not self._over.wait(pause):
            began = time.monotonic()
            usage = Usage()
            measure(self._folder, self._quota, usage, self._over.is_set)
            if usage.exceeds(self._quota) is None:
                add_unlinked(self._members(), _device(self._folder), usage)
            too_much = usage.exceeds(self._quota)
            if too_much is not None:
                self._on_over(too_much)
                return
            pause = max(LOOK_SECONDS, EFFORT * (time.monotonic() - began))


def measure(folder: Path, quota: Quota, usage: Usage, stop: Callable[[], bool]) -> None:
    """Add all below *folder* to *usage*; ends early when that is too much already."""
    queue = [""]
    while queue and not stop():
        current = queue.pop()
        try:
            descriptor = _open(folder, current)
        except OSError:
            continue  # gone meanwhile, or swapped for a link
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        usage.files += 1
                        names = 1
                        if stat.S_ISDIR(status.st_mode):
                            queue.append(f"{current}/{entry.name}" if current else entry.name)
                        else:
                            names = max(1, status.st_nlink)  # all its names count as one file
                        usage.space += status.st_blocks * BLOCK_BYTES // names
                    if usage.exceeds(quota) is not None:
                        return
        finally:
            os.close(descriptor)


def _open(folder: Path, below: str) -> int:
    """Also where a path is longer than the kernel takes, or the candidate locked us out."""
    try:
        return os.open(folder / below, OPEN_FOLDER)
    except PermissionError:
        handle = os.open(folder / below, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # by handle: a name may be a link by now
            return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
    descriptor = os.open(folder, OPEN_FOLDER)
    for name in below.split("/"):
        try:
            deeper = os.open(name, OPEN_FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def add_unlinked(pids: Iterable[int], device: int, usage: Usage) -> None:
    """Add files of that file system that have no name any more but are held open."""
    seen: set[int] = set()
    looked = 0
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            looked += 1
            if looked > MAX_OPEN_FILES:
                return
            with contextlib.suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                fresh = status.st_nlink == 0 and status.st_dev == device
                if fresh and stat.S_ISREG(status.st_mode) and status.st_ino not in seen:
                    seen.add(status.st_ino)
                    usage.files += 1
                    usage.space += status.st_blocks * BLOCK_BYTES


def _device(folder: Path) -> int:
    try:
        return folder.stat().st_dev
    except OSError:
        return -1
