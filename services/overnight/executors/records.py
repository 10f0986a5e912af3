"""What outlives a killed runner on this host: one locked record a sandbox, one lock a user id.

A record's lock is held for as long as its owner lives; whoever gets the lock of a record knows
that the owner is dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import SandboxUnavailableError, VersionError

log = structlog.get_logger()

NAME = "process"  #: of the executor, in errors
VERSION = 1  #: of a record
#: Neither people, services, containers nor dynamic users get these.
FIRST_UID, UIDS = 60600, 512


@dataclass(frozen=True)
class UserSlot:
    """One unprivileged user, ours alone on this host until released."""

    uid: int
    lock: int

    def release(self) -> None:
        """Let another sandbox have it."""
        os.close(self.lock)


@dataclass(frozen=True)
class Record:
    """One sandbox's trace on disk."""

    path: Path
    lock: int
    token: str  #: names its control groups and marks its processes
    scratch: Path
    cgroup_own: str  #: /proc/self/cgroup of the runner, to find the groups again

    def remove(self) -> None:
        """Forget it: nothing of the sandbox is left."""
        self.path.unlink(missing_ok=True)
        os.close(self.lock)

    def abandon(self) -> None:
        """Leave it for a later `reconcile`: something of the sandbox could not be removed."""
        os.close(self.lock)


def open_folder(folder: Path) -> Path:
    """Make the lock folder, ours alone. Raises SandboxUnavailableError if it is another's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise SandboxUnavailableError(NAME, f"lock folder {folder}: {error.strerror}") from error
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != os.geteuid():
        raise SandboxUnavailableError(NAME, f"lock folder {folder} belongs to somebody else")
    folder.chmod(0o700)
    return folder


def claim_user(folder: Path, first: int = FIRST_UID, count: int = UIDS) -> UserSlot:
    """A user id that no other live sandbox of this host has."""
    for uid in range(first, first + count):
        lock = os.open(folder / f"uid-{uid}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _locked(lock):
            return UserSlot(uid, lock)
        os.close(lock)
    raise SandboxUnavailableError(NAME, f"all {count} user ids for sandboxes are taken")


def write(folder: Path, labels: Mapping[str, str], scratch: Path, cgroup_own: str) -> Record:
    """Record a sandbox before anything of it exists."""
    token = secrets.token_hex(8)
    new, path = folder / f"new-{token}", folder / f"sandbox-{token}.json"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    _locked(lock)  # before it has its name, so that nobody finds it unlocked
    about = {"labels": dict(labels), "scratch": str(scratch), "token": token, "own": cgroup_own}
    body = {"v": VERSION, **about}
    os.write(lock, json.dumps(body).encode())
    os.rename(new, path)
    return Record(path, lock, token, scratch, cgroup_own)


def abandoned(folder: Path, labels: Mapping[str, str]) -> Iterator[Record]:
    """Records that carry *labels* and whose owner is dead; ours now, remove each."""
    for path in sorted(folder.glob("sandbox-*.json")):
        body = _read(path)
        if body is None or any(body["labels"].get(key) != labels[key] for key in labels):
            continue
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        if not _locked(lock) or not path.exists():
            os.close(lock)
            continue
        yield Record(path, lock, body["token"], Path(body["scratch"]), body["own"])


def _read(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        body = json.loads(path.read_text())
        if isinstance(body, dict) and {"labels", "scratch", "token", "own"} <= body.keys():
            return body if _ours(path, body) else None
    return None


def _ours(path: Path, body: dict[str, Any]) -> bool:
    """A record of another version is left to the runners of that version."""
    try:
        wire.check_version("sandbox record", body, VERSION)
    except VersionError as error:
        log.warning("record_left_alone", record=str(path), reason=str(error))
        return False
    return True


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
