"""From the fold to what the exports show: one entry a decided experiment. Pure."""

from __future__ import annotations

from overnight.contracts.status import Trust
from overnight.ledger.approvals import refusal
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.recorder.exports import ExportEntry, commit_label


def entries(state: SessionState) -> list[ExportEntry]:
    """All decided experiments, in the order of their first decision."""
    decided = [e for e in state.experiments.values() if e.last_decision is not None]
    decided.sort(key=lambda e: e.first_decision_seq or 0)
    return [entry(state, experiment) for experiment in decided]


def entry(state: SessionState, experiment: ExperimentState) -> ExportEntry:
    """One decided experiment."""
    proposed = experiment.proposed
    final, decision = experiment.decided_on, experiment.last_decision
    assert decision is not None and state.config is not None  # decided
    strategy = state.config.iter_strategy
    return ExportEntry(
        id=experiment.id,
        label=commit_label(strategy, experiment.id, proposed.commit),
        commit=proposed.commit,
        branch=proposed.branch,
        role=proposed.role,
        status=decision.verdict,
        reason=decision.reason,
        metric=final.metric if final else None,
        hypothesis=proposed.hypothesis,
        proposer=proposed.proposer,
        attempt=final.attempt if final else None,
        trust=final.trust if final else Trust.PRINTED,
        parent=proposed.parent,
        peak_vram_mb=final.peak_vram_mb if final else None,
        runtime_s=final.runtime_s if final else None,
        notes=(final.detail if final else refusal(experiment)) or "",
        isolation=final.isolation if final else "none",
        survivors=final.survivors if final else 0,
        hardware=final.hardware if final else "",
        runner=final.runner if final else None,
    )
