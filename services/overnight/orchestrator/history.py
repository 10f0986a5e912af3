"""What a proposer is told: the fold as a `History`. Pure."""

from __future__ import annotations

from overnight.contracts.proposing import History, Past
from overnight.ledger.fold import ExperimentState, SessionState

STEERING_CHARS = 16_000  #: of all advice that travels; older advice is left out first


def history(
    state: SessionState, parent_files: dict[str, str], program: str | None = None
) -> History:
    """All that happened, with the editable files of the incumbent's tree."""
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
    )


def _steering(state: SessionState) -> tuple[str, ...]:
    """A person's advice, newest last; as much of the newest as may travel."""
    kept: list[str] = []
    room = STEERING_CHARS
    for advice in reversed(state.steering):
        room -= len(advice.text)
        if room < 0:
            break
        kept.append(advice.text)
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
    )
