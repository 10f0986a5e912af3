"""A verdict as the body of a `decision` row. Pure."""

from __future__ import annotations

from overnight.contracts.experiment import Decision
from overnight.contracts.status import Status
from overnight.ledger.fold import ExperimentState, SessionState


def verdict(
    state: SessionState,
    experiment: ExperimentState,
    status: Status,
    reason: str | None,
    *,
    flags: tuple[str, ...] = (),
) -> Decision:
    """*status* and *reason* of *experiment*, resting on its end and the incumbent's result."""
    before = state.incumbent
    seqs = {experiment.end_seq}
    if before is not None and experiment.final_seq is not None:
        rested = state.experiments[before].final_seq
        if rested is not None:
            seqs.add(rested)
    return Decision.model_validate(
        {
            "id": experiment.id,
            "verdict": status,
            "reason": reason,
            "incumbent_before": before,
            "incumbent_after": experiment.id if status is Status.KEEP else before,
            "flags": flags,
            "rests_on": tuple(sorted(seqs)),
            "basis_seq": state.seq,
        }
    )
