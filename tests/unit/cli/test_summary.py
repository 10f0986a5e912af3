"""What a person is told of a session: never that something runs when nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.cli.summary import status_lines
from overnight.contracts.rows import AttemptIssued, SessionClosed
from overnight.contracts.status import Status
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import AttemptState, SessionState
from overnight.sessions.view import standing, status_object
from tests.unit.cli.test_words import decision, experiment

HERE = Path("/w")


def unfinished() -> SessionState:
    """One experiment that was proposed and has no result."""
    state = SessionState()
    one = experiment()
    one.final = None
    state.experiments, state.running = {2: one}, {2}
    return state


@pytest.mark.parametrize("why", ["closed", "no stack"])
def test_what_was_interrupted_is_not_in_flight(why: str) -> None:
    state = unfinished()
    if why == "closed":
        state.closed = SessionClosed(outcome="stopped", detail="interrupted")
    status = status_object(
        SessionFiles(HERE), "t", state, {}, runners=2 if why == "closed" else None
    )
    lines = status_lines(status | {"pid": None}, HERE)

    assert (status["in_flight"], status["interrupted"]) == (0, 1)
    assert any(line.endswith("; 1 interrupted, runs again on resume") for line in lines)
    assert standing(state, state.experiments[2], 2 if why == "closed" else None) == "interrupted"


def test_the_baseline_is_counted_as_no_idea() -> None:
    state = SessionState()
    for number in (1, 2, 3):
        one = experiment()
        one.decision = decision(Status.KEEP if number < 3 else Status.DISCARD)
        state.experiments[number] = one
    status = status_object(SessionFiles(HERE), "t", state, {}, runners=1) | {"pid": 7}

    assert status["counts"]["keep"] == 2
    assert status["ideas"]["keep"] == 1
    assert "  tried     the baseline and 2 ideas: 1 kept, 1 discarded; 0 running" in status_lines(
        status, HERE
    )


def test_what_a_stack_works_on_is_in_flight() -> None:
    state = unfinished()
    status = status_object(SessionFiles(HERE), "t", state, {}, runners=1)

    assert (status["in_flight"], status["interrupted"]) == (1, 0)
    assert (status["queued"], standing(state, state.experiments[2], 1)) == (1, "queued")


def test_what_was_issued_beyond_the_runners_is_queued() -> None:
    state = SessionState()
    for number in (2, 3, 4):
        one = experiment()
        one.final = None
        issued = AttemptIssued(id=number, attempt=1, wall_seconds=9.0)
        one.attempts = [AttemptState(issued, seq=10 - number)]  # the last one was issued first
        state.experiments[number] = one
        state.running.add(number)
    status = status_object(SessionFiles(HERE), "t", state, {}, runners=2) | {"pid": 7}

    assert [standing(state, state.experiments[i], 2) for i in (2, 3, 4)] == [
        "queued", "running", "running",
    ]  # fmt: skip
    assert (status["in_flight"], status["queued"]) == (3, 1)
    assert any(line.endswith("; 2 running, 1 queued") for line in status_lines(status, HERE))
