"""What a prompt is told of a session: from its ledger, or from the bindings before it began."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from overnight.configuration import resolve_loop
from overnight.contracts.errors import UsageError
from overnight.contracts.status import Status, Strategy
from overnight.contracts.untrusted import one_line
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.strategy import degradations, plan
from overnight.recorder.entries import entry
from overnight.sessions.agreement import Brief, Last
from overnight.sessions.demo import track_of
from overnight.sessions.experiments import diff, log_tail
from overnight.sessions.locate import Found, find_session, read_state
from overnight.sessions.view import idea_counts, ranked
from overnight.snapshots import userrepo

PROGRAM = "program.md"
SHOWN = 60  #: experiments in a prompt, at most: so many of the newest, of the best, of the kept
_NEWEST, _BEST, _KEPT = 25, 15, 20
HYPOTHESIS_CHARS, NOTES_CHARS = 240, 160
LOG_LINES = 50
ADVICE = 5  #: pieces of a person's advice, the newest


def brief_of(directory: Path, tag: str | None, environ: Mapping[str, str]) -> Brief:
    """The session that --dir and TAG mean; before there is one, that repository's bindings.

    Raises:
        UsageError: no session of that tag, or neither a session nor bindings.
    """
    try:
        found = find_session(directory, tag)
    except UsageError:
        if tag is not None:
            raise
        return _from_bindings(directory, environ)
    state = read_state(found.files)
    if state.config is None:  # it was made, and died before its first row
        return _from_bindings(directory, environ)
    return of_session(found, state)


def _from_bindings(directory: Path, environ: Mapping[str, str]) -> Brief:
    loop = resolve_loop(directory, flags={}, environ=environ, track=track_of(directory))
    return Brief(
        config=loop.config,
        in_git=userrepo.find(loop.repo) is not None,
        has_program=(loop.repo / PROGRAM).is_file(),
    )


def of_session(found: Found, state: SessionState) -> Brief:
    """An opened session. *state*: its ledger, folded."""
    assert state.config is not None and state.opened is not None  # opened
    decided = [e for e in state.experiments.values() if e.decision is not None]
    shown = _shown(state, decided)
    best = state.metric_of(state.incumbent)
    course = None if best is None else plan(state)
    counted = {name: count for name, count in idea_counts(state).items() if count}
    ideas = sum(counted.values())
    repo = found.files.root.parent  # where sandbox_root lies, in all but odd cases
    told = ", ".join(f"{count} {name}" for name, count in counted.items())
    return Brief(
        config=state.config,
        tag=found.tag,
        branch=state.opened.branch,
        baseline=state.metric_of(1) if state.baseline else None,
        best=None if state.incumbent is None or best is None else (state.incumbent, best),
        best_diff=_best_diff(found, state),
        tried=f"{ideas} {'idea' if ideas == 1 else 'ideas'}: {told}" if ideas else "",
        number=state.candidates + 1,
        last=_last(found, decided),
        log=tuple(_row(state, experiment) for experiment in shown),
        left_out=len(decided) - len(shown),
        degradations=len(degradations(state)),
        strategy=Strategy.NORMAL if course is None else course.strategy,
        parent=None if course is None else course.parent,
        advice=tuple(advice.text for advice in state.steering[-ADVICE:]),
        in_git=userrepo.find(repo) is not None,
        has_program=(repo / PROGRAM).is_file(),
    )


def _shown(state: SessionState, decided: list[ExperimentState]) -> list[ExperimentState]:
    """The ones that a prompt has room for, in order of their id."""
    if len(decided) > SHOWN:
        kept = [e for e in decided if e.status is Status.KEEP]
        best = [e for e in ranked(state) if e.decision is not None]
        chosen = {e.id for e in (*kept[-_KEPT:], *best[:_BEST], *decided[-_NEWEST:])}
        decided = [e for e in decided if e.id in chosen]
    return sorted(decided, key=lambda e: e.id)


def _row(state: SessionState, experiment: ExperimentState) -> str:
    """One experiment as a line of JSON, its texts cut short."""
    shown = entry(state, experiment)
    runtime = None if shown.runtime_s is None else round(shown.runtime_s, 1)
    verdict = shown.status.value + (f":{shown.reason}" if shown.reason else "")
    value = {
        "id": shown.id,
        "branch": shown.branch,
        "hypothesis": one_line(shown.hypothesis, HYPOTHESIS_CHARS),
        "metric": shown.finite_metric,
        "runtime_s": runtime,
        "verdict": verdict,
        "notes": one_line(shown.notes, NOTES_CHARS),
    }
    return json.dumps(value, ensure_ascii=False)


def _last(found: Found, decided: list[ExperimentState]) -> Last | None:
    """The one that was decided last."""
    if not decided:
        return None
    last = max(decided, key=lambda e: e.decision_seq or 0)
    assert last.decision is not None  # decided
    reason = f":{last.decision.reason}" if last.decision.reason else ""
    return Last(
        id=last.id,
        verdict=last.decision.verdict.value + reason,
        metric=last.final.metric if last.final else None,
        failed=last.decision.verdict is not Status.KEEP,
        log_tail=_end_of_log(found, last),
    )


def _end_of_log(found: Found, experiment: ExperimentState) -> str:
    if experiment.status not in (Status.CRASH, Status.TIMEOUT):
        return ""
    if experiment.final is not None and experiment.final.log_tail:
        return experiment.final.log_tail
    try:
        return log_tail(found.files, experiment, lines=LOG_LINES).text
    except UsageError:
        return ""  # no log is no reason to have no prompt


def _best_diff(found: Found, state: SessionState) -> str:
    if state.incumbent in (None, 1):
        return ""
    return diff(found.files, state, state.experiments[state.incumbent], whole=True)
