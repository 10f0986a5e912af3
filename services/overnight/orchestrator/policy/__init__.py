"""What is kept: `decide` is pure, without clock or randomness, so `verify` can derive it again.

One file a version. A released version never changes: a session is decided by the one that it was
opened with. docs/policy.md has the rules in words and as a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overnight.contracts.errors import LedgerError, VersionError
from overnight.contracts.experiment import Decision
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.policy import strictly_better, weighed
from overnight.orchestrator.policy.requirements import objection, unguarded

POLICY_VERSION = 2  #: of new sessions; released versions stay in _POLICIES for ever


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


def because(state: SessionState, experiment: ExperimentState) -> str:
    """Why it was not kept, in a line for a person; empty where verdict and reason say it all."""
    final, decision = experiment.final, experiment.decision
    if final is None or decision is None or state.config is None:
        return ""
    found = objection(state.config, final) or unguarded(state.config, final)
    return found.why if found is not None and found.reason == decision.reason else final.detail


def check_policy(version: int) -> None:
    """Can this release decide by it? Raises LedgerError."""
    if version not in _POLICIES:
        raise LedgerError(str(VersionError("the session's policy", version, POLICY_VERSION)))


_Policy = Callable[[SessionState, ExperimentState], Decision | MoreRuns]
_POLICIES: dict[int, _Policy] = {1: strictly_better.decide, 2: weighed.decide}
KNOWN_POLICIES = frozenset(_POLICIES)

__all__ = ["KNOWN_POLICIES", "POLICY_VERSION", "MoreRuns", "because", "check_policy", "decide"]
