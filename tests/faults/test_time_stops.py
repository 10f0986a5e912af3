"""Each part of a session stopped in turn, longer than leases live and candidates may take: no idea
is blamed, nothing is decided twice, nothing keeps running.

NOTHING_LOST_FORM: small (scaled clocks), long (90 seconds each, clocks as shipped).
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.e2e import procs, truth
from tests.e2e.stage import Play, Stage, until


@dataclass(frozen=True)
class Form:
    """How long everything takes, in seconds."""

    stop: float
    brief: float  #: for those whose stop nobody's clock measures
    train: float
    deadline: float
    clocks: dict[str, str]


FORMS = {
    "small": Form(2.6, 1.5, 0.6, 2.1, {
        "OVERNIGHT_ORCHESTRATOR_LOST_AFTER_SECONDS": "1",
        "OVERNIGHT_RUNNER_LEASE_SECONDS": "1",
        "OVERNIGHT_RUNNER_RENEW_SECONDS": "0.3",
    }),
    "long": Form(90.0, 90.0, 10.0, 60.0, {}),
}  # fmt: skip
FORM = FORMS[os.environ.get("NOTHING_LOST_FORM", "small")]


def _inside(stage: Stage, runner: procs.Process) -> list[procs.Process]:
    """All that this runner has started for its candidate."""
    return [p for p in stage.alive() if runner.pid in procs.ancestors(p.pid)]


def _training_runner(stage: Stage, play: Play) -> procs.Process:
    """A runner whose candidate has just begun to train."""

    def found() -> procs.Process | None:
        for candidate in stage.training():
            above = procs.ancestors(candidate.pid)
            for name in ("r0", "r1"):
                runner = stage.service(name)
                if runner is not None and runner.pid in above:
                    return runner
        return None

    until(lambda: not found(), 60, "nothing trains", play)
    until(found, 60, "a candidate trains", play)
    runner = found()
    return runner if runner is not None else _training_runner(stage, play)


def _service(name: str) -> Callable[[Stage, Play], list[procs.Process]]:
    def pick(stage: Stage, play: Play) -> list[procs.Process]:
        until(lambda: stage.service(name), 60, f"{name} runs", play)
        found = stage.service(name)
        return [found] if found is not None else pick(stage, play)

    return pick


def _supervisor(stage: Stage, play: Play) -> list[procs.Process]:
    process = procs.look(play.process.pid)
    return [] if process is None else [process]


def _runner(stage: Stage, play: Play) -> list[procs.Process]:
    return [_training_runner(stage, play)]


def _runner_and_candidate(stage: Stage, play: Play) -> list[procs.Process]:
    runner = _training_runner(stage, play)
    return [runner, *_inside(stage, runner)]


def _everything(stage: Stage, play: Play) -> list[procs.Process]:
    _training_runner(stage, play)
    return stage.alive()


STOPS = {
    "runner": _runner,
    "recorder": _service("recorder"),
    "runner and its candidate": _runner_and_candidate,
    "orchestrator": _service("orchestrator"),
    "redis": _service("redis"),
    "everything": _everything,
    "supervisor": _supervisor,
}


@pytest.mark.timeout(1500)
def test_whatever_is_stopped_for_long_no_idea_is_blamed_and_nothing_is_lost(stage: Stage) -> None:
    stage.environment = {"OVERNIGHT_ORCHESTRATOR_MAX_ATTEMPTS": "100", **FORM.clocks}
    stage.toy(FORM.train, env={"STAGE_MARK": stage.mark}, deadline_seconds=FORM.deadline)
    play = stage.start("run", str(stage.repo), "--max", "1000", "--json")
    until(stage.training, 60, "the first candidate trains", play)
    rows_after: dict[str, int] = {}
    for name, pick in STOPS.items():
        victims = pick(stage, play)
        for victim in victims:
            victim.kill(signal.SIGSTOP)
        time.sleep(FORM.stop if victims[1:] or name == "runner" else FORM.brief)
        assert not play.over, f"the run ended while {name} was stopped"
        for victim in reversed(victims):
            victim.kill(signal.SIGCONT)
        rows_after[name] = len(truth.read_rows(stage.root))
    drained = stage.ask("drain", "--dir", str(stage.root))
    assert drained.code == 0, drained
    finished = play.wait(300)
    proposed = [row for row in truth.read_rows(stage.root) if row["kind"] == "proposed"]
    rows = truth.check_session(stage.root, len(proposed) - 1)
    results = [row["body"] for row in rows if row["kind"] == "result"]
    late = [row["body"] for row in rows if row["kind"] == "superseded"]
    endings = Counter(f"{r['status']}:{r['reason']}" for r in results)
    print(f"\n{dict(endings)}, {len(late)} superseded, rows after each stop {rows_after}")

    assert finished.code == 0, finished
    assert set(endings) <= {"scored:None", "infra:lost", "infra:suspended"}, endings
    assert endings["infra:suspended"], "a deadline that passed while all stood still is nobody's"
    assert late, "the stopped runner's result came late and is kept as superseded"
    assert all(r["runtime_s"] < FORM.stop for r in late if r["status"] == "scored"), (
        "the time that its runner was stopped is no time of the candidate"
    )
    stage.check_nothing_is_left()
