"""One single-use sandbox: the verbs, whatever its walls are made of and whoever holds them."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import structlog

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import (
    Collected,
    Deadline,
    Execution,
    Exit,
    OutputSink,
    SandboxSpec,
)
from overnight.executors.belongings import Belongings
from overnight.executors.cage import Cage, Ending, unavailable
from overnight.executors.cpu import CpuMeter
from overnight.executors.pipes import BoundedLog, Pump
from overnight.executors.standstill import Standstill
from overnight.executors.supervision import KillSwitch, Supervision, Watched
from overnight.faultpoints import Step, reach

log = structlog.get_logger()


class SupervisedSandbox:
    """See the contract. The command stands at a gate after `start`; `wait` opens it.

    So that not one instruction of a candidate ever runs without an armed deadline.
    """

    def __init__(self, spec: SandboxSpec, belongings: Belongings, cage: Cage) -> None:
        self._spec = spec
        self._belongings = belongings
        self._cage = cage
        self._switch = KillSwitch()
        self._lock = threading.Lock()  # kill comes from any thread, also while we free things
        self._destroyed = False
        self._launched = False
        self._start_called = math.nan
        self._over = ""

    def start(self, snapshot: Path) -> None:
        """Fill the private copy, set the walls up and bring the command to its gate."""
        self._start_called = time.monotonic()
        if self._destroyed or self._launched:
            raise RuntimeError("a sandbox is started once")
        try:
            files = self._belongings.fill(snapshot)
            self._launched = True
            self._cage.launch(files)
            reach(Step.RUNNER_LAUNCHED)
        except BaseException:
            self.destroy()
            raise

    def wait(self, deadline: Deadline, on_output: OutputSink) -> Execution:
        """Open the gate, then watch until the sandbox is empty."""
        if self._destroyed or not self._launched:
            raise RuntimeError("wait follows start, once")
        limits = self._spec.limits
        with unavailable(f"cannot write {self._spec.log_path}"):
            output = BoundedLog(self._spec.log_path, limits.log_head_bytes, limits.log_tail_bytes)
        try:
            meter = self._cage.meter()
            still = Standstill()
            started = time.monotonic()
            if self._switch.pressed_at is None:
                self._cage.open(deadline.wall_seconds)
                reach(Step.RUNNER_TRAINING)
            supervision = Supervision(
                cage=self._cage,
                pump=Pump(*self._cage.streams(), output, on_output),
                switch=self._switch,
                deadline=deadline,
                memory_bytes=None if self._cage.limits_memory() else limits.memory_bytes,
                meter=meter,
                seen=Watched(started),
                still=still,
            )
            with self._belongings.watch(self._cage.members, self._too_much):
                seen = supervision.run()
            return replace(
                self._execution(seen, deadline, meter, output),
                stalled_seconds=round(still.stalled_seconds, 3),
                asleep_seconds=round(still.asleep_seconds, 3),
                over=self._over,
            )
        except BaseException:
            self.kill()  # nobody watches it any more
            raise
        finally:
            with unavailable(f"cannot write {self._spec.log_path}"):
                output.close()

    def kill(self) -> None:
        """End it now; `wait` then returns Exit.KILLED."""
        self._end(Exit.KILLED)

    def _too_much(self, over: str) -> None:
        self._over = over
        self._end(Exit.DISK)

    def _end(self, why: Exit) -> None:
        self._switch.press(why)
        with self._lock:
            if self._launched and not self._destroyed:
                self._cage.kill()

    def collect(self, into: Path) -> tuple[Collected, ...]:
        """Copy what the command left in /out."""
        return self._belongings.collect(into)

    def take(self, into: Path) -> tuple[Collected, ...]:
        """Copy what it left at `keep` in its working directory."""
        return self._belongings.take(into)

    def destroy(self) -> None:
        """Kill, free and remove everything but run.log."""
        with self._lock:
            if self._destroyed:
                return
            self._destroyed = True
        gone = False
        try:
            with self._lock:
                gone = self._cage.close()
            self._switch.close()
            reach(Step.RUNNER_EMPTIED)
            gone = self._belongings.remove() and gone
        except BaseException:
            gone = False
            raise
        finally:
            self._belongings.release(gone)

    def _execution(
        self, seen: Watched, deadline: Deadline, meter: CpuMeter, output: BoundedLog
    ) -> Execution:
        survivors = self._cage.survivors()
        exit_, ending = self._verdict(seen, deadline)
        wall = self._ran_seconds(seen)
        used = meter.read()
        if survivors or not seen.emptied:
            log.error("sandbox_survivors", sandbox=self._spec.sandbox_id, survivors=survivors)
        return Execution(
            exit=exit_,
            exit_code=ending.exit_code,
            signal=ending.signal,
            wall_seconds=wall,
            cpu_seconds=used,
            cpu_source=meter.source,
            cpu_share=used / wall if wall > 0 else None,
            kill_latency_seconds=None if seen.killed is None else seen.ended - seen.due,
            survivors=survivors,
            max_rss_bytes=seen.peak_bytes or None,
            isolation=self._cage.isolation,
            image=self._cage.image,
            log_bytes=output.written_bytes,
            log_truncated=output.truncated,
            start_seconds=seen.started - self._start_called,
        )

    def _ran_seconds(self, seen: Watched) -> float:
        """To its end; where we were stopped and saw that late, by the clock that stood inside."""
        watched = seen.ended - seen.started
        own = self._cage.own_seconds() if seen.stalled else None
        return watched if own is None else min(watched, own)

    def _verdict(self, seen: Watched, deadline: Deadline) -> tuple[Exit, Ending]:
        if seen.killed is not None:
            return seen.killed, Ending(exit_code=None, signal=None)
        if self._switch.pressed_at is not None:
            # The kill emptied it before the loop saw the wish.
            seen.killed, seen.due = self._switch.wish, self._switch.pressed_at
            return self._switch.wish, Ending(exit_code=None, signal=None)
        if self._cage.oom_kills():
            with contextlib.suppress(SandboxUnavailableError):
                return Exit.OOM, self._cage.ending()
            return Exit.OOM, Ending(exit_code=None, signal=None)
        ending = self._cage.ending()
        due = seen.started + deadline.wall_seconds
        if ending.signal == signal.SIGKILL and self._ran_seconds(seen) >= deadline.wall_seconds:
            # We were stopped ourselves, and the second timer did it.
            seen.killed, seen.due = Exit.DEADLINE_WALL, due
            return Exit.DEADLINE_WALL, Ending(exit_code=None, signal=None)
        return Exit.EXITED, ending
