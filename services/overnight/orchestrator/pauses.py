"""Why the session pauses itself, in words: what happened, the best so far, what to do. Pure."""

from __future__ import annotations

from overnight.contracts.status import GAVE_UP
from overnight.contracts.untrusted import one_line
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator import strategy
from overnight.orchestrator.policy import environment

_NAMED = 5  #: experiments in one sentence


def environment_broken(state: SessionState) -> str | None:
    """The best was run again and failed as well."""
    re_run = environment.broken(state)
    if re_run is None or re_run.final is None:
        return None
    ids, signature = environment.checked(re_run)
    return (
        f"environment broken: ideas {_named([str(i) for i in ids])} crashed alike "
        f"({one_line(signature or '', 100)}), and so did the best, experiment "
        f"{re_run.proposed.of}, run again: {_last_line(re_run)}. "
        "They count as infra. Mend it, then `overnight resume`"
    )


def given_up(state: SessionState, in_a_row: int) -> str | None:
    """The last *in_a_row* ideas were all given up."""
    row = strategy.given_up(state)
    if len(row) < in_a_row:
        return None
    return (
        f"{len(row)} ideas in a row were given up, each attempt failed by our fault; the last one: "
        f"{one_line(last_fault(row[-1]), 200)}. `overnight deadletter list` shows them, "
        "`overnight resume` goes on"
    )


def worse_and_worse(state: SessionState) -> str | None:
    """With `autonomy: ask`: as many degradations in a row as a person wants to hear of."""
    assert state.config is not None  # opened
    policy = state.config.policy
    if policy.autonomy != "ask":
        return None
    row = strategy.degradations(state)
    if len(row) < policy.ask_after_degradations:
        return None
    told = [f"{e.id} ({e.final.metric:.6g})" for e in row if e.final is not None]
    best = state.metric_of(state.incumbent)
    ideas = "1 idea was" if len(row) == 1 else f"{len(row)} ideas in a row were"
    return (
        f"{ideas} worse than the best so far, experiment {state.incumbent} ({best:.6g}): "
        f"{_named(told)}. `overnight resume` goes on, `overnight steer TEXT` advises the proposer "
        "first, `overnight stop` ends the run"
    )


def last_fault(experiment: ExperimentState) -> str:
    """Why it was given up: what the last attempt that really ended said."""
    faults = (a.result for a in reversed(experiment.attempts) if a.result is not None)
    fault = next((f for f in faults if f.reason != GAVE_UP), None)
    if fault is None:
        return "nothing is known of its attempts"
    return f"{fault.reason}: {fault.detail}" if fault.detail else str(fault.reason)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[-_NAMED:]) + more


def _last_line(experiment: ExperimentState) -> str:
    final = experiment.final
    if final is None:
        return "it never ran"
    lines = [line for line in final.log_tail.splitlines() if line.strip()]
    said = final.detail or (lines[-1] if lines else "")
    return one_line(said, 200).rstrip(".") or final.status.value
