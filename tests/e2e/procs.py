"""Processes as /proc shows them, for checkers. Imports nothing of the services.

A process is told from a later one with the same number by its start time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Process:
    """One process of this host."""

    pid: int
    started: int  #: clock ticks since boot

    @property
    def argv(self) -> list[str]:
        """Its arguments; empty when it is gone."""
        return [w.decode(errors="replace") for w in _bytes(self.pid, "cmdline").split(b"\0")[:-1]]

    @property
    def alive(self) -> bool:
        """Is it still there, and not only waiting to be reaped?"""
        return look(self.pid) == self

    def state(self) -> str:
        """One letter, like R, S or T; X when it is gone."""
        fields = _stat(self.pid)
        return fields[0] if fields and int(fields[19]) == self.started else "X"

    def kill(self, number: signal.Signals = signal.SIGKILL) -> bool:
        """Send a signal to this very process; False when it is gone already."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive:
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def look(pid: int) -> Process | None:
    """The live process with this number, None when there is none."""
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return Process(pid, int(fields[19]))


def marked(*marks: str) -> list[Process]:
    """Live processes that have one of *marks* in their arguments or their environment."""
    found = []
    for pid in _pids():
        words = _bytes(pid, "cmdline") + _bytes(pid, "environ")
        if any(mark.encode() in words for mark in marks):
            process = look(pid)
            if process is not None:
                found.append(process)
    return sorted(found)


def ancestors(pid: int) -> list[int]:
    """Its parent, its parent's parent, and so on."""
    found: list[int] = []
    while (fields := _stat(pid)) is not None and int(fields[1]) > 0:
        pid = int(fields[1])
        found.append(pid)
    return found


def status(pid: int) -> dict[str, str]:
    """/proc/<pid>/status by field."""
    lines = _bytes(pid, "status").decode(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Namespaces:
    """PID namespaces, held open so that their numbers stay theirs. Finds what lost its mark too."""

    def __init__(self, pids: Iterable[int]) -> None:
        own = os.stat("/proc/self/ns/pid").st_ino
        self._held: dict[int, int] = {}  #: number -> descriptor
        for pid in pids:
            with contextlib.suppress(OSError):
                handle = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
                number = os.fstat(handle).st_ino
                if number == own or number in self._held:
                    os.close(handle)
                else:
                    self._held[number] = handle

    def __len__(self) -> int:
        return len(self._held)

    def alive(self) -> list[Process]:
        """Live processes in any of them."""
        found = []
        for pid in _pids():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{pid}/ns/pid").st_ino in self._held:
                    process = look(pid)
                    if process is not None:
                        found.append(process)
        return found

    def close(self) -> None:
        """Let their numbers go."""
        for handle in self._held.values():
            os.close(handle)
        self._held.clear()


def wait_until(
    condition: Callable[[], object], seconds: float, what: str, poll_seconds: float = 0.02
) -> float:
    """Poll until *condition* holds; how long that took. AssertionError with *what* if never."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"after {seconds} s still not: {what}"
        time.sleep(poll_seconds)
    return time.monotonic() - began


def _pids() -> list[int]:
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()
    ]


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str] | None:
    """The fields after the name, which may hold anything: state, parent, ..."""
    text = _bytes(pid, "stat")
    return text[text.rindex(b")") + 2 :].decode().split() if text else None
