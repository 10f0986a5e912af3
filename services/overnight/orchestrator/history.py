"""What a proposer is told: the fold as a `History`. Pure."""

from __future__ import annotations

from overnight.contracts.proposing import Crash, History, Past
from overnight.contracts.status import Strategy
from overnight.ledger.fold import BY_PERSON, ExperimentState, SessionState
from overnight.orchestrator import strategy
from overnight.orchestrator.strategy import Plan

STEERING_CHARS = 16_000  #: of all advice that travels; older advice is left out first


def history(
    state: SessionState,
    parent_files: dict[str, str],
    program: str | None = None,
    *,
    asked: Plan | None = None,
    repair: Crash | None = None,
) -> History:
    """All that happened, with the editable files of the tree that is to be edited.

    asked: how to search next; None: as usual, from the incumbent. repair: what may be mended.
    """
    assert state.config is not None and state.opened is not None  # opened
    baseline, best = state.metric_of(1), state.metric_of(state.incumbent)
    assert baseline is not None and best is not None and state.incumbent is not None
    return History(
        tag=state.opened.tag,
        metric=state.config.metric,
        baseline_metric=baseline,
        incumbent=state.incumbent,
        incumbent_metric=best,
        parent_files=parent_files,
        experiments=tuple(_past(e) for _, e in sorted(state.experiments.items())),
        next_id=state.next_id,
        seed=state.config.seed,
        question=state.config.research.question,
        starting_hypothesis=state.config.research.starting_hypothesis,
        steering=_steering(state),
        program=program,
        parent=asked.parent if asked else state.incumbent,
        strategy=asked.strategy if asked else Strategy.NORMAL,
        degradations=len(strategy.degradations(state)),
        since_keep=len(strategy.since_keep(state)),
        repair=repair,
    )


def _steering(state: SessionState) -> tuple[str, ...]:
    """A person's advice, and why ideas were rejected; as much of the newest as may travel."""
    said = [(advice.seq, advice.text) for advice in state.steering]
    for experiment in state.experiments.values():
        if experiment.answer is not None and experiment.rejection == BY_PERSON:
            why = f": {experiment.answer.why}" if experiment.answer.why else ""
            text = f"experiment {experiment.id} was rejected{why}"
            said.append((experiment.answer_seq or 0, text))
    kept: list[str] = []
    room = STEERING_CHARS
    for _, text in sorted(said, reverse=True):
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    return tuple(reversed(kept))


def _past(experiment: ExperimentState) -> Past:
    proposed, final = experiment.proposed, experiment.final
    return Past(
        id=proposed.id,
        role=proposed.role,
        parent=proposed.parent,
        status=experiment.status,
        reason=experiment.decision.reason if experiment.decision else None,
        metric=final.metric if final else None,
        hypothesis=proposed.hypothesis,
        proposer=proposed.proposer,
        details=proposed.details,
        runtime_s=final.runtime_s if final else None,
        log_tail=final.log_tail if final else "",
        measures=final.measures if final else {},
        analysis=proposed.analysis,
        lines_added=proposed.lines_added,
        lines_removed=proposed.lines_removed,
        repairs=proposed.repairs,
    )
