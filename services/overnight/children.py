"""One child of a supervisor or a fleet: a process session of its own, watched, started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.untrusted import one_line

log = structlog.get_logger()

LOG_BYTES = 8 * 1024**2  #: of a service's log and of the one before it, each
REASON_CHARACTERS = 300
LOG_LOOK_SECONDS = 1.0
QUICK_SECONDS = 10.0  #: a service that fails within this has done nothing useful

#: Runs a program so that the kernel ends it with its parent: one that knows nothing of lifelines,
#: and a service that is still importing and can't listen to its own yet.
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
parent = int(sys.argv[1])
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def dying_with_us(argv: Sequence[str]) -> tuple[str, ...]:
    """*argv* so that the kernel kills it with the thread that starts it, however that ends.

    On Linux; elsewhere only a service that has started dies with a supervisor that is killed hard.
    """
    if sys.platform != "linux":
        return tuple(argv)
    return (sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), *argv)


def service_argv(service: str, *words: str) -> tuple[str, ...]:
    """How a service of ours is started, by the interpreter that we run in."""
    return (sys.executable, "-m", f"overnight.{service}", *words)


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """What to start. A service gets a lifeline and says when it is ready."""

    name: str
    argv: tuple[str, ...]
    service: bool = True


@dataclass
class Child:
    """One running (or waiting to be restarted) child. Call from one thread that never ends."""

    spec: ChildSpec
    log_path: Path
    lifeline: int  #: read end; the supervisor alone holds the other
    backoff_seconds: float
    backoff_max_seconds: float
    process: subprocess.Popen[bytes] | None = None
    ready: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    waiting: str | None = None  #: what keeps it from being ready, in its own words
    early_deaths: int = 0  #: in a row, before it was ready
    quick_failures: int = 0  #: in a row, by itself and soon after its start, ready or not
    started_at: float = 0.0
    restarts: int = 0
    restart_at: float | None = None
    _ready_fd: int | None = None
    _said: bytes = b""
    _log_look_at: float = 0.0

    @property
    def pid(self) -> int | None:
        """None while it is not running."""
        return self.process.pid if self.process is not None else None

    def start(self) -> None:
        """Start it now."""
        self.ready, self.restart_at, self._said = False, None, b""
        self.started_at = time.monotonic()
        fds: tuple[int, ...] = ()
        argv: Sequence[str] = self.spec.argv
        if self.spec.service:
            self._ready_fd, write_end = os.pipe()
            os.set_blocking(self._ready_fd, False)
            fds = (self.lifeline, write_end)
            argv = (*argv, "--lifeline-fd", str(self.lifeline), "--ready-fd", str(write_end))
        try:
            self.log_path.parent.mkdir(exist_ok=True)  # somebody may have removed it since
            with self.log_path.open("ab") as sink:
                self.process = subprocess.Popen(
                    dying_with_us(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    pass_fds=fds,
                    start_new_session=True,
                )
        except OSError as error:
            self._close_ready()
            raise InfrastructureError(f"{self.spec.name}: {error}") from error
        finally:
            if self.spec.service:
                os.close(write_end)
        self.ready = not self.spec.service

    def poll(self) -> int | None:
        """Its exit code when it has just ended, else None. Notes readiness."""
        if self.process is None:
            return None
        self._bound_log()
        self._listen()
        code = self.process.poll()
        if code is None:
            return None
        self.early_deaths = 0 if self.ready else self.early_deaths + 1
        by_itself = code != -signal.SIGKILL
        quick = time.monotonic() - self.started_at < QUICK_SECONDS
        self.quick_failures = self.quick_failures + 1 if by_itself and quick else 0
        self.process = None
        self._close_ready()
        return code

    def restart_later(self) -> None:
        """After the back-off, which doubles with each death that came soon."""
        doublings = min(max(self.early_deaths, self.quick_failures, 1) - 1, 16)
        delay = min(self.backoff_seconds * 2**doublings, self.backoff_max_seconds)
        self.restart_at = time.monotonic() + delay
        self.restarts += 1

    def due(self) -> bool:
        """Is it time to start it again?"""
        return self.restart_at is not None and time.monotonic() >= self.restart_at

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def last_reason(self) -> str:
        """The last thing that its log gives as a reason; one line for the user."""
        end = b""
        for path in (self._older_log, self.log_path):
            with contextlib.suppress(OSError):
                end = (end + path.read_bytes())[-20_000:]
        lines = end.decode(errors="replace").splitlines()
        for line in reversed(lines):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and event.get("reason"):
                return one_line(str(event["reason"]), REASON_CHARACTERS)
        return one_line(lines[-1], REASON_CHARACTERS) if lines else ""

    def _listen(self) -> None:
        if self._ready_fd is None:
            return
        try:
            data = os.read(self._ready_fd, 65536)
        except BlockingIOError:
            return
        self._said += data
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "waiting" in said:
                self.waiting = said["waiting"]
                continue
            self.ready, self.early_deaths, self.details, self.waiting = True, 0, said, None
        if not data:
            self._close_ready()

    @property
    def _older_log(self) -> Path:
        return self.log_path.with_name(f"{self.log_path.name}.1")

    def _bound_log(self) -> None:
        """A full log becomes `<name>.1` in place of the one before. It is copied, since the child
        goes on writing to the file that it has. A line between last look and cut is lost."""
        now = time.monotonic()
        if now < self._log_look_at:
            return
        self._log_look_at = now + LOG_LOOK_SECONDS
        with contextlib.suppress(OSError):  # a full disk, most likely: tried again
            if self.log_path.stat().st_size > LOG_BYTES:
                self._older_log.unlink(missing_ok=True)
                with self.log_path.open("rb") as full, self._older_log.open("wb", 0) as older:
                    full.seek(-LOG_BYTES, os.SEEK_END)
                    while part := full.read(LOG_BYTES):  # what comes while we write, too
                        older.write(part)
                    os.truncate(self.log_path, 0)

    def _close_ready(self) -> None:
        if self._ready_fd is not None:
            os.close(self._ready_fd)
            self._ready_fd = None
