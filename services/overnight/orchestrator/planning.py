"""What comes next: one action at a time from the fold and a glance at the queue. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from overnight.contracts.loop import Policy
from overnight.contracts.status import Status
from overnight.ledger.approvals import awaiting, awaits_approval
from overnight.ledger.fold import ExperimentState, RunState, SessionState
from overnight.orchestrator import pauses
from overnight.orchestrator.pauses import last_fault
from overnight.orchestrator.policy import because, environment
from overnight.orchestrator.policy.environment import Suspicion
from overnight.orchestrator.spending import budget

Fence = tuple[int, int]  #: (experiment id, attempt)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How far the loop may go."""

    in_flight: int  #: runners + prefetch, see `prefetch`
    max_attempts: int = 3  #: infra results before an experiment is given up
    lost_after_seconds: float = 15.0
    rejected_pause: int = 10
    given_up_pause: int = 3  #: ideas in a row that were given up


def prefetch(policy: Policy) -> int:
    """How many ideas are asked for beyond the runners. None where a person follows each one: the
    last metric is recorded before the next hypothesis is asked for."""
    by_hand = policy.autonomy == "ask" or policy.approval == "hypothesis"
    return 0 if by_hand else policy.prefetch


@dataclass(frozen=True, kw_only=True)
class QueueView:
    """What the queue shows of issued attempts without a result."""

    queued: frozenset[Fence] = frozenset()  #: in the list, nobody took it yet
    leased: frozenset[Fence] = frozenset()  #: a runner holds it
    missing_seconds: Mapping[Fence, float] = field(default_factory=dict)  #: neither, for how long
    exhausted: str | None = None  #: why the proposer has nothing left
    out_of_time: bool = False  #: policy.limits.hours is over
    unanswered_seconds: Mapping[int, float] = field(default_factory=dict)  #: since it waits for
    #: approval, experiment by experiment
    free_gb: float | None = None  #: on the session's disk; None: not measured


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
class Rerun:
    """Run the incumbent again, to tell bad ideas from an environment in which nothing runs."""

    id: int
    suspicion: Suspicion


@dataclass(frozen=True)
class Answer:
    """Nobody approved or rejected it in time: do as the policy says."""

    id: int
    approve: bool
    why: str


@dataclass(frozen=True)
class Pause:
    """Stop proposing and say why."""

    why: str
    for_room: bool = False  #: the disk is nearly full


@dataclass(frozen=True)
class Close:
    """End this run."""

    outcome: str
    detail: str = ""


Action = Decide | Issue | GiveUp | ReportLost | Cancel | Propose | Rerun | Answer | Pause | Close


def next_action(state: SessionState, queue: QueueView, bounds: Bounds) -> Action | None:
    """The one thing to do now, None when there is only waiting."""
    if state.run_state is RunState.CLOSED:
        return None
    if state.undecided:
        return Decide(state.undecided[0])
    overturned = environment.overturned(state)
    if overturned is not None:
        return Decide(overturned.id)
    return (
        _baseline_failed(state)
        or _lost(state, queue, bounds)
        or _stopping(state, queue)
        or _next_attempt(state, bounds)
        or _unanswered(state, queue)
        or _drained(state)
        or _propose(state, queue, bounds)
    )


def _baseline_failed(state: SessionState) -> Action | None:
    baseline = state.baseline
    if baseline is None or baseline.decision is None or state.incumbent is not None:
        return None
    reason = f":{baseline.decision.reason}" if baseline.decision.reason else ""
    detail = because(state, baseline)
    if baseline.in_dead_letter:
        detail = f"{detail}; the last one: {last_fault(baseline)}"
    return Close("baseline_failed", f"{baseline.decision.verdict.value}{reason} {detail}".strip())


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
    money = budget(state)
    for experiment in _running(state):
        if experiment.open_attempt is not None or awaits_approval(state, experiment):
            continue
        if money is not None and experiment.id > 1 and not money.affords(1):
            continue  # it runs when others took less than they might, or with a higher limit
        attempt = len(experiment.attempts) + 1
        if experiment.infra_results >= bounds.max_attempts:
            return GiveUp(experiment.id, attempt)
        return Issue(experiment.id, attempt)
    return None


def _unanswered(state: SessionState, queue: QueueView) -> Action | None:
    """Only while the session runs: a pause gives a person all the time there is."""
    assert state.config is not None  # opened
    policy = state.config.policy
    if state.run_state is not RunState.RUNNING or policy.approve_timeout is None:
        return None
    for experiment in awaiting(state):
        if queue.unanswered_seconds.get(experiment.id, 0.0) >= policy.approve_timeout:
            why = f"no answer in {policy.approve_timeout:g} s"
            return Answer(experiment.id, policy.approve_then == "run", why)
    return None


def _drained(state: SessionState) -> Action | None:
    """What waits for a person is no work under way: it is asked for again by the next run."""
    if state.run_state is RunState.DRAINING and not _under_way(state):
        return Close("drained", state.state_why)
    return None


def _propose(state: SessionState, queue: QueueView, bounds: Bounds) -> Action | None:
    if state.run_state is not RunState.RUNNING:
        return None
    if state.baseline is None:
        return _no_room(state, queue) or Propose(1)
    if state.incumbent is None:
        return None
    over = _over(state, queue) or _unaffordable(state)
    if over is not None:
        return None if _under_way(state) else over
    if environment.checking(state):
        return None  # more ideas would only crash as well
    doubt = _in_doubt(state)
    if doubt is not None:
        return doubt if isinstance(doubt, Pause) or len(state.running) < bounds.in_flight else None
    enough = _enough(state, queue)
    if enough is not None:
        return enough if not state.running else None
    why = pauses.given_up(state, bounds.given_up_pause) or pauses.worse_and_worse(state)
    if why is not None:
        return Pause(why)
    if state.rejected_in_a_row >= bounds.rejected_pause:
        return Pause(f"{state.rejected_in_a_row} proposals in a row could not be applied")
    if state.unanswered_in_a_row >= bounds.rejected_pause and not state.running:
        return Pause(f"nobody approved or rejected {state.unanswered_in_a_row} ideas in a row")
    if len(state.running) < bounds.in_flight:
        return _no_room(state, queue) or _afforded(state)
    return None


def _no_room(state: SessionState, queue: QueueView) -> Pause | None:
    least = state.config.min_free_gb if state.config else None
    if least is None or queue.free_gb is None or queue.free_gb >= least:
        return None
    return Pause(
        f"the disk has {queue.free_gb:.1f} GB left, less than min_free_gb {least:g}", for_room=True
    )


def would_free(now_bytes: int, stopped_bytes: int) -> str:
    """What a person can do about a disk that is nearly full, as the end of a sentence."""
    now, stopped = f"{now_bytes / 1e6:.0f} MB", f"{stopped_bytes / 1e6:.0f} MB"
    return f": `overnight clean` would free {now} now, {stopped} once stopped; then `resume`"


def _in_doubt(state: SessionState) -> Pause | Rerun | None:
    """Candidates that crash alike: is it they, or does nothing run any more?"""
    why = pauses.environment_broken(state)
    if why is not None:
        return Pause(why)
    found = environment.suspicion(state)
    return None if found is None else Rerun(state.next_id, found)


def _afforded(state: SessionState) -> Action | None:
    """One more idea, unless it could take the session over its cost limit."""
    money = budget(state)
    pending = sum(1 for e in _running(state) if e.open_attempt is None)
    if money is None or money.affords(pending + 1):
        return Propose(state.next_id)
    if _under_way(state) or (money.affords(1) and awaiting(state)):
        return None  # it may take less than it might, or be rejected
    return Close("done", money.told())


def _unaffordable(state: SessionState) -> Close | None:
    """What was proposed and can't even start ends a run, too; it runs with a higher limit."""
    money = budget(state)
    if money is None or not state.running or money.affords(1):
        return None
    return Close("done", money.told())


def waits_for_limit(state: SessionState) -> str | None:
    """Why no idea is asked for though a runner may be free: what runs could use up the limit."""
    if state.config is None or state.incumbent is None or state.run_state is not RunState.RUNNING:
        return None
    money = budget(state)
    pending = sum(1 for e in _running(state) if e.open_attempt is None)
    if money is None or money.affords(pending + 1) or not state.running:
        return None
    return money.told()


def _under_way(state: SessionState) -> bool:
    """Does anything run, or wait in the queue?"""
    return any(e.open_attempt is not None for e in _running(state))


def _over(state: SessionState, queue: QueueView) -> Close | None:
    """What ends a run even while ideas wait for a person."""
    assert state.config is not None  # opened
    best, target = state.metric_of(state.incumbent), state.config.metric.target
    if target is not None and best is not None and not state.config.metric.better(target, best):
        return Close("done", f"target {target} reached")
    return Close("done", "out of time") if queue.out_of_time else None


def _enough(state: SessionState, queue: QueueView) -> Close | None:
    """What ends a run once all ideas have ended."""
    assert state.config is not None  # opened
    limit = state.config.policy.limits.experiments
    if limit is not None and state.candidates >= limit:
        ideas = "1 idea" if state.candidates == 1 else f"{state.candidates} ideas"
        return Close("done", ideas)
    if queue.exhausted is not None:
        return Close("exhausted", queue.exhausted)
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
    "Action", "Answer", "Bounds", "Cancel", "Close", "Decide", "Fence", "GiveUp", "Issue", "Pause",
    "Propose", "QueueView", "ReportLost", "Rerun", "counts", "last_fault", "next_action",
    "prefetch",
    "waits_for_limit",
]  # fmt: skip
