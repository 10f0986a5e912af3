"""Takes files from a dead sandbox: regular ones only, never through a link, within limits."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog

from overnight.contracts.execution import Collected

MAX_FILES = 10_000
MAX_ENTRIES = 100_000  #: looked at in all, whatever they are
MAX_DEPTH = 32
CHUNK_BYTES = 1024 * 1024
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

log = structlog.get_logger()


class Choice:
    """What of a folder is wanted: relative paths of files or folders; "." is all of it."""

    def __init__(self, keep: Iterable[str] = (".",), without: Iterable[str] = ()) -> None:
        self._keep = {posixpath.normpath(path) for path in keep}
        self._without = {posixpath.normpath(path) for path in without}
        self._ways = {above for path in self._keep for above in _above(path)}

    def wants(self, path: str) -> bool:
        """Is *path* chosen, or a folder on the way to what is?"""
        here = {path, *_above(path)}
        if here & self._without:
            return False
        return "." in self._keep or bool(here & self._keep) or path in self._ways


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


ALL = Choice()


def collect(out: Path, into: Path, limit_bytes: int, choice: Choice = ALL) -> tuple[Collected, ...]:
    """Copy what may be taken from *out* to *into*, in sorted order until a limit is met.

    Links, hard links, pipes, sockets, devices and odd names are left out, and counted in the log.
    No link is followed in *into* either, which may be another user's: it gets what is made there.
    """
    into.mkdir(exist_ok=True)
    taken: list[Collected] = []
    left_bytes, refused = limit_bytes, 0
    target = Target(into)
    try:
        for folder, path, name in _entries(out, choice):
            if len(taken) >= MAX_FILES:
                refused += 1
                continue
            size = _take(folder, name, (target, path), left_bytes) if _is_plain(path) else None
            if size is None:
                refused += 1
            else:
                left_bytes -= size
                taken.append(Collected(path=path, size_bytes=size))
    finally:
        target.close()
    if refused:
        log.warning("collect_refused", refused=refused, taken=len(taken))
    return tuple(taken)


class Target:
    """A folder that files are made in, by descriptors: whoever moves things there moves nothing of
    ours elsewhere.

    As root we write into no other user's folder below it, and over no mount that was put there: its
    owner could not do so either.
    """

    def __init__(self, folder: Path) -> None:
        self._top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(self._top)
        self._owner = (status.st_uid, status.st_gid)
        self._mount = _mount_of(self._top)

    def create(self, path: str) -> int:
        """A new file, open for writing, with its folders. Raises OSError."""
        *folders, name = path.split("/")
        current = os.dup(self._top)
        try:
            for folder in folders:
                deeper = self._enter(current, folder)
                os.close(current)
                current = deeper
            copy = os.open(name, CREATE_FILE, 0o644, dir_fd=current)
        finally:
            os.close(current)
        self._give(copy)
        return copy

    def close(self) -> None:
        """Let go of it."""
        os.close(self._top)

    def _enter(self, current: int, name: str) -> int:
        made = False
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=current)
            made = True
        deeper = os.open(name, OPEN_FOLDER, dir_fd=current)
        try:
            self._check(deeper, name, made=made)
            if made:
                self._give(deeper)
        except BaseException:
            os.close(deeper)
            raise
        return deeper

    def _check(self, descriptor: int, name: str, *, made: bool) -> None:
        if os.geteuid() != 0:
            return
        theirs = made or os.fstat(descriptor).st_uid == self._owner[0]
        if not theirs or _mount_of(descriptor) != self._mount:
            raise PermissionError(errno.EPERM, "another user's folder is in the way", name)

    def _give(self, descriptor: int) -> None:
        if os.geteuid() == 0 and self._owner != (0, 0):
            os.fchown(descriptor, *self._owner)


def _mount_of(descriptor: int) -> str:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next((line for line in lines if line.startswith("mnt_id:")), "")


def _entries(out: Path, choice: Choice) -> Iterator[tuple[int, str, str]]:
    """(descriptor of its folder, relative path, name) of everything that is not a folder."""
    queue = [("", 0)]
    seen = 0
    while queue:
        prefix, depth = queue.pop()
        try:
            descriptor = open_below(out, prefix)
        except OSError:
            continue  # the candidate closed it to us: its loss
        try:
            for name in sorted(os.listdir(descriptor)):
                seen += 1
                if seen > MAX_ENTRIES:
                    return
                path = f"{prefix}/{name}" if prefix else name
                if choice is not ALL and not choice.wants(path):
                    continue
                mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                if not stat.S_ISDIR(mode):
                    yield descriptor, path, name
                elif depth < MAX_DEPTH and _is_plain(path):
                    queue.append((path, depth + 1))
        finally:
            os.close(descriptor)


def open_below(top: Path, folder: str, *, top_flags: int = OPEN_FOLDER) -> int:
    """A descriptor of *folder* in *top*, by no link on the way; *top_flags* open *top* itself.

    Raises OSError where a link or a file stands for a folder.
    """
    descriptor = os.open(top, top_flags)
    for name in folder.split("/") if folder else []:
        try:
            deeper = os.open(name, OPEN_FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def _is_plain(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return path.isprintable() and "\\" not in path


def _take(folder: int, name: str, to: tuple[Target, str], limit_bytes: int) -> int | None:
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return None
        source = os.open(name, OPEN_FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return None
        if status.st_size > limit_bytes:
            return None
        target, path = to
        copy = target.create(path)
        try:
            return _copy(source, copy, status.st_size)
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy(source: int, copy: int, size: int) -> int:
    """Data where the source has data and holes where it has holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
            end = min(size, os.lseek(source, start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno == errno.ENXIO:
                break  # nothing but a hole from here on
            raise
        os.lseek(source, start, os.SEEK_SET)
        os.lseek(copy, start, os.SEEK_SET)
        while start < end and (chunk := os.read(source, min(CHUNK_BYTES, end - start))):
            view = memoryview(chunk)
            while view:
                view = view[os.write(copy, view) :]
            start += len(chunk)
        if start < end:
            break  # it became shorter
    os.ftruncate(copy, size)
    return size
