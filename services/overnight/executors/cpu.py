"""How much CPU a whole sandbox used, counted from outside: cgroup, else perf, else /proc.

/proc is the marked fallback: processes whose parent ignores SIGCHLD vanish from it uncounted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Callable, Iterable
from typing import Protocol

import psutil

from overnight.executors.cgroups import Group

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
TYPE_SOFTWARE, TASK_CLOCK, ATTRIBUTE_BYTES = 1, 1, 112
INHERIT, EXCLUDE_KERNEL = 1 << 1, 1 << 5
CLOSE_ON_EXEC = 8


class CpuMeter(Protocol):
    """CPU-seconds since it was made; never falls."""

    source: str

    def read(self) -> float:
        """Seconds of all processes together."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class CgroupMeter:
    """Exact: the kernel counts for the group. Starts at zero, whatever was used before."""

    source = "cgroup"

    def __init__(self, group: Group) -> None:
        self._group = group
        self._before = group.cpu_seconds() or 0.0
        self._last = 0.0

    def read(self) -> float:
        """Seconds of all processes together."""
        now = self._group.cpu_seconds()
        if now is not None:
            self._last = max(self._last, now - self._before)
        return self._last

    def close(self) -> None:
        """The group belongs to the sandbox."""


class PerfMeter:
    """The task clock of one process, inherited by all its later children."""

    source = "perf"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before = 0.0
        self._last = 0.0

    def restart(self) -> None:
        """Count from now on."""
        self._before = self._count()

    def read(self) -> float:
        """Seconds of all processes together."""
        with contextlib.suppress(OSError):
            self._last = max(self._last, self._count() - self._before)
        return self._last

    def close(self) -> None:
        """Free the event."""
        os.close(self._descriptor)

    def _count(self) -> float:
        nanoseconds: int = struct.unpack("<Q", os.read(self._descriptor, 8))[0]
        return nanoseconds / 1e9


class ProcMeter:
    """Sums the live processes and what they reaped. Can be evaded; the last resort."""

    source = "proc"

    def __init__(self, members: Callable[[], Iterable[int]]) -> None:
        self._members = members
        self._last = 0.0

    def read(self) -> float:
        """Seconds of all processes together."""
        self._last = max(self._last, sum(_used(pid) for pid in self._members()))
        return self._last

    def close(self) -> None:
        """Nothing is held."""


def open_perf(pid: int) -> PerfMeter | None:
    """A meter on *pid*, which must not have forked yet; None where the kernel forbids it."""
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return None
    for flags in (INHERIT, INHERIT | EXCLUDE_KERNEL):
        attribute = bytearray(ATTRIBUTE_BYTES)
        struct.pack_into("<IIQQQQQ", attribute, 0, TYPE_SOFTWARE, ATTRIBUTE_BYTES, TASK_CLOCK,
                         0, 0, 0, flags)  # fmt: skip
        buffer = (ctypes.c_char * ATTRIBUTE_BYTES).from_buffer(attribute)
        call = ctypes.CDLL(None, use_errno=True).syscall
        descriptor = int(call(number, buffer, pid, -1, -1, CLOSE_ON_EXEC))
        if descriptor >= 0:
            return PerfMeter(descriptor)
    return None


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory of these processes; pages that they share count once each."""
    total = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(pid).memory_info().rss
    return total


def proportional_bytes(pids: Iterable[int]) -> int:
    """The same with shared pages divided among their users: slow and right."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))
    return total


def _used(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
