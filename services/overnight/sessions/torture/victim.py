"""The session under torture as it looks from outside: its command, processes, files and Redis."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from overnight.children import dying_with_us
from overnight.contracts.errors import InfrastructureError
from overnight.jobqueue.connection import Client, connect
from overnight.ledger.files import SessionFiles
from overnight.sessions.torture.leftovers import Seen, processes

SERVICES = ("recorder", "orchestrator", "redis", "r0", "r1")
UNDO_AGAIN_SECONDS = 0.3


class MissedError(Exception):
    """The fault found nothing to hit: what it is aimed at is down at the moment."""


@dataclass
class Victim:
    """One session. Call from one thread that never ends: it is what the session dies with."""

    folder: Path
    environ: Mapping[str, str]
    mark: str = field(default_factory=lambda: f"torture-{secrets.token_hex(8)}")
    forged: str = field(default_factory=lambda: f"forged-{secrets.token_hex(8)}")
    run: subprocess.Popen[bytes] | None = None
    starts: int = 0
    quiet: set[str] = field(default_factory=set)  #: what stands still, so that nobody waits for it
    problems: list[str] = field(default_factory=list)
    _later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _decided: int = 0
    _read_bytes: int = 0
    decided_at: float = field(default_factory=time.monotonic)
    longest_wait_seconds: float = 0.0  #: between two decisions

    @property
    def repo(self) -> Path:
        """The user's repository."""
        return self.folder / "repo"

    @property
    def files(self) -> SessionFiles:
        """The session's files."""
        return SessionFiles(self.repo / "sandbox")

    @property
    def canary(self) -> Path:
        """What only code out of the queue would make."""
        return self.folder / "canary"

    @property
    def marks(self) -> tuple[str, ...]:
        """What stands in the arguments or the environment of all its processes.

        Redis writes its title over its environment; there stands its socket, and so the session.
        """
        return (self.mark, self.sid)

    @property
    def sid(self) -> str:
        """The session's identity. Raises MissedError while it has none."""
        try:
            return str(json.loads(self.files.identity.read_text())["sid"])
        except (OSError, ValueError) as error:
            raise MissedError("the session has no identity yet") from error

    # -- its command ----------------------------------------------------------------------------

    def start(self) -> None:
        """`overnight run`, the same command every time."""
        self.starts += 1
        with (
            (self.folder / "run.out").open("ab") as out,
            (self.folder / "run.err").open("ab") as err,
        ):
            self.run = subprocess.Popen(
                dying_with_us(self._words("run", str(self.repo), "--json")),
                env=dict(self.environ), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """SIGKILL for the supervisor. All else dies with it."""
        if self.run is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.run.pid, signal.SIGKILL)
        self.run.wait()
        self.quiet.clear()

    def ended(self) -> int | None:
        """Exit code of the command, None while it runs."""
        return self.run.poll() if self.run is not None else None

    def last_words(self) -> str:
        """What it said last on standard error."""
        lines = (self.folder / "run.err").read_text(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else "nothing was said"

    def ask(self, verb: str, then: Callable[[], None] | None = None) -> None:
        """A verb of the command line, not waited for; *then* is called once it has ended."""
        asked = self._verb(verb)

        def look() -> None:
            if asked.poll() is None:
                self.later(UNDO_AGAIN_SECONDS, look)
            elif then is not None:
                then()

        self.later(UNDO_AGAIN_SECONDS, look)

    def ask_and_wait(self, verb: str, seconds: float) -> int:
        """A verb of the command line; its exit code, -1 when it did not answer in time."""
        asked = self._verb(verb)
        try:
            return asked.wait(seconds)
        except subprocess.TimeoutExpired:
            asked.kill()
            asked.wait()
            return -1

    def _verb(self, verb: str) -> subprocess.Popen[bytes]:
        with (self.folder / "asked.log").open("ab") as log:
            return subprocess.Popen(
                dying_with_us(self._words(verb, "--dir", str(self.files.root))),
                env=dict(self.environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _words(self, *words: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "overnight.cli", *words)

    def sweep(self) -> None:
        """Kill whatever carries our mark: what a broken product left must not stay on this host."""
        if not self.files.identity.is_file():
            return
        for pid, _ in processes(self.folder, Seen(marks=self.marks)):
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()

    # -- its parts ------------------------------------------------------------------------------

    def stack(self) -> dict[str, Any]:
        """stack.json as it stands there. Raises MissedError when there is none."""
        try:
            stack: dict[str, Any] = json.loads(self.files.stack.read_text())
        except (OSError, ValueError) as error:
            raise MissedError("no stack") from error
        if self.run is None or stack["pid"] != self.run.pid:
            raise MissedError("the stack is an old one")
        return stack

    def service(self, name: str) -> psutil.Process:
        """A live child of the supervisor, surely ours; `supervisor` is the command itself.

        Raises:
            MissedError: it is down.
        """
        pid = self.run.pid if name == "supervisor" and self.run else None
        try:
            process = psutil.Process(self.stack()["children"][name] if pid is None else pid)
            words = " ".join(process.cmdline())
        except (KeyError, psutil.Error) as error:
            raise MissedError(f"{name} is down") from error
        if str(self.folder) not in words and self.sid not in words:
            raise MissedError(f"{name} is down")  # its number is somebody else's by now
        return process

    def memory_mb(self) -> dict[str, float]:
        """Resident memory of each service that is up."""
        found = {}
        for name in SERVICES:
            with contextlib.suppress(MissedError, psutil.Error):
                found[name] = round(self.service(name).memory_info().rss / 1024**2, 1)
        return found

    def redis(self) -> Client:
        """A connection to its Redis.

        Raises:
            MissedError: it is down.
            InfrastructureError: it stands still; try again later.
        """
        if self.quiet & {"redis", "paused"}:
            raise InfrastructureError("Redis stands still")
        self.service("redis")
        return connect(self.stack()["redis_url"])

    # -- what is done later ---------------------------------------------------------------------

    def later(self, seconds: float, undo: Callable[[], None]) -> None:
        """Do this once so many seconds have passed, and again until it worked."""
        self._later.append((time.monotonic() + seconds, undo))

    def do_what_is_due(self, *, all_of_it: bool = False) -> bool:
        """True when nothing more is to be done later."""
        now = time.monotonic()
        due = [item for item in self._later if all_of_it or item[0] <= now]
        self._later = [item for item in self._later if item not in due]
        for _, undo in due:
            try:
                undo()
            except MissedError:
                continue  # it is down, and will start as it should be
            except InfrastructureError:
                self.later(UNDO_AGAIN_SECONDS, undo)
        return not self._later

    # -- how far it is --------------------------------------------------------------------------

    def decided(self) -> int:
        """Experiments that have their decision by now."""
        try:
            with self.files.ledger.open("rb") as file:
                file.seek(self._read_bytes)
                whole = file.read().rpartition(b"\n")[0]
        except OSError:
            return self._decided
        new = whole.count(b'"kind":"decision"')
        self._read_bytes += len(whole) + 1 if whole else 0
        now = time.monotonic()
        if new:
            self.longest_wait_seconds = max(self.longest_wait_seconds, now - self.decided_at)
            self.decided_at = now
        self._decided += new
        return self._decided
