"""Waiting for what a running session does next: a verdict, or the end of its run."""

from __future__ import annotations

import time
from collections.abc import Callable

from overnight.contracts.errors import InfrastructureError
from overnight.ledger.approvals import awaiting
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import RunState, SessionState
from overnight.ledger.reader import LedgerTail
from overnight.orchestrator.planning import waits_for_limit
from overnight.sessions.experiments import find_experiment
from overnight.sessions.stack import not_running, read_stack

POLL_SECONDS = 0.25


def wait_decided(files: SessionFiles, which: int, *, timeout_seconds: float) -> SessionState:
    """The session's state as soon as that experiment is decided.

    Raises:
        UsageError: no such experiment, and nothing runs that could still propose it.
        InfrastructureError: not in time (says whom it waits for), or nothing runs that could
            decide it.
    """
    name = f"experiment {which}"

    def decided(state: SessionState, runs: bool) -> bool:
        experiment = state.experiments.get(which)
        if experiment is None and not runs:
            find_experiment(state, str(which))  # says which there are
        return experiment is not None and experiment.decision is not None

    return _until(files, decided, f"{name} is not decided", timeout_seconds, which)


def wait_over(files: SessionFiles, *, timeout_seconds: float) -> SessionState:
    """The session's state as soon as its run has ended, or is paused.

    Raises:
        InfrastructureError: not in time (says whom it waits for), or nothing runs that could end.
    """

    def over(state: SessionState, runs: bool) -> bool:
        return state.closed is not None or (runs and state.run_state is RunState.PAUSED)

    return _until(files, over, "the session has not ended", timeout_seconds, None)


def _until(
    files: SessionFiles,
    done: Callable[[SessionState, bool], bool],
    not_yet: str,
    timeout_seconds: float,
    which: int | None,
) -> SessionState:
    deadline = time.monotonic() + timeout_seconds
    tail, state = LedgerTail(files.ledger), SessionState()
    while True:
        runs = read_stack(files) is not None  # before reading: what it wrote last is seen then
        for row in tail.rows():
            state.apply(row)
        if done(state, runs):
            return state
        if not runs:
            raise InfrastructureError(f"{not_yet} and {not_running(files)}")
        if time.monotonic() >= deadline:
            why = _waits_for(state, which)
            raise InfrastructureError(f"{not_yet} after {timeout_seconds:g} s{why}")
        time.sleep(POLL_SECONDS)


def _waits_for(state: SessionState, which: int | None) -> str:
    """Whom or what it waits for, as the end of a sentence. *which*: only what holds up that one."""
    asked = [e.id for e in awaiting(state) if which in (None, e.id)]
    if asked:
        return f": {asked[0]} waits for approval: overnight approve {asked[0]}"
    if which is not None and which not in state.experiments:
        return ": it is not proposed yet"
    limit = waits_for_limit(state)
    return f": near its limit ({limit})" if limit and which is None else ""
