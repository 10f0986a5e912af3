"""Watches one running command: output, deadlines, memory, and the way to an empty sandbox."""

from __future__ import annotations

import math
import os
import select
import threading
import time
from dataclasses import dataclass, field

from overnight.contracts.execution import Deadline, Exit
from overnight.executors.cage import Cage
from overnight.executors.cpu import CpuMeter
from overnight.executors.pipes import Pump
from overnight.executors.standstill import Standstill

TICK_SECONDS = 0.1  #: how often CPU is looked at, at least
SHORTEST_TICK_SECONDS = 0.01
MEMORY_SECONDS = 0.25  #: how often memory is looked at; the first looks come sooner
FIRST_MEMORY_SECONDS = 0.02
PATIENCE_SECONDS = 10.0  #: for the kernel to end what was killed


class KillSwitch:
    """The wish to end a sandbox, from any thread; wakes whoever waits."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._lock = threading.Lock()
        self.pressed_at: float | None = None  #: monotonic
        self.wish = Exit.KILLED  #: why

    @property
    def descriptor(self) -> int:
        """Readable once it was pressed."""
        return self._reader

    def press(self, wish: Exit = Exit.KILLED) -> None:
        """Idempotent: the first wish counts."""
        with self._lock:
            if self.pressed_at is None:
                self.wish = wish
                self.pressed_at = time.monotonic()
                if self._writer >= 0:
                    os.write(self._writer, b"!")

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            if self._writer >= 0:
                os.close(self._reader)
                os.close(self._writer)
                self._writer = -1


@dataclass
class Watched:
    """What was seen. Times are monotonic seconds."""

    started: float
    ended: float = math.nan
    killed: Exit | None = None
    due: float = math.nan  #: when the kill was due: the deadline itself, or the wish
    emptied: bool = False
    stalled: bool = False  #: we were stopped meanwhile: `ended` may be late
    peak_bytes: int = 0


@dataclass
class Supervision:
    """One run of the loop, in the thread that called `wait`."""

    cage: Cage
    pump: Pump
    switch: KillSwitch
    deadline: Deadline
    memory_bytes: int | None  #: watched here only where the kernel does not do it
    meter: CpuMeter
    seen: Watched
    still: Standstill = field(default_factory=Standstill)
    _waiting: set[int] = field(default_factory=set)
    _killed_at: float = math.inf
    _next_cpu: float = 0.0
    _next_memory: float = 0.0
    _memory_step: float = FIRST_MEMORY_SECONDS

    def run(self) -> Watched:
        """Until the command ended or was killed, and the sandbox is empty or beyond hope."""
        self._waiting = set(self.cage.exits())
        for descriptor in (*self._waiting, self.switch.descriptor):
            self.pump.watch(descriptor)
        self._next_cpu = self._next_memory = self.seen.started + self._memory_step
        while self._waiting:
            now = self.still.look()
            if self.seen.killed is None and self._is_due(now):
                self.cage.kill()
                self._killed_at = now
            fired = self._waiting.intersection(self.pump.turn(self._pause(now)))
            if fired:
                self._waiting -= fired
                self.cage.kill()  # its first process is gone: what lingers goes too
            elif now > self._killed_at + PATIENCE_SECONDS:
                break
        self.seen.ended = self.still.look()
        self.seen.emptied = not self._waiting
        self.seen.stalled = self.still.stalled_seconds > 0
        self.pump.drain()
        return self.seen

    def _is_due(self, now: float) -> bool:
        wall_end = self.seen.started + self.deadline.wall_seconds
        reason: Exit | None = None
        due = now
        if self.switch.pressed_at is not None:
            reason, due = self.switch.wish, self.switch.pressed_at
        elif now >= wall_end and not self._has_ended():
            reason, due = Exit.DEADLINE_WALL, wall_end
        elif now >= self._next_cpu and self._is_over_cpu(now):
            reason = Exit.DEADLINE_CPU
        elif now >= self._next_memory and self._is_over_memory(now):
            reason = Exit.OOM
        if reason is not None:
            self.seen.killed, self.seen.due = reason, due
        return reason is not None

    def _has_ended(self) -> bool:
        """Did it end by itself while we were stopped, perhaps long before the deadline?"""
        poll = select.poll()
        for descriptor in self._waiting:
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def _is_over_cpu(self, now: float) -> bool:
        used, pause = self.meter.read(), TICK_SECONDS
        if self.deadline.cpu_seconds is not None:
            # It can run out no faster than all cores together spend it.
            left = self.deadline.cpu_seconds - used
            pause = max(SHORTEST_TICK_SECONDS, min(TICK_SECONDS, left / (os.cpu_count() or 1)))
            if left <= 0:
                return True
        self._next_cpu = now + pause
        return False

    def _is_over_memory(self, now: float) -> bool:
        self._memory_step = min(MEMORY_SECONDS, self._memory_step * 2)
        self._next_memory = now + self._memory_step
        used = self.cage.resident_bytes()
        self.seen.peak_bytes = max(self.seen.peak_bytes, used)
        if self.memory_bytes is None or used <= self.memory_bytes:
            return False
        return self.cage.proportional_bytes() > self.memory_bytes

    def _pause(self, now: float) -> float:
        """Until something may be due."""
        if self.seen.killed is not None:
            return TICK_SECONDS
        wall_end = self.seen.started + self.deadline.wall_seconds
        return max(0.0, min(wall_end, self._next_memory, self._next_cpu) - now)
