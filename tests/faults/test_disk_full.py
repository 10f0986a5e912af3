"""A disk that fills up or fails in the middle of a run: everything waits, says so, and goes on.

Nothing is lost, nothing is doubled, no idea is blamed, and nobody has to lend a hand.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable

import pytest
from tests.e2e import procs, truth
from tests.e2e.stage import Play, Stage, until
from tests.faults.disks import EIO, EROFS, FailingDisk, SmallDisk, mounts, small_disk

CANDIDATES = 4
PATIENCE_SECONDS = 90.0


def _begin(stage: Stage) -> Play:
    stage.toy(1.5, env={"STAGE_MARK": stage.mark})
    play = stage.start("run", str(stage.repo), "--max", str(CANDIDATES), "--json")
    until(lambda: _kinds(stage).count("decision") >= 1 and len(stage.training()) == 2,
          PATIENCE_SECONDS, "a baseline, and two at work", play)  # fmt: skip
    return play


def _kinds(stage: Stage) -> list[str]:
    return [row["kind"] for row in truth.read_rows(stage.root)]


def _waiting(stage: Stage) -> dict[str, str]:
    done = stage.ask("status", "--dir", str(stage.root), "--json")
    assert done.code == 0, done
    waiting: dict[str, str] = json.loads(done.output)["waiting"]
    return waiting


def _disk_errors(stage: Stage) -> float:
    stack = stage.stack()
    assert stack is not None
    with urllib.request.urlopen(stack["endpoints"]["recorder"], timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(x.split()[1]) for x in lines if x.startswith("overnight_ledger_disk_errors_t"))


def _wait_until_said(stage: Stage, play: Play, words: str, refill: Callable[[], None]) -> list[str]:
    """Until `status` says that somebody waits for the disk; who does."""
    found: list[str] = []

    def said() -> bool:
        refill()
        found[:] = [name for name, why in _waiting(stage).items() if words in why]
        # Asked twice: a service may find a few bytes in between, and wait again.
        text = stage.ask("status", "--dir", str(stage.root)).output if found else ""
        return any(f"waiting   {name}: " in text for name in found)

    until(said, PATIENCE_SECONDS, "status says who waits for the disk, in both forms", play)
    return found


def _check(stage: Stage, play: Play) -> None:
    finished = play.wait(PATIENCE_SECONDS)
    assert finished.code == 0, finished
    rows = truth.check_session(stage.root, CANDIDATES)
    verdicts = [decision["verdict"] for decision in truth.decision_of(rows).values()]
    assert set(verdicts) <= {"keep", "discard"}
    results = [row["body"] for row in rows if row["kind"] == "result"]
    assert [r["reason"] for r in results if r["status"] == "infra"] in ([], ["lost"]), results
    assert [row for row in rows if row["kind"] == "superseded"] == []
    waits = [json.loads(line) for line in finished.output.splitlines() if '"waiting"' in line]
    assert any(event["why"] for event in waits)


def _replace_the_recorder(stage: Stage, play: Play, disk: SmallDisk) -> None:
    """The next one has to wait as well, not to loop."""
    before = truth.read_rows(stage.root)
    recorder = stage.service("recorder")
    assert recorder is not None
    recorder.kill()
    until(lambda: stage.service("recorder") not in (None, recorder), PATIENCE_SECONDS,
          "the next recorder runs", play)  # fmt: skip
    disk.fill("space")
    _wait_until_said(stage, play, "No space left", lambda: disk.fill("space"))
    assert len(truth.read_rows(stage.root)) <= len(before) + 1  # what was under way at most


@mounts
@pytest.mark.parametrize("what", ["space", "inodes"])
def test_a_disk_that_fills_up_is_waited_for_and_costs_nothing(stage: Stage, what: str) -> None:
    with small_disk(stage.root, "size=32m,nr_inodes=2000") as disk:
        play = _begin(stage)
        disk.fill(what)
        _wait_until_said(stage, play, "No space left", lambda: disk.fill(what))
        if what == "space":
            _replace_the_recorder(stage, play, disk)
        disk.free()
        _check(stage, play)
        verified = stage.ask("verify", "--dir", str(stage.root), "--json")
        assert json.loads(verified.output)["ok"], verified
        assert list((stage.root / "logs").glob("*.1")) == []
    stage.check_nothing_is_left()


def test_a_disk_that_fails_is_waited_for_and_costs_nothing(stage: Stage) -> None:
    disk = FailingDisk(stage)
    play = _begin(stage)
    disk.fail("fsync", EIO)
    assert "recorder" in _wait_until_said(stage, play, "Input/output error", lambda: None)
    disk.fail("write", EROFS)
    assert "recorder" in _wait_until_said(stage, play, "Read-only file system", lambda: None)
    rows = len(truth.read_rows(stage.root))
    assert _disk_errors(stage) >= 2
    assert len(truth.read_rows(stage.root)) == rows

    disk.work()
    _check(stage, play)
    stage.check_nothing_is_left()


@mounts
def test_a_run_on_a_full_disk_is_one_line_and_leaves_nothing(stage: Stage) -> None:
    stage.repo.rmdir()
    with small_disk(stage.repo, "size=4m,nr_inodes=200") as disk:
        stage.toy()
        disk.fill("space")

        done = stage.run(1)

        assert done.code == 3, done
        assert "No space left" in done.errors
        assert len(done.errors.splitlines()) == 1, done
        assert [p.name for p in stage.root.parent.iterdir() if p.name.startswith("sandbox")] == []
        disk.free()
        assert stage.run(1).code == 0
    procs.wait_until(lambda: not stage.alive(), 3, "no process is left")
