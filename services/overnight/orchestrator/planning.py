"""What comes next: one action at a time from the fold and a glance at the queue. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from overnight.contracts.status import GAVE_UP, Status
from overnight.ledger.fold import ExperimentState, RunState, SessionState

Fence = tuple[int, int]  #: (experiment id, attempt)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How far the loop may go."""

    in_flight: int  #: runners + prefetch
    max_attempts: int = 3  #: infra results before an experiment is given up
    lost_after_seconds: float = 15.0
    rejected_pause: int = 10


@dataclass(frozen=True, kw_only=True)
class QueueView:
    """What the queue shows of issued attempts without a result."""

    queued: frozenset[Fence] = frozenset()  #: in the list, nobody took it yet
    leased: frozenset[Fence] = frozenset()  #: a runner holds it
    missing_seconds: Mapping[Fence, float] = field(default_factory=dict)  #: neither, for how long
    exhausted: bool = False  #: the proposer has nothing left
    out_of_time: bool = False  #: policy.limits.hours is over


@dataclass(frozen=True)
class Decide:
    """Judge an ended experiment."""

    id: int


@dataclass(frozen=True)
class Issue:
    """Let an experiment run: write the fence, then push."""

    id: int
    attempt: int


@dataclass(frozen=True)
class GiveUp:
    """Too many attempts failed by our fault: the dead letter."""

    id: int
    attempt: int


@dataclass(frozen=True)
class ReportLost:
    """Nobody has it any more."""

    id: int
    attempt: int


@dataclass(frozen=True)
class Cancel:
    """It waits in the queue while the session stops: take it out, say so."""

    id: int
    attempt: int


@dataclass(frozen=True)
class Propose:
    """Ask for the next idea (experiment 1 is the unmodified tree)."""

    id: int


@dataclass(frozen=True)
class Pause:
    """Stop proposing and say why."""

    why: str


@dataclass(frozen=True)
class Close:
    """End this run."""

    outcome: str
    detail: str = ""


Action = Decide | Issue | GiveUp | ReportLost | Cancel | Propose | Pause | Close


def next_action(state: SessionState, queue: QueueView, bounds: Bounds) -> Action | None:
    """The one thing to do now, None when there is only waiting."""
    if state.run_state is RunState.CLOSED:
        return None
    if state.undecided:
        return Decide(state.undecided[0])
    return (
        _baseline_failed(state)
        or _lost(state, queue, bounds)
        or _stopping(state, queue)
        or _next_attempt(state, bounds)
        or _drained(state)
        or _propose(state, queue, bounds)
    )


def _baseline_failed(state: SessionState) -> Action | None:
    baseline = state.baseline
    if baseline is None or baseline.decision is None or state.incumbent is not None:
        return None
    reason = f":{baseline.decision.reason}" if baseline.decision.reason else ""
    detail = baseline.final.detail if baseline.final else ""
    if baseline.in_dead_letter:
        detail = f"{detail}; the last one: {last_fault(baseline)}"
    return Close("baseline_failed", f"{baseline.decision.verdict.value}{reason} {detail}".strip())


def last_fault(experiment: ExperimentState) -> str:
    """Why it was given up: what the last attempt that really ended said."""
    faults = (a.result for a in reversed(experiment.attempts) if a.result is not None)
    fault = next((f for f in faults if f.reason != GAVE_UP), None)
    if fault is None:
        return "nothing is known of its attempts"
    return f"{fault.reason}: {fault.detail}" if fault.detail else str(fault.reason)


def _lost(state: SessionState, queue: QueueView, bounds: Bounds) -> Action | None:
    for experiment in _running(state):
        attempt = experiment.open_attempt
        if attempt is None:
            continue
        fence = (experiment.id, attempt.issued.attempt)
        if queue.missing_seconds.get(fence, 0.0) >= bounds.lost_after_seconds:
            return ReportLost(*fence)
    return None


def _stopping(state: SessionState, queue: QueueView) -> Action | None:
    if state.run_state is not RunState.STOPPING:
        return None
    still_running = False
    for experiment in _running(state):
        attempt = experiment.open_attempt
        if attempt is None:
            continue
        still_running = True
        fence = (experiment.id, attempt.issued.attempt)
        if fence not in queue.leased:
            return Cancel(*fence)
    return None if still_running else Close("stopped", state.state_why)


def _next_attempt(state: SessionState, bounds: Bounds) -> Action | None:
    if state.run_state is RunState.STOPPING:
        return None
    for experiment in _running(state):
        if experiment.open_attempt is not None:
            continue
        attempt = len(experiment.attempts) + 1
        if experiment.infra_results >= bounds.max_attempts:
            return GiveUp(experiment.id, attempt)
        return Issue(experiment.id, attempt)
    return None


def _drained(state: SessionState) -> Action | None:
    if state.run_state is RunState.DRAINING and not state.running:
        return Close("drained", state.state_why)
    return None


def _propose(state: SessionState, queue: QueueView, bounds: Bounds) -> Action | None:
    if state.run_state is not RunState.RUNNING:
        return None
    if state.baseline is None:
        return Propose(1)
    if state.incumbent is None:
        return None
    enough = _enough(state, queue)
    if enough is not None:
        return enough if not state.running else None
    if state.rejected_in_a_row >= bounds.rejected_pause:
        return Pause(f"{state.rejected_in_a_row} proposals in a row could not be applied")
    if len(state.running) < bounds.in_flight:
        return Propose(state.next_id)
    return None


def _enough(state: SessionState, queue: QueueView) -> Close | None:
    assert state.config is not None  # opened
    limit = state.config.policy.limits.experiments
    if limit is not None and state.candidates >= limit:
        ideas = "1 idea" if state.candidates == 1 else f"{state.candidates} ideas"
        return Close("done", ideas)
    best, target = state.metric_of(state.incumbent), state.config.metric.target
    if target is not None and best is not None and not state.config.metric.better(target, best):
        return Close("done", f"target {target} reached")
    if queue.out_of_time:
        return Close("done", "out of time")
    if queue.exhausted:
        return Close("exhausted", "the proposer has nothing left to try")
    return None


def _running(state: SessionState) -> list[ExperimentState]:
    return [state.experiments[i] for i in sorted(state.running)]


def counts(state: SessionState) -> dict[str, int]:
    """Decided experiments by verdict, the baseline included. Missing statuses count 0."""
    tally = dict.fromkeys((s.value for s in Status if s is not Status.SCORED), 0)
    for experiment in state.experiments.values():
        if experiment.decision is not None:
            tally[experiment.decision.verdict.value] += 1
    return tally


__all__ = [
    "Action", "Bounds", "Cancel", "Close", "Decide", "Fence", "GiveUp", "Issue", "Pause",
    "Propose", "QueueView", "ReportLost", "counts", "next_action",
]  # fmt: skip
