"""A file that one process holds: its lock dies with the holder, its text is the holder's pid."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from overnight.contracts.errors import InfrastructureError, SessionHeldError
from overnight.ledger.files import SessionFiles

SERVICES = "services"  #: stands in a session's lock where services without a supervisor run for it
_LOOKED_AT_SECONDS = (0.02, 0.1)  #: `is_held` holds it for a moment


def hold(path: Path, refusal: Callable[[str], str], name: str | None = None) -> int:
    """Hold *path* until the returned descriptor is closed.

    refusal: the message for a user, given what the holder wrote into it.
    name: what to write into it; our pid by default.

    Raises:
        SessionHeldError: another process holds it.
        InfrastructureError: the folder can't be written.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InfrastructureError(f"{path}: {error.strerror}") from error
    try:
        _take(fd)
    except BlockingIOError as error:
        holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise SessionHeldError(refusal(holder)) from error
    with contextlib.suppress(OSError):  # it is held all the same; the text is for people
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{name or os.getpid()}\n".encode(), 0)
    return fd


def hold_session(files: SessionFiles, name: str | None = None) -> int:
    """Hold a session, as `hold`: whoever does lets it run.

    Raises:
        SessionHeldError: names the holder, and what to do.
        InfrastructureError: the folder can't be written.
    """

    def refusal(holder: str) -> str:
        whom, end = f"pid {holder}", "overnight stop"
        if holder == SERVICES:
            whom, end = "as services", "docker compose down"
        return (
            f"session {files.root} is running already ({whom}): "
            f"watch it with `overnight watch`, end it with `{end}`"
        )

    return hold(files.session_lock, refusal, name)


def _take(fd: int) -> None:
    for pause in _LOOKED_AT_SECONDS:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
