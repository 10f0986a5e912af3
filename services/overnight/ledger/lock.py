"""A file that one process holds: its lock dies with the holder, its text is the holder's pid."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from overnight.contracts.errors import InfrastructureError, SessionHeldError


def hold(path: Path, refusal: Callable[[str], str]) -> int:
    """Hold *path* until the returned descriptor is closed.

    refusal: the message for a user, given the holder's pid.

    Raises:
        SessionHeldError: another process holds it.
        InfrastructureError: the folder can't be written.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InfrastructureError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise SessionHeldError(refusal(holder)) from error
    with contextlib.suppress(OSError):  # it is held all the same; the text is for people
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def is_held(path: Path) -> bool:
    """Does another process hold it? Only looks: the file stays as it is."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
