"""How to go on: degradations, plateaus, and crashed ideas that may be mended. Pure.

Everything is a function of the fold, so a resumed session goes on as an uninterrupted one would.
docs/policy.md has the rules in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from overnight.contracts.loop import MetricSpec
from overnight.contracts.status import GAVE_UP, Role, Status, Strategy
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.policy.environment import idea_of

PLATEAU = 5  #: ideas since the last keep, from which on the strategy changes with each idea
REWIND_AFTER = 12  #: ideas since the last keep
REWIND_EVERY = 20  #: at most one rewind in so many proposals
NEAR = 0.01  #: of |baseline|: a discarded idea this close to the best is a near miss
RECENT_IDEAS = 100  #: near misses are looked for among so many
RECENT_CRASHES = 8  #: decisions; an older crash is mended no more

_FAILED = frozenset({Status.CRASH, Status.TIMEOUT})
_NOT_TRIED = frozenset({Status.REJECTED, Status.INFRA})  #: say nothing of the idea


@dataclass(frozen=True)
class Plan:
    """How the proposer is asked for its next idea."""

    strategy: Strategy
    parent: int  #: whose tree is edited; the incumbent unless it is a rewind


def plan(state: SessionState) -> Plan:
    """The next idea's. With `autonomy: ask` a person changes the course, not the session."""
    assert state.incumbent is not None and state.config is not None  # there is a baseline
    ideas = since_keep(state)
    backs_off = bool(ideas) and _failed(state, ideas[0])
    usual = Plan(Strategy.SMALLER_STEP if backs_off else Strategy.NORMAL, state.incumbent)
    if state.config.policy.autonomy == "ask" or len(ideas) < PLATEAU:
        return usual
    earlier = _rewind_to(state) if len(ideas) >= REWIND_AFTER else None
    if earlier is not None:
        return Plan(Strategy.REWIND, earlier)
    close = near_misses(state, ideas[:RECENT_IDEAS])
    combine = Strategy.COMBINE if len(close) > 1 else Strategy.REREAD
    # By the number of the idea, so that those asked for in one wave differ.
    turns = (Strategy.SMALLER_STEP, combine, Strategy.REREAD, Strategy.BOLDER)
    return Plan(turns[state.next_id % len(turns)], state.incumbent)


def since_keep(state: SessionState) -> list[ExperimentState]:
    """Ideas that ran and were decided since the last keep, newest first."""
    found = []
    for experiment in _ideas(state):
        status = experiment.status
        if status is Status.KEEP:
            break
        if status not in _NOT_TRIED:
            found.append(experiment)
    return found


def near_misses(state: SessionState, ideas: list[ExperimentState]) -> list[ExperimentState]:
    """Those of *ideas*, which came after the last keep, that were nearly as good as the best."""
    best, baseline = state.metric_of(state.incumbent), state.metric_of(1)
    assert best is not None and baseline is not None
    return [
        e
        for e in ideas
        if e.status is Status.DISCARD
        and e.final is not None
        and e.final.metric is not None
        and abs(e.final.metric - best) <= NEAR * abs(baseline)
    ]


def degradations(state: SessionState) -> list[ExperimentState]:
    """Ideas in a row that were strictly worse than the best, oldest first.

    A keep or a tie ends the row, so does a resume; what did not end with a metric does neither.
    """
    row = []
    for experiment in state.decided_since_resume():
        if not _is_idea(experiment):
            continue
        if experiment.status is Status.KEEP or _is_tie(state, experiment):
            break
        if _is_worse(state, experiment):
            row.append(experiment)
    return row[::-1]


def given_up(state: SessionState) -> list[ExperimentState]:
    """Ideas in a row each attempt of which failed by our fault, oldest first."""
    row = []
    for experiment in state.decided_since_resume():
        if experiment.status is Status.REJECTED:
            continue
        if experiment.decision is None or experiment.decision.reason != GAVE_UP:
            break
        row.append(experiment)
    return row[::-1]


# -- repairs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mendable:
    """A crashed idea that the proposer is to be shown."""

    crash: ExperimentState
    tries_left: int  #: this one included


def mendable(state: SessionState) -> Mendable | None:
    """The newest crash that nobody mended yet, nor passed over when it was shown."""
    assert state.config is not None  # opened
    tries = state.config.policy.repair_tries
    for experiment in islice(_ideas(state), RECENT_CRASHES):
        if experiment.status is not Status.CRASH or _seen_to(state, experiment):
            continue
        left = tries - _tries(state, idea_of(state, experiment))
        if left > 0:
            return Mendable(experiment, left)
    return None


def _seen_to(state: SessionState, crash: ExperimentState) -> bool:
    """Was a repair of it run, or did the proposer go on to another idea?"""
    for later in _from(state, crash.id + 1):
        if later.proposed.repairs == crash.id:
            if later.proposed.rejection is None:
                return True
        elif later.proposed.asked_to_mend == crash.id:
            return True
    return False


def _tries(state: SessionState, idea: int) -> int:
    """How often it was mended so far; an edit that was refused was a try, too."""
    later = (e for e in _from(state, idea + 1) if e.proposed.repairs is not None)
    return sum(1 for e in later if idea_of(state, e) == idea)


# -- one by one ---------------------------------------------------------------------------------


def _ideas(state: SessionState) -> Iterator[ExperimentState]:
    """Decided candidates, newest decision first."""
    for seq, number in reversed(state.decided):
        experiment = state.experiments[number]
        if experiment.decision_seq == seq and _is_idea(experiment):
            yield experiment


def _from(state: SessionState, first: int) -> Iterator[ExperimentState]:
    return (state.experiments[number] for number in range(first, state.next_id))


def _is_idea(experiment: ExperimentState) -> bool:
    return experiment.proposed.role in (Role.CANDIDATE, Role.RECOMBINATION)


def _before(state: SessionState, experiment: ExperimentState) -> tuple[float, float] | None:
    """Its metric and the one that it was compared with; None: it was not compared."""
    final, decision = experiment.final, experiment.decision
    if final is None or decision is None or final.status is not Status.SCORED:
        return None
    best = state.metric_of(decision.incumbent_before)
    return None if final.metric is None or best is None else (final.metric, best)


def _is_worse(state: SessionState, experiment: ExperimentState) -> bool:
    pair = _before(state, experiment)
    return pair is not None and _metric(state).better(pair[1], pair[0])


def _is_tie(state: SessionState, experiment: ExperimentState) -> bool:
    pair = _before(state, experiment)
    return pair is not None and pair[0] == pair[1]


def _metric(state: SessionState) -> MetricSpec:
    assert state.config is not None  # opened
    return state.config.metric


def _failed(state: SessionState, experiment: ExperimentState) -> bool:
    return experiment.status in _FAILED or _is_worse(state, experiment)


def _rewind_to(state: SessionState) -> int | None:
    """An earlier kept experiment, one further back with each rewind since the last keep."""
    newest = range(max(1, state.next_id - REWIND_EVERY + 1), state.next_id)
    if any(state.experiments[n].proposed.strategy is Strategy.REWIND for n in newest):
        return None
    best = state.experiments[state.incumbent or 1]
    earlier = [
        number
        for number in state.kept
        if state.experiments[number].proposed.tree_digest != best.proposed.tree_digest
    ]
    if not earlier:
        return None
    kept_at = best.decision_seq or 0
    rewinds = sum(
        1
        for e in state.experiments.values()
        if e.proposed.strategy is Strategy.REWIND and e.seq > kept_at
    )
    return earlier[-1 - rewinds % len(earlier)]
