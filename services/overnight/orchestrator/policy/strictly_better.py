"""Policy version 1, the seed's exact rule: strictly better than the incumbent is kept."""

from __future__ import annotations

from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import Role, Status
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.policy.verdicts import verdict


def decide(state: SessionState, experiment: ExperimentState) -> Decision:
    """The verdict on an ended experiment."""
    if experiment.rejection is not None:
        return verdict(state, experiment, Status.REJECTED, experiment.rejection)
    final = experiment.final
    assert final is not None and state.config is not None  # ended
    if final.status is not Status.SCORED:
        return verdict(state, experiment, Status(final.status), final.reason)
    if experiment.proposed.role is Role.BASELINE:
        return verdict(state, experiment, Status.KEEP, None)
    return verdict(state, experiment, *_compared(state, state.config, experiment, final))


def _compared(
    state: SessionState, config: LoopConfig, experiment: ExperimentState, final: ExperimentResult
) -> tuple[Status, str | None]:
    parent = state.experiments[experiment.proposed.parent or 1]
    if experiment.proposed.tree_digest == parent.proposed.tree_digest:
        return Status.DISCARD, "no_change"
    best = state.metric_of(state.incumbent)
    assert best is not None and final.metric is not None  # an incumbent is scored
    if config.metric.better(final.metric, best):
        return Status.KEEP, None
    return Status.DISCARD, "equal" if final.metric == best else "worse"
