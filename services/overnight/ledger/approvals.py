"""Ideas that wait for a person's word. Pure; the rules, the plan and the views share it."""

from __future__ import annotations

from overnight.contracts.status import Role
from overnight.ledger.fold import ExperimentState, SessionState


def awaits_approval(state: SessionState, experiment: ExperimentState) -> bool:
    """May it not run before somebody approved it?

    Judged by the bindings as they are now: a resumed session may ask for approval, or no more.
    What ran once was let through.
    """
    return (
        state.config is not None
        and state.config.policy.approval == "hypothesis"
        and experiment.proposed.role is Role.CANDIDATE
        and experiment.answer is None
        and not experiment.attempts
        and not experiment.ended
    )


def awaiting(state: SessionState) -> list[ExperimentState]:
    """All that wait for approval, in order of id."""
    if state.config is None or state.config.policy.approval == "none":
        return []
    found = (state.experiments[i] for i in sorted(state.running))
    return [experiment for experiment in found if awaits_approval(state, experiment)]


def refusal(experiment: ExperimentState) -> str:
    """Why it never ran, in the words of whoever refused it; empty when it was not refused."""
    if experiment.proposed.rejection is None and experiment.rejection is not None:
        return experiment.answer.why if experiment.answer else ""
    return experiment.proposed.rejection_detail
