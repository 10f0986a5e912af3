"""A watcher that was stopped notices it, judges late endings fairly and still kills for sure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from overnight.contracts.execution import Deadline, Exit
from overnight.executors.pipes import BoundedLog, Pump
from overnight.executors.standstill import Standstill
from overnight.executors.supervision import KillSwitch, Supervision, Watched


@dataclass
class Clocks:
    """Two clocks that go by hand."""

    monotonic: float = 100.0
    boottime: float = 5000.0

    def go(self, seconds: float) -> None:
        """Both."""
        self.monotonic += seconds
        self.boottime += seconds

    def standstill(self) -> Standstill:
        """A watcher that reads them."""
        return Standstill(lambda: self.monotonic, lambda: self.boottime)


def test_a_loop_that_goes_round_saw_no_standstill() -> None:
    clocks = Clocks()
    still = clocks.standstill()
    for _ in range(1000):
        clocks.go(0.25)
        assert still.look() == clocks.monotonic

    assert (still.stalled_seconds, still.asleep_seconds) == (0.0, 0.0)


def test_stops_add_up_and_are_no_sleep() -> None:
    clocks = Clocks()
    still = clocks.standstill()
    for seconds in (0.2, 90.0, 0.2, 30.0):
        clocks.go(seconds)
        still.look()

    assert still.stalled_seconds == pytest.approx(120.0)
    assert still.asleep_seconds == 0.0


def test_sleep_is_what_only_one_clock_counts() -> None:
    clocks = Clocks()
    still = clocks.standstill()
    clocks.boottime += 3 * 3600
    clocks.go(0.2)
    still.look()
    still.look()

    assert (still.stalled_seconds, still.asleep_seconds) == (0.0, 3 * 3600)


def test_a_stop_between_the_two_clocks_is_no_sleep() -> None:
    readings = iter([10.0, 110.0, 110.0, 110.0])  # stopped within the first pair
    still = Standstill(lambda: 10.0, lambda: 10.0)
    still.monotonic, still.boottime = lambda: next(readings), lambda: 110.0
    still.look()

    assert still.asleep_seconds == 0.0


@dataclass
class FakeCage:
    """One pipe whose end of file is the end of the command."""

    clocks: Clocks
    reader: int = field(init=False)
    writer: int = field(init=False)
    killed: int = 0
    dies: bool = True

    def __post_init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def exits(self) -> tuple[int, ...]:
        return (self.reader,)

    def end(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def kill(self) -> None:
        self.killed += 1
        if self.dies:
            self.end()

    image = None

    def resident_bytes(self) -> int:
        return 0

    def proportional_bytes(self) -> int:
        return 0

    def members(self) -> list[int]:
        return []


class Meter:
    """No CPU."""

    source = "none"

    def read(self) -> float:
        return 0.0

    def close(self) -> None:
        pass


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def cage(clocks: Clocks) -> Iterator[FakeCage]:
    made = FakeCage(clocks)
    yield made
    made.end()
    os.close(made.reader)


def watch(cage: FakeCage, tmp_path: Path, wall: float) -> Watched:
    """Run the loop; its clock goes on by an hour before the first look, as in a stopped runner."""
    rounds = iter((3600.0,))

    def monotonic() -> float:
        return cage.clocks.monotonic

    still = Standstill(monotonic, lambda: cage.clocks.boottime)
    look = still.look

    def looked() -> float:
        cage.clocks.go(next(rounds, 0.01))
        return look()

    still.look = looked  # type: ignore[method-assign]
    out, err = os.pipe(), os.pipe()
    switch, log = KillSwitch(), BoundedLog(tmp_path / "log", 10, 10)
    try:
        return Supervision(
            cage=cage,  # type: ignore[arg-type]
            pump=Pump(out[0], err[0], log, lambda *_: None), switch=switch,
            deadline=Deadline(wall_seconds=wall), memory_bytes=None,
            meter=Meter(), seen=Watched(cage.clocks.monotonic), still=still,
        ).run()  # fmt: skip
    finally:
        switch.close()
        log.close()
        for descriptor in (*out, *err):
            os.close(descriptor)


def test_a_command_that_ended_while_we_were_stopped_is_not_late(
    cage: FakeCage, tmp_path: Path
) -> None:
    cage.end()
    seen = watch(cage, tmp_path, wall=60.0)

    assert seen.killed is None
    assert seen.emptied


def test_a_command_that_runs_past_its_deadline_is_killed_once_we_go_on(
    cage: FakeCage, tmp_path: Path
) -> None:
    seen = watch(cage, tmp_path, wall=60.0)

    assert seen.killed is Exit.DEADLINE_WALL
    assert seen.stalled
    assert seen.emptied, "patience counts from the kill, not from a deadline long past"
