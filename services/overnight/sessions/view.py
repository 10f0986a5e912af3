"""A session for people and scripts: the shapes of `status`, `results` and `show`."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.loop import MetricSpec, Research
from overnight.contracts.status import Direction, Role, Status
from overnight.ledger.approvals import awaiting, awaits_approval, refusal
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.caps import HOUR, price
from overnight.orchestrator.planning import counts, waits_for_limit
from overnight.sessions.locate import Found, read_state
from overnight.sessions.program.changes import change_in
from overnight.sessions.stack import Stack, read_stack

RUNNING, QUEUED, INTERRUPTED = "running", "queued", "interrupted"
WAITING = "waits for approval"
ADVICE_SHOWN = 5  #: of `status`, the newest
_RUNNER = re.compile(r"r[0-9]+")  #: a runner among a stack's children


def status_object(
    files: SessionFiles,
    tag: str,
    state: SessionState,
    endpoints: dict[str, str],
    *,
    runners: int | None = None,
) -> dict[str, Any]:
    """The object of `status --json`, also the last line of `run --json`.

    *runners*: of the stack that works on it now; None: there is none. Then nothing is in flight,
    whatever was issued last.
    """
    best = state.incumbent
    standings = [standing(state, state.experiments[i], runners) for i in state.running]
    interrupted = standings.count(INTERRUPTED)
    research = state.config.research if state.config else Research()
    return {
        "tag": tag,
        "state": state.run_state.value,
        "why": state.state_why or None,
        "metric": state.config.metric.name if state.config else None,
        "direction": state.config.metric.direction.value if state.config else None,
        "baseline": state.metric_of(1) if state.baseline else None,
        "best": None if best is None else {"id": best, "metric": state.metric_of(best)},
        "counts": counts(state),
        "ideas": idea_counts(state),
        "candidates": state.candidates,
        "description": state.opened.description if state.opened else "",
        "origin": _origin(state),
        "question": research.question,
        "starting_hypothesis": research.starting_hypothesis,
        "steering": [asdict(advice) for advice in state.steering[-ADVICE_SHOWN:]],
        "approvals": [{"id": e.id, "hypothesis": e.proposed.hypothesis} for e in awaiting(state)],
        "limit": None if runners is None else waits_for_limit(state),
        **spent(state),
        "in_flight": len(standings) - interrupted - standings.count(WAITING),
        "queued": standings.count(QUEUED),
        "interrupted": interrupted,
        "rows": state.seq,
        "session_dir": str(files.root),
        "endpoints": endpoints,
        "waiting": {},  # service -> what for; `current_status` knows
        "program": None,  # what became of program.md; `current_status` knows
    }


def _origin(state: SessionState) -> dict[str, Any] | None:
    """Whose result it began with; None: with the folder, as nearly always."""
    origin = state.opened.origin if state.opened else None
    return None if origin is None else {"tag": origin.tag, "id": origin.id}


def spent(state: SessionState) -> dict[str, float | None]:
    """What all attempts have taken so far; usd None: no price is known."""
    hours = state.device_seconds / HOUR * (state.config.devices_each if state.config else 1)
    usd_per_hour = price(state.config) if state.config else None
    return {
        "device_hours": round(hours, 6),
        "usd": None if usd_per_hour is None else round(hours * usd_per_hour, 4),
    }


def idea_counts(state: SessionState) -> dict[str, int]:
    """Decided ideas by verdict, as `counts` without the baseline and re-runs: they are none."""
    tally = counts(state)
    for number in (1, *state.replicates):
        experiment = state.experiments.get(number)
        if experiment is not None and experiment.decision is not None:
            tally[experiment.decision.verdict.value] -= 1
    return tally


def runners_of(stack: Stack | None) -> int | None:
    """How many runners a stack has; None without a stack."""
    if stack is None:
        return None
    return sum(1 for name in stack.children if _RUNNER.fullmatch(name))


def standing(state: SessionState, experiment: ExperimentState, runners: int | None) -> str:
    """What an experiment without a verdict does: one of the four words above.

    Nothing runs once the run is closed, nor without a stack. What was issued is taken in order.
    """
    if runners is None or state.closed is not None:
        return INTERRUPTED
    attempt = experiment.open_attempt
    if attempt is None and awaits_approval(state, experiment):
        return WAITING
    if attempt is None:
        return RUNNING if experiment.ended else QUEUED
    others = (state.experiments[i].open_attempt for i in state.running)
    ahead = sum(1 for other in others if other is not None and other.seq < attempt.seq)
    return RUNNING if ahead < runners else QUEUED


def current_status(found: Found) -> dict[str, Any]:
    """The status of a session on this host, and the pid of the stack that runs for it."""
    stack = read_stack(found.files)
    endpoints = dict(stack.endpoints) if stack else {}
    state = read_state(found.files)
    status = status_object(found.files, found.tag, state, endpoints, runners=runners_of(stack))
    waiting = dict(stack.waiting) if stack else {}
    program = change_in(found.files, state.opened)
    return status | {
        "pid": stack.pid if stack else None,
        "waiting": waiting,
        "program": program,
    }


def result_row(experiment: ExperimentState) -> dict[str, Any]:
    """One object of `results --json`. In flight: status null."""
    proposed, decision = experiment.proposed, experiment.decision
    last = experiment.final or _last(experiment)
    return {
        "id": experiment.id,
        "attempt": last.attempt if last else None,
        "role": proposed.role.value,
        "status": decision.verdict.value if decision else None,
        "reason": decision.reason if decision else None,
        "metric": experiment.final.metric if experiment.final else None,
        "trust": last.trust.value if last else None,
        "parent": proposed.parent,
        "commit": proposed.commit,
        "branch": proposed.branch,
        "hypothesis": proposed.hypothesis,
        "proposer": proposed.proposer,
        "strategy": proposed.strategy.value,
        "of": proposed.of,
        "repairs": proposed.repairs,
        "flags": list(decision.flags) if decision else [],
        "runtime_s": last.runtime_s if last else None,
        "cpu_s": last.cpu_s if last else None,
        "peak_vram_mb": last.peak_vram_mb if last else None,
        "measures": dict(last.measures) if last else {},
        "guard": last.guard if last else None,
        "isolation": last.isolation if last else None,
        "image": last.image if last else None,
        "devices": list(last.devices) if last else [],
        "survivors": last.survivors if last else None,
        "hardware": last.hardware if last else None,
        "runner": last.runner if last else None,
        "detail": last.detail if last else refusal(experiment),
    }


def _last(experiment: ExperimentState) -> ExperimentResult | None:
    results = [a.result for a in experiment.attempts if a.result is not None]
    return results[-1] if results else None


def ranked(state: SessionState) -> list[ExperimentState]:
    """Best first, re-runs after all others; without a metric last, in order of id."""
    minimize = state.config is None or state.config.metric.direction is Direction.MINIMIZE
    sign = 1.0 if minimize else -1.0

    def order(experiment: ExperimentState) -> tuple[int, float, int]:
        metric = experiment.final.metric if experiment.final else None
        if metric is None:
            return (2, 0.0, experiment.id)
        again = experiment.proposed.role is Role.REPLICATE
        return (int(again), sign * metric, experiment.id)

    return sorted(state.experiments.values(), key=order)


def gain_percent(metric: MetricSpec, baseline: float, best: float) -> float | None:
    """How much better *best* is, in percent of |baseline|; None when the baseline is 0."""
    if baseline == 0:
        return None
    gain = baseline - best if metric.direction is Direction.MINIMIZE else best - baseline
    return 100.0 * gain / abs(baseline)


def survivors(state: SessionState) -> tuple[int, int]:
    """Processes that outlived their sandbox, and how many attempts nobody could count for."""
    total = uncounted = 0
    for experiment in state.experiments.values():
        for attempt in experiment.attempts:
            result = attempt.result
            if result is None or result.runner is None:
                queued_only = result is not None and result.status is Status.CANCELLED
                uncounted += not queued_only
            else:
                total += result.survivors
    return total, uncounted


def kept_path(state: SessionState) -> list[ExperimentState]:
    """The kept changes that lead from the baseline to the best, in order."""
    return path_to(state, state.incumbent)


def path_to(state: SessionState, experiment: int | None) -> list[ExperimentState]:
    """The changes that lead from the baseline to that experiment, itself included, in order."""
    path: list[ExperimentState] = []
    here = experiment
    while here is not None and here != 1:
        path.append(state.experiments[here])
        here = state.experiments[here].proposed.parent
    return path[::-1]
