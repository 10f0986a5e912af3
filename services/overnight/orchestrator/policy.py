"""What is kept: `decide` is pure, without clock or randomness, so `verify` can derive it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overnight.contracts.errors import LedgerError, VersionError
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import Role, Status
from overnight.ledger.fold import ExperimentState, SessionState

POLICY_VERSION = 1  #: of new sessions; released versions stay in _POLICIES for ever


@dataclass(frozen=True)
class MoreRuns:
    """Not yet: the policy first wants *of* run again *count* times (confirmation)."""

    of: int
    count: int


def decide(state: SessionState, experiment_id: int) -> Decision | MoreRuns:
    """The verdict on one ended experiment, given all that *state* has folded.

    Dispatches on the session's own policy version, so an old session replays as it was decided.

    Raises:
        LedgerError: a newer version opened the session, with a policy that is not known here.
    """
    assert state.opened is not None  # an experiment ends only in an open session
    check_policy(state.opened.policy_version)
    return _POLICIES[state.opened.policy_version](state, state.experiments[experiment_id])


def check_policy(version: int) -> None:
    """Can this release decide by it? Raises LedgerError."""
    if version not in _POLICIES:
        raise LedgerError(str(VersionError("the session's policy", version, POLICY_VERSION)))


def _policy_1(state: SessionState, experiment: ExperimentState) -> Decision | MoreRuns:
    """The seed's exact rule: strictly better than the incumbent is kept (confirm.runs = 0).

    Confirmation beyond noise comes in here as a later version: it returns MoreRuns until the
    replicates that it rests on have ended.
    """
    if experiment.rejection is not None:
        return _verdict(state, experiment, Status.REJECTED, experiment.rejection)
    final = experiment.final
    assert final is not None and state.config is not None  # ended
    if final.status is not Status.SCORED:
        return _verdict(state, experiment, Status(final.status), final.reason)
    if experiment.proposed.role is Role.BASELINE:
        return _verdict(state, experiment, Status.KEEP, None, kept=True)
    verdict, reason = _strictly_better(state, state.config, experiment, final)
    return _verdict(state, experiment, verdict, reason, kept=verdict is Status.KEEP)


def _strictly_better(
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


def _verdict(
    state: SessionState,
    experiment: ExperimentState,
    verdict: Status,
    reason: str | None,
    *,
    kept: bool = False,
) -> Decision:
    before = state.incumbent
    seqs = [experiment.end_seq]
    if before is not None and experiment.final_seq is not None:
        rested = state.experiments[before].final_seq
        if rested is not None:
            seqs.append(rested)
    return Decision.model_validate(
        {
            "id": experiment.id,
            "verdict": verdict,
            "reason": reason,
            "incumbent_before": before,
            "incumbent_after": experiment.id if kept else before,
            "rests_on": tuple(sorted(seqs)),
            "basis_seq": state.seq,
        }
    )


_Policy = Callable[[SessionState, ExperimentState], Decision | MoreRuns]
_POLICIES: dict[int, _Policy] = {1: _policy_1}
KNOWN_POLICIES = frozenset(_POLICIES)
