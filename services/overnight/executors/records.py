"""What outlives a killed runner on this host: one locked record a sandbox, one lock a user id.

A record's lock is held for as long as its owner lives; whoever gets the lock of a record knows
that the owner is dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
MAX_BYTES = 64 * 1024  #: a record has a few hundred
_TOKEN = re.compile(r"[0-9a-f]{16,64}")
OPEN_RECORD = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
    scratch: Path | None  #: None where the record is damaged and doesn't say
    cgroup_own: str  #: /proc/self/cgroup of the runner, to find the groups again
    labels: Mapping[str, str] = field(default_factory=dict)

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
    token = new_token(folder)
    new, path = folder / f"new-{token}", folder / f"sandbox-{token}.json"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    _locked(lock)  # before it has its name, so that nobody finds it unlocked
    about = {"labels": dict(labels), "scratch": str(scratch), "token": token, "own": cgroup_own}
    body = {"v": VERSION, **about}
    os.write(lock, json.dumps(body).encode())
    os.rename(new, path)
    return Record(path, lock, token, scratch, cgroup_own, dict(labels))


def new_token(folder: Path) -> str:
    """A sandbox's name, which also says whose it is: *folder*, then our pid, then chance."""
    return f"{folder_mark(folder)}{os.getpid():08x}{secrets.token_hex(8)}"


def folder_mark(folder: Path) -> str:
    """The start of all tokens of *folder*: what carries it belongs to nobody else."""
    status = folder.stat()
    return hashlib.sha256(f"{status.st_dev}:{status.st_ino}".encode()).hexdigest()[:8]


def owner_of(token: str) -> int:
    """The process that made *token*; its number may be another's by now."""
    return int(token[8:16], 16)


def is_recorded(folder: Path, token: str) -> bool:
    """Is there a record of it, whoever holds that?"""
    return (folder / f"sandbox-{token}.json").exists()


def held(folder: Path, labels: Mapping[str, str]) -> int:
    """How many records with *labels* have an owner who lives."""
    count = 0
    for path in _paths(folder):
        lock = _open(path)
        if lock is None:
            continue
        try:
            body = _read(lock)
            count += body is not None and _carries(body, labels) and not _locked(lock)
        except VersionError:
            continue
        finally:
            os.close(lock)
    return count


def abandoned(folder: Path, labels: Mapping[str, str]) -> Iterator[Record]:
    """Records that carry *labels* and whose owner is dead; ours now, remove each.

    One that can't be read has only its token; it is among all of the host's (no labels). One of
    another version is left to the runners of that version.
    """
    for path in _paths(folder):
        lock = _open(path)
        if lock is None:
            continue
        try:
            body = _read(lock)
        except VersionError as error:
            log.warning("record_left_alone", record=str(path), reason=str(error))
            os.close(lock)
            continue
        wanted = not labels if body is None else _carries(body, labels)
        if not wanted or not _locked(lock) or not path.exists():
            os.close(lock)
            continue
        token = path.stem.removeprefix("sandbox-")
        if body is None:
            log.warning("record_damaged", record=str(path))
            yield Record(path, lock, token, None, "")
            continue
        yield Record(path, lock, token, Path(body["scratch"]), body["own"], body["labels"])


def unfinished(folder: Path) -> Iterator[Path]:
    """What a killed runner left half-made: records without a name, folders of a trial."""
    for path in sorted(folder.iterdir()):
        kind, _, rest = path.name.partition("-")
        pid = rest.partition("-")[0]
        if kind == "new" and _TOKEN.fullmatch(rest):
            pid = str(owner_of(rest))
        if kind in ("new", "probe") and pid.isdigit() and not is_alive(int(pid)):
            yield path


def is_alive(pid: int) -> bool:
    """Is there such a process, whoever's?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _paths(folder: Path) -> list[Path]:
    found = sorted(folder.glob("sandbox-*.json"))
    return [path for path in found if _TOKEN.fullmatch(path.stem.removeprefix("sandbox-"))]


def _open(path: Path) -> int | None:
    """A descriptor of a regular file; None where something else has the name, or nothing."""
    try:
        descriptor = os.open(path, OPEN_RECORD)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _read(descriptor: int) -> dict[str, Any] | None:
    """None for one that is damaged. Raises VersionError."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        body = json.loads(os.pread(descriptor, MAX_BYTES, 0))
        if not isinstance(body, dict) or type(body.get("v", VERSION)) is not int:
            return None
        wire.check_version("sandbox record", body, VERSION)
        texts = all(isinstance(body.get(name), str) for name in ("scratch", "token", "own"))
        if texts and isinstance(body.get("labels"), dict) and body["scratch"].startswith("/"):
            return body
    return None


def _carries(body: dict[str, Any], labels: Mapping[str, str]) -> bool:
    return all(body["labels"].get(key) == labels[key] for key in labels)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
