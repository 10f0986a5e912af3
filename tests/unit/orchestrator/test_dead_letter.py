"""Poison is given up after a bounded number of attempts; a person may have it tried anew."""

from __future__ import annotations

from typing import Any

import pytest

from overnight.contracts import wire
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind, Status
from overnight.ledger.fold import ExperimentState, RunState, SessionState
from overnight.orchestrator.planning import last_fault
from overnight.recorder.entries import entries
from overnight.sessions.verify import _Replay
from tests.unit.orchestrator.world import World


class Night(World):
    """A world in which some experiments kill every runner that takes them."""

    poison: set[int]

    def __init__(self, *poison: int, experiments: int = 3) -> None:
        super().__init__(experiments=experiments, max_attempts=3)
        self.poison = set(poison)

    def step_runner(self, index: int, metric: float = 1.0, outcome: str = "scored") -> None:
        """As a runner whose supervisor starts it again."""
        job = self.runners[index].job
        if job is not None and job.id in self.poison and not self.runners[index].outbox:
            self.crash_runner(index)
        else:
            super().step_runner(index, metric / (job.id if job else 1), outcome)

    def tell(self, action: str, experiment: int | None = None) -> Ack:
        """Send a wish, and what the recorder says."""
        self.wish(action, experiment)
        key = wire.decode(LedgerMessage, self.stream[-1][1]).key
        while key not in self.acks:
            self.step_recorder()
        return self.acks[key]

    def run_again(self) -> None:
        """`overnight run` on a closed session, to its end."""
        assert not self.tell("resume").refused
        self.crash_orchestrator()
        self.settle()

    @property
    def state(self) -> SessionState:
        """As the recorder knows it, after every row was checked as `verify` does."""
        replay = _Replay()
        assert [replay.problem_with(row) for row in self.disk] == [None] * len(self.disk)
        return self.writer.state

    def rows(self, kind: RowKind, experiment: int) -> list[dict[str, Any]]:
        """Bodies of all such rows of one experiment."""
        return [r.body for r in self.disk if r.kind is kind and r.body.get("id") == experiment]


def _poisoned(night: Night) -> ExperimentState:
    return night.state.experiments[2]


def test_poison_is_given_up_after_its_attempts_and_the_others_are_decided() -> None:
    night = Night(2)
    night.settle()

    assert [r["reason"] for r in night.rows(RowKind.RESULT, 2)] == ["lost"] * 3 + ["gave_up"]
    assert [e.status for e in night.state.experiments.values()] == [
        Status.KEEP, Status.INFRA, Status.KEEP, Status.KEEP,
    ]  # fmt: skip
    assert last_fault(_poisoned(night)) == "lost"
    assert night.state.closed is not None
    assert night.state.closed.outcome == "done"


def test_an_attempt_whose_job_is_parked_is_lost_and_in_the_end_given_up() -> None:
    """As when no runner can read it: the experiment neither hangs nor is tried for ever."""
    night = Night()
    push = night.push
    night.push = lambda job: None if job.id == 2 else push(job)  # type: ignore[method-assign]
    night.settle()

    assert [r["reason"] for r in night.rows(RowKind.RESULT, 2)] == ["lost"] * 3 + ["gave_up"]
    assert night.state.closed is not None
    assert night.state.closed.outcome == "done"


def test_a_poisoned_baseline_ends_the_session_and_says_why() -> None:
    night = Night(1)
    night.settle()

    closed = night.state.closed
    assert closed is not None
    assert closed.outcome == "baseline_failed"
    assert closed.detail == (
        "infra:gave_up too many attempts failed by our fault; the last one: lost"
    )


def test_a_requeued_experiment_is_tried_anew_and_its_later_decision_stands() -> None:
    night = Night(2, experiments=30)
    while not (2 in night.writer.state.experiments and night.writer.state.experiments[2].decision):
        night.step_orchestrator()
        night.step_recorder()
        for index in range(2):
            night.step_runner(index)
        night.tick(1.0)
    before = [line for line in entries(night.state) if line.id == 2]
    night.poison = set()

    assert not night.tell("requeue", 2).refused

    assert _poisoned(night).decision is None
    assert 2 in night.state.running
    assert [line for line in entries(night.state) if line.id == 2] == before, "until it is decided"
    night.settle()
    assert _poisoned(night).status in (Status.KEEP, Status.DISCARD)
    assert _poisoned(night).decisions == 2
    (line,) = [line for line in entries(night.state) if line.id == 2]
    assert (line.status, line.attempt) == (_poisoned(night).status, 5)
    assert night.state.candidates == 30


def test_a_requeued_experiment_that_is_poison_still_is_given_up_again() -> None:
    """Each requeue grants as many attempts as there were at first, no more."""
    night = Night(2)
    night.settle()
    for times in (2, 3):
        assert not night.tell("requeue", 2).refused
        night.run_again()
        reasons = [r["reason"] for r in night.rows(RowKind.RESULT, 2)]
        assert reasons == (["lost"] * 3 + ["gave_up"]) * times
        assert _poisoned(night).in_dead_letter


def test_what_is_requeued_in_a_closed_session_runs_with_the_next_run() -> None:
    night = Night(2)
    night.settle()
    night.poison = set()

    assert not night.tell("requeue", 2).refused
    assert night.state.run_state is RunState.CLOSED
    night.run_again()

    assert _poisoned(night).decision is not None
    assert _poisoned(night).status is Status.DISCARD, "the later ideas were better"
    assert night.state.running == set()


def test_a_requeued_baseline_lets_the_session_begin() -> None:
    night = Night(1)
    night.settle()
    night.poison = set()
    assert not night.tell("requeue", 1).refused
    night.run_again()

    assert night.state.incumbent is not None
    assert night.state.candidates == 3


@pytest.mark.parametrize("action", ["requeue", "drop"])
def test_twice_is_once(action: str) -> None:
    night = Night(2)
    night.settle()
    rows = len(night.disk)
    night.wish(action, 2)
    text = night.stream.pop()[1]
    acks = []
    for _ in range(3):
        night.stream = [(1, text)]
        night.step_recorder()
        acks.append(night.acks.pop(wire.decode(LedgerMessage, text).key))

    assert len(night.disk) == rows + 1
    assert acks == [Ack(seq=rows + 1)] * 3
    assert not _poisoned(night).in_dead_letter


def test_what_is_dropped_keeps_its_verdict_and_runs_no_more() -> None:
    night = Night(2)
    night.settle()
    assert not night.tell("drop", 2).refused
    night.wish("requeue", 2)
    (entry,) = night.stream
    night.step_recorder()

    ack = night.acks[wire.decode(LedgerMessage, entry[1]).key]
    assert ack.reason == "experiment 2 is not in the dead letter"
    assert _poisoned(night).status is Status.INFRA
    assert night.state.running == set()


@pytest.mark.parametrize(
    ("body", "key", "says"),
    [
        ({"action": "requeue", "id": 3}, "control:requeue:3:1", "not in the dead letter"),
        ({"action": "requeue", "id": 99}, "control:requeue:99:1", "not in the dead letter"),
        ({"action": "requeue", "id": 2}, "control:requeue:2:3", "was given up by row"),
        ({"action": "drop", "id": 2}, "control:any", "was given up by row"),
        ({"action": "requeue"}, "control:any", "only they, name an experiment"),
        ({"action": "resume", "id": 2}, "control:any", "only they, name an experiment"),
    ],
)
def test_what_makes_no_sense_is_refused(body: dict[str, object], key: str, says: str) -> None:
    night = Night(2)
    night.settle()
    rows = len(night.disk)
    night.send(LedgerMessage(key=key, kind=RowKind.CONTROL, body={**body, "by": "cli"}))
    night.step_recorder()

    assert says in (night.acks[key].reason or "")
    assert len(night.disk) == rows
