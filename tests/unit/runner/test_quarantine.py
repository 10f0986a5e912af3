"""A device stays empty while something of a dead sandbox lives on it, whoever left that."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from overnight.contracts.errors import SandboxAwayError
from overnight.contracts.execution import Stuck, Swept
from overnight.runner import quarantine
from overnight.runner.quarantine import Notice, Quarantine


class Stubborn:
    """An executor with a sandbox that can't be destroyed until the *rounds*-th look."""

    name = isolation = "stubborn"

    def __init__(self, rounds: int, labels: dict[str, str], left: subprocess.Popen[bytes]) -> None:
        self.rounds, self.labels, self.left = rounds, labels, left

    def reconcile(self, labels: dict[str, str]) -> Swept:
        if any(self.labels.get(key) != value for key, value in labels.items()):
            return Swept()
        self.rounds -= 1
        if self.rounds < 0:
            self.left.kill()
            self.left.wait()
            return Swept()
        pid = self.left.pid
        return Swept(stuck=(Stuck(self.labels, f"pids {pid} live", (pid,)),))

    def prepare(self, spec: Any) -> Any:
        raise AssertionError("no sandbox is wanted here")


class Clean:
    """An executor that has nothing to end."""

    name = isolation = "clean"

    def reconcile(self, labels: dict[str, str]) -> Swept:
        return Swept()

    def prepare(self, spec: Any) -> Any:
        raise AssertionError("no sandbox is wanted here")


class Away(Clean):
    """An executor whose spawner is away."""

    def reconcile(self, labels: dict[str, str]) -> Swept:
        raise SandboxAwayError("docker", "the spawner does not answer")


@dataclass
class Told:
    """What the quarantine said."""

    waiting: list[str | None] = field(default_factory=list)
    gauge: list[float] = field(default_factory=list)
    notices: list[str | None] = field(default_factory=list)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "LOOK_SECONDS", 0.05)


def build(executor: Any, path: Path, told: Told, stop_after: int = 10**6) -> Quarantine:
    looks = iter(range(stop_after))

    def should_stop() -> bool:
        told.notices.append(Notice(path).stands())
        return next(looks, None) is None

    return Quarantine(
        executor=executor, sid="s", runner="r0", device="cpu:0", notice=Notice(path),
        should_stop=should_stop, say_waiting=told.waiting.append, set_gauge=told.gauge.append,
    )  # fmt: skip


@pytest.mark.parametrize(
    "left_by",
    [
        {"sid": "s", "runner": "r0", "device": "cpu:0"},  # this slot
        {"sid": "another", "runner": "r7", "device": "cpu:0"},  # whoever had the device before
    ],
)
def test_a_device_is_kept_empty_said_and_freed(
    left_by: dict[str, str], tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    told, path = Told(), tmp_path / "cpu-0.quarantined"
    kept = build(Stubborn(4, left_by, sleeper), path, told)

    assert kept.wait() is False, "it was not free at once"
    assert kept.wait() is True
    assert told.waiting == [f"cpu:0 is quarantined: pids {sleeper.pid} live", None]
    assert told.gauge == [1, 0]
    assert f"pids {sleeper.pid} live" in told.notices
    assert not path.exists()


def test_what_is_stuck_on_another_device_keeps_nobody_waiting(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    left_by = {"sid": "another", "runner": "r1", "device": "cpu:1"}
    told = Told()

    assert build(Stubborn(10, left_by, sleeper), tmp_path / "q", told).wait() is True
    assert told.waiting == []


def test_a_runner_that_is_told_to_end_waits_no_longer_and_leaves_the_notice(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    told, path = Told(), tmp_path / "q"
    left_by = {"sid": "s", "runner": "r0"}

    assert build(Stubborn(10**6, left_by, sleeper), path, told, stop_after=3).wait() is False
    assert Notice(path).stands() == f"pids {sleeper.pid} live"


def test_a_notice_counts_as_long_as_its_processes_live(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """Also one by another user, whose sandboxes nobody else can see or end."""
    told, notice = Told(), Notice(tmp_path / "q")
    notice.post("left by another user", [sleeper.pid, 2**22 + 1])
    kept = build(Clean(), tmp_path / "q", told, stop_after=20)
    assert kept.wait() is False
    assert told.waiting == ["cpu:0 is quarantined: left by another user"]

    sleeper.kill()
    sleeper.wait()
    assert build(Clean(), tmp_path / "q", told).wait() is True
    assert not (tmp_path / "q").exists()


def test_a_later_process_with_the_same_number_is_another(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    notice = Notice(tmp_path / "q")
    notice.path.write_text(json.dumps({"reason": "old", "pids": {str(sleeper.pid): 1}}))

    assert notice.stands() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"reason": 1}', '{"reason": "x", "pids": 3}'])
def test_a_damaged_notice_keeps_nobody_waiting(tmp_path: Path, text: str) -> None:
    (tmp_path / "q").write_text(text)

    assert Notice(tmp_path / "q").stands() is None


def test_a_spawner_that_is_away_quarantines_no_device(tmp_path: Path) -> None:
    """It ends what is left before it makes a sandbox again, and an attempt waits for that."""
    told = Told()

    assert build(Away(), tmp_path / "cpu-0.quarantined", told).wait() is True
    assert told.waiting == []
