"""No walls: the same verbs where a host gives no namespaces. Limits and a sure end, no more."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Limits
from overnight.executors import cpu, survivors
from overnight.executors.cage import NAME, SECOND_TIMER_SECONDS, Ending, unavailable

GUARDIAN = Path(__file__).with_name("guardian.py")
GUARDIAN_SECONDS = 10.0  #: it ends everything within 5


@dataclass(frozen=True, kw_only=True)
class Bare:
    """One command without walls, as a value."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    work: Path
    limits: Limits
    token: str  #: of the sandbox
    at_home: tuple[tuple[str, str], ...] = ()  #: (place below HOME, what a link there leads to)


class BareCage:
    """One guardian process and all below it."""

    isolation = "none"
    image: str | None = None

    def __init__(self, bare: Bare) -> None:
        self._bare = bare
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # kill comes from any thread, also while we open
        self._gate = -1
        self._status = -1
        self._streams = (-1, -1)
        self._report: dict[str, float] | None = None

    def launch(self, snapshot_files: list[str]) -> None:
        """Start the guardian; it waits for its order. Nothing can be frozen here."""
        for name in ("HOME", "TMPDIR"):
            with unavailable(f"cannot make {name}"):
                Path(self._bare.env[name]).mkdir(mode=0o700)
        with unavailable("cannot fill HOME"):
            for place, source in self._bare.at_home:
                link = Path(self._bare.env["HOME"], place)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source)
        gate, self._gate = os.pipe()
        self._status, status = os.pipe()
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        self._streams = (out, err)
        try:
            with unavailable("the guardian did not start"):
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(GUARDIAN), str(gate), str(status),
                     f"overnight-{self._bare.token}"],
                    env={}, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                    pass_fds=(gate, status), start_new_session=True, cwd="/",
                )  # fmt: skip
        finally:
            for descriptor in (gate, status, stdout, stderr):
                os.close(descriptor)

    def streams(self) -> tuple[int, int]:
        """Descriptors of stdout and stderr."""
        return self._streams

    def exits(self) -> tuple[int, ...]:
        """The guardian alone writes here: it is readable when all is over."""
        return (self._status,)

    def meter(self) -> cpu.CpuMeter:
        """From the process table."""
        return cpu.ProcMeter(self.members)

    def open(self, wall_seconds: float) -> None:
        """Give the guardian its order."""
        limits = {
            "RLIMIT_CORE": 0,
            "RLIMIT_FSIZE": self._bare.limits.file_bytes,
            "RLIMIT_NOFILE": self._bare.limits.open_files,
        }
        order = {
            "command": self._bare.command,
            "cwd": str(self._bare.work),
            "env": dict(self._bare.env),
            "limits": limits,
            "seconds": wall_seconds + SECOND_TIMER_SECONDS,
        }
        line = json.dumps(order).encode() + b"\n"
        with self._lock, contextlib.suppress(BrokenPipeError):
            while line and self._gate >= 0:  # else killed before
                line = line[os.write(self._gate, line) :]

    def kill(self) -> None:
        """Let go of the lifeline: the guardian ends all and then itself."""
        with self._lock:
            if self._gate >= 0:
                os.close(self._gate)
                self._gate = -1

    def ending(self) -> Ending:
        """After the end."""
        report = self._read_report()
        if "exit-code" in report:
            return Ending(exit_code=int(report["exit-code"]), signal=None)
        if "signal" in report:
            return Ending(exit_code=None, signal=int(report["signal"]))
        raise SandboxUnavailableError(NAME, "the guardian was killed from outside")

    def own_seconds(self) -> float | None:
        """After the end: what the guardian measured; None when it was killed or told to end."""
        return self._read_report().get("seconds")

    def _read_report(self) -> dict[str, float]:
        if self._report is None:
            text = b""
            while piece := os.read(self._status, 4096):
                text += piece
            self._report = json.loads(text) if text else {}
        return self._report

    def members(self) -> list[int]:
        """Live processes below the guardian, cheaply."""
        if self._process is None:
            return []
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self._process.pid)
            return [child.pid for child in top.children(recursive=True)]
        return []

    def resident_bytes(self) -> int:
        """Of all members."""
        return cpu.resident_bytes(self.members())

    def proportional_bytes(self) -> int:
        """Of all members."""
        return cpu.proportional_bytes(self.members())

    def oom_kills(self) -> int:
        """Nobody counts them here."""
        return 0

    def limits_memory(self) -> bool:
        """It is watched from outside instead."""
        return False

    def survivors(self) -> int:
        """Live processes that carry the sandbox's own place in their environment."""
        if sys.platform != "linux":
            return len(self.members())
        mark = marker(self._bare.env["OVERNIGHT_OUT"])
        survivors.end_all(mark, patience_seconds=1.0)  # had somebody killed the guardian
        return len(survivors.alive_with_marker(mark))

    def close(self) -> bool:
        """Kill, reap and free everything; False if something stayed on the host."""
        self.kill()
        gone = True
        if self._process is not None:
            try:
                self._process.wait(timeout=GUARDIAN_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            if sys.platform == "linux":
                gone = survivors.end_all(marker(self._bare.env["OVERNIGHT_OUT"]))
        for descriptor in (self._status, *self._streams):
            if descriptor >= 0:
                os.close(descriptor)
        self._status, self._streams = -1, (-1, -1)
        return gone


def marker(out: str) -> bytes:
    """What every process of a sandbox without walls has in its environment."""
    return f"OVERNIGHT_OUT={out}\0".encode()
