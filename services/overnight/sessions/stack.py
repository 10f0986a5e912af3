"""stack.json: the embedded stack that runs for a session now; and asking it for something."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from overnight.configuration import process_environ
from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, UsageError, WireError
from overnight.contracts.rows import Control, LedgerMessage
from overnight.contracts.status import ControlAction, RowKind
from overnight.contracts.untrusted import one_line
from overnight.ledger.files import SessionFiles
from overnight.ledger.lock import is_held

STACK_VERSION = 1
STACK_BYTES = 4000  #: at least; more than it needs, so that the file never grows
ACK_SECONDS = 10.0  #: how long a verb waits for the recorder


@dataclass
class Stack:
    """What runs. pids are for people; who holds the lock decides whether it still does."""

    pid: int  #: the supervisor's; 0 where services run without one, most likely in containers
    redis_url: str
    children: dict[str, int] = field(default_factory=dict)
    endpoints: dict[str, str] = field(default_factory=dict)
    isolation: str | None = None
    waiting: dict[str, str] = field(default_factory=dict)  #: service -> what for
    lock: str | None = None  #: identity of the session's lock: a copied folder has another
    v: int = STACK_VERSION

    def write(self, files: SessionFiles) -> None:
        """Renamed into place; on a full disk written over the old one, which takes no space.

        Raises:
            OSError: the disk refuses that too.
        """
        text = json.dumps(asdict(self), indent=1).ljust(STACK_BYTES)
        temporary = files.stack.with_suffix(".tmp")
        try:
            temporary.write_text(text)
            os.replace(temporary, files.stack)
        except OSError:
            temporary.unlink(missing_ok=True)
            with files.stack.open("r+") as file:
                file.write(text)


def file_identity(path: Path) -> str | None:
    """The same for a file that was moved, another for its copy; None when it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return f"{status.st_dev}:{status.st_ino}"


def read_stack(files: SessionFiles) -> Stack | None:
    """The stack of this session, None when none runs.

    Raises:
        InfrastructureError: one runs, but what it wrote can't be read.
    """
    try:
        plain: dict[str, Any] = json.loads(files.stack.read_text())
        if plain["pid"] == 0 and not is_held(files.session_lock):
            return None
        with contextlib.suppress(PermissionError):  # another user's
            os.kill(plain["pid"] or os.getpid(), 0)
        wire.check_version("stack", plain, STACK_VERSION)
        stack = TypeAdapter(Stack).validate_json(json.dumps(plain), strict=True)
        copied = stack.lock is not None and stack.lock != file_identity(files.session_lock)
        return None if copied else stack
    except (FileNotFoundError, ProcessLookupError):
        return None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        why = one_line(f"{where}: {first['msg']}", 200)
        raise InfrastructureError(f"{files.stack}: {why}") from error
    except (WireError, OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise InfrastructureError(f"{files.stack}: {error}") from error
    except RecursionError as error:
        raise InfrastructureError(f"{files.stack}: nested too deep") from error


def in_reach(stack: Stack) -> bool:
    """Can its Redis be asked from here? That of services is the one that REDIS_URL names."""
    return stack.pid != 0 or process_environ().get("REDIS_URL") == stack.redis_url


def not_running(files: SessionFiles) -> str:
    """That none runs, with the command that starts one where the last one was started."""
    try:
        services = json.loads(files.stack.read_text())["pid"] == 0
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        services = False
    again = "docker compose up -d" if services else "overnight up"
    return f"no stack runs for this session: {again}"


def require_stack(files: SessionFiles) -> Stack:
    """One that can be asked for something from here.

    Raises:
        InfrastructureError: none runs, or it runs in containers, and its Redis is out of reach.
    """
    stack = read_stack(files)
    if stack is None:
        raise InfrastructureError(not_running(files))
    if not in_reach(stack):
        raise InfrastructureError(
            "this session runs as services, whose Redis is not in reach from here: put "
            "`docker compose run --rm cli` in the place of `overnight`"
        )
    return stack


def fresh_socket_folder(base: Path, sid: str) -> Path:
    """A new private folder for the sockets of session *sid*, whose lock the caller holds.

    What a supervisor that was killed left there is removed; one that lives runs a copy of the
    session's folder, and keeps its own. Its name is never used again, so that
    nothing of a dying stack reaches the new one.

    Raises:
        InfrastructureError: *base* can't be made, or is another user's.
    """
    try:
        for left in base.glob(f"{sid}-*"):
            if not _is_held(left):
                shutil.rmtree(left, ignore_errors=True)
        while True:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                status = base.lstat()
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                    raise InfrastructureError(
                        f"{base} belongs to somebody else: set OVERNIGHT_STATE"
                    )
                return Path(tempfile.mkdtemp(prefix=f"{sid}-", dir=base))
            except FileNotFoundError:
                continue  # another session, the last one there, has just removed it
    except OSError as error:
        raise InfrastructureError(f"{base}: {error.strerror}") from error


def hold_socket_folder(folder: Path) -> int:
    """Nobody takes it for a dead stack's until the descriptor is closed, or we are dead.

    Raises:
        InfrastructureError: it is gone.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_SH)
    except OSError as error:
        raise InfrastructureError(f"{folder}: {error.strerror}") from error
    return fd


def _is_held(folder: Path) -> bool:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def remove_socket_folder(folder: Path) -> None:
    """Remove a stack's folder, and the place where it lay when nothing else is there."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def wait_until_gone(files: SessionFiles, timeout_seconds: float) -> None:
    """Until no stack runs for this session. Raises InfrastructureError when that takes too long."""
    deadline = time.monotonic() + timeout_seconds
    while (stack := read_stack(files)) is not None:
        if time.monotonic() >= deadline:
            raise InfrastructureError(
                f"the session is still running after {timeout_seconds:g} s"
                + (f" (pid {stack.pid})" if stack.pid else "")
            )
        time.sleep(0.05)


def ask(
    redis_url: str,
    sid: str,
    action: ControlAction,
    *,
    why: str = "",
    by: str = "cli",
    stop: Callable[[], bool] = lambda: False,
    deadline_seconds: float = ACK_SECONDS,
) -> int:
    """Write a control row of the session as a whole; as `tell`."""
    control = Control(action=action, by=by, why=why[:500])
    key = f"control:{secrets.token_hex(8)}"
    return tell(redis_url, sid, key, control, stop=stop, deadline_seconds=deadline_seconds)


def tell(
    redis_url: str,
    sid: str,
    key: str,
    control: Control,
    *,
    stop: Callable[[], bool] = lambda: False,
    deadline_seconds: float = ACK_SECONDS,
) -> int:
    """Write a control row and return its seq once it is on the disk.

    Raises:
        UsageError: refused, e.g. resume of a session that runs; says why.
        InfrastructureError: not acked in time.
    """
    # Here and not at the top: most verbs only read, and must start fast.
    from overnight.jobqueue.connection import connect
    from overnight.jobqueue.stream import LedgerSender

    message = LedgerMessage(key=key, kind=RowKind.CONTROL, body=wire.dump(control))
    sender = LedgerSender(connect(redis_url), sid)
    ack = sender.send_until_acked(message, stop=stop, deadline_seconds=deadline_seconds)
    if ack.refused or ack.seq is None:
        raise UsageError(ack.reason or "refused")
    return ack.seq
