"""Six children that do not want to die, in a real session: none outlives the deadline, the runner
or the supervisor. Counted in /proc by the test itself."""

from __future__ import annotations

import os
import time

import pytest
from tests.conformance.candidates import NASTY
from tests.e2e import procs, truth
from tests.e2e.stage import Play, Stage, until

TRAIN = """\
import runpy

LR = 0.1

if LR != 0.1:
    runpy.run_path("nasty.py")
print("---")
print("val_bpb: 1.0")
"""
CHILDREN = 8  #: six nasty ones, and two of them are a parent with its child
DEAD_SECONDS = 2.0


def _play(stage: Stage, deadline_seconds: float) -> Play:
    stage.write({"train.py": TRAIN, "nasty.py": NASTY})
    stage.bind(deadline_seconds=deadline_seconds, pools={"default": {"runners": 1}})
    return stage.start("run", str(stage.repo), "--max", "1", "--json")


def _children(stage: Stage) -> list[procs.Process]:
    """The nasty ones: Python with code on its command line."""
    return [p for p in stage.candidates() if p.argv[1:4] == ["-I", "-S", "-c"]]


def _wait_for_children(stage: Stage, play: Play) -> procs.Namespaces:
    """All are born; the namespaces that they live in."""
    until(lambda: len(_children(stage)) == CHILDREN, 60, "all nasty children are alive", play)
    held = procs.Namespaces(p.pid for p in _children(stage))
    assert len(held) == 1, "they live in one namespace that is not ours"
    assert len(held.alive()) > CHILDREN
    return held


def test_none_is_alive_two_seconds_after_the_deadline(stage: Stage) -> None:
    play = _play(stage, deadline_seconds=3.0)
    held = _wait_for_children(stage, play)
    born = min(p.started for p in _children(stage)) / os.sysconf("SC_CLK_TCK")

    def age() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - born

    procs.wait_until(lambda: age() > 2.5, 5, "the deadline is near")
    before = len(held.alive())
    procs.wait_until(lambda: not held.alive(), 3.0 + DEAD_SECONDS - age(), "all are dead")
    died_at = age()
    print(f"\n{before} alive before the deadline, none {died_at - 3.0:+.2f} s after it")
    finished = play.wait(30)
    result = truth.final_of(truth.read_rows(stage.root))[2]

    assert before > CHILDREN
    assert finished.code == 0, finished
    assert (result["status"], result["reason"], result["survivors"]) == ("timeout", "train", 0)
    assert stage.alive() == []
    stage.check_nothing_is_left()
    held.close()


@pytest.mark.timeout(120)
def test_none_is_alive_after_the_runner_or_the_supervisor_is_killed(stage: Stage) -> None:
    play = _play(stage, deadline_seconds=5.0)
    held = _wait_for_children(stage, play)
    runner = stage.service("r0")

    assert runner is not None
    assert runner.kill()
    runner_seconds = procs.wait_until(lambda: not held.alive(), DEAD_SECONDS, "all died with it")
    held.close()

    held = _wait_for_children(stage, play)  # of the next attempt
    play.kill()
    supervisor_seconds = procs.wait_until(
        lambda: not held.alive() and not stage.alive(), DEAD_SECONDS, "all died with it"
    )
    held.close()
    print(f"\ndead {runner_seconds:.2f} s after the runner, {supervisor_seconds:.2f} s after the "
          "supervisor")  # fmt: skip

    finished = stage.run(1)
    rows = truth.check_session(stage.root, 1)
    endings = [
        (row["body"]["status"], row["body"]["reason"])
        for row in rows
        if row["kind"] == "result" and row["body"]["id"] == 2
    ]

    assert finished.code == 0, finished
    assert endings == [("infra", "lost"), ("infra", "lost"), ("timeout", "train")]
    stage.check_nothing_is_left()
