"""One experiment for people and scripts: found by number or as `best`, with its diff and log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.contracts.experiment import STEPS
from overnight.contracts.status import ControlAction
from overnight.contracts.untrusted import strip_terminal
from overnight.ledger.approvals import awaits_approval, refusal
from overnight.ledger.files import GUARD, SCORE, SessionFiles
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.policy import because
from overnight.sessions.view import result_row
from overnight.snapshots.store import SnapshotStore

BEST = "best"
LOG_TAIL_BYTES = 64 * 1024
LOG_TAIL_LINES = 200
PARTS = ("run", SCORE, GUARD)  #: what has a log of its own
SHOWN_LOG_LINES = 40  #: of `show`


def find_experiment(state: SessionState, which: str) -> ExperimentState:
    """The experiment of that number, or the best one.

    Raises:
        UsageError: no such experiment; says which there are.
    """
    if which == BEST:
        if state.incumbent is None:
            raise UsageError(f"there is no best yet: {_why_none(state)}")
        return state.experiments[state.incumbent]
    experiment = state.experiments.get(experiment_id(which))
    if experiment is None:
        last = len(state.experiments)
        there = f"1 to {last}" if last else "none yet"
        raise UsageError(f"no experiment {which} in this session (there are: {there})")
    return experiment


def _why_none(state: SessionState) -> str:
    first = state.baseline
    if first is None or first.final is None:
        return "the baseline has not ended"
    return "the baseline gave no number: `overnight log 1` shows how it ended"


def experiment_id(which: str) -> int:
    """*which* as a number. Raises UsageError."""
    if not (which.isascii() and which.isdigit() and len(which) <= 8):
        raise UsageError(f"{which[:40]!r} is no experiment: give its number, or best")
    return int(which)


def diff(
    files: SessionFiles, state: SessionState, experiment: ExperimentState, *, whole: bool = False
) -> str:
    """What it changed against its parent, or against the baseline (*whole*). Empty: nothing.

    Raises:
        UsageError: it was rejected, so there is no tree.
    """
    after = experiment.proposed.commit
    if after is None:
        raise UsageError(
            f"experiment {experiment.id} has no tree: rejected ({experiment.proposed.rejection})"
        )
    parent = 1 if whole else experiment.proposed.parent
    before = state.experiments[parent].proposed.commit if parent is not None else None
    if before is None or before == after:
        return ""
    return SnapshotStore(files.root).diff(before, after)


@dataclass(frozen=True, kw_only=True)
class LogTail:
    """The end of one attempt's run.log."""

    path: Path
    attempt: int
    size_bytes: int
    text: str
    whole: bool  #: nothing before it was left out


def log_tail(
    files: SessionFiles,
    experiment: ExperimentState,
    *,
    attempt: int | None = None,
    lines: int = LOG_TAIL_LINES,
    raw: bool = False,
    of: str | None = None,
) -> LogTail:
    """Its last lines, without what could drive a terminal (unless *raw*).

    attempt: None: the newest one that has a log; the one by which it was given up never ran.
    of: "run", or one of the commands after it, "score" and "guard"; None: what failed.

    Raises:
        UsageError: that attempt has no log.
    """
    if of is not None and of not in PARTS:
        raise UsageError(f"--of {of}: there are {', '.join(PARTS)}")
    chosen = attempt is not None
    if attempt is None:
        attempt = _newest_logged(files, experiment)
    path = files.run_log(experiment.id, attempt)
    of = of or ("run" if chosen else _failed_part(experiment))
    if of != "run":
        path = files.check_log(experiment.id, of)
        if not path.exists():
            raise UsageError(
                f"experiment {experiment.id} has no {of} log: {path.name} is not there"
            )
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            data = file.read(LOG_TAIL_BYTES)
    except FileNotFoundError as error:
        raise UsageError(_no_log(experiment, attempt)) from error
    except OSError as error:
        raise InfrastructureError(f"{path}: {error.strerror}") from error
    text = data.decode(errors="replace")
    if not raw:
        text = strip_terminal(text)
    kept = text.splitlines(keepends=True)
    tail = kept[-lines:] if lines > 0 else []
    whole = size == len(data) and len(tail) == len(kept)
    return LogTail(path=path, attempt=attempt, size_bytes=size, text="".join(tail), whole=whole)


def _failed_part(experiment: ExperimentState) -> str:
    """What of the experiment has the last words that matter."""
    final = experiment.final
    if final is None:
        return "run"
    if final.guard == "failed":
        return GUARD
    return SCORE if (final.signature or "").startswith(f"{SCORE}:") else "run"


def _newest_logged(files: SessionFiles, experiment: ExperimentState) -> int:
    attempts = [a.issued.attempt for a in reversed(experiment.attempts)] or [1]
    logged = (a for a in attempts if files.run_log(experiment.id, a).exists())
    return next(logged, attempts[0])


def _no_log(experiment: ExperimentState, attempt: int) -> str:
    if experiment.rejection is not None:
        return f"experiment {experiment.id} never ran: rejected ({experiment.rejection})"
    return f"experiment {experiment.id} has no log of attempt {attempt}"


def detail(files: SessionFiles, state: SessionState, experiment: ExperimentState) -> dict[str, Any]:
    """The object of `show --json`."""
    last = experiment.final or next(
        (a.result for a in reversed(experiment.attempts) if a.result is not None), None
    )
    try:
        log: str | None = log_tail(files, experiment, lines=SHOWN_LOG_LINES).text
    except UsageError:
        log = None
    row = result_row(experiment)
    return {
        **row,
        "detail": because(state, experiment) or refusal(experiment),
        "analysis": experiment.proposed.analysis,
        "approval": approval(state, experiment),
        "steering": [a.text for a in state.steering if a.seq <= experiment.proposed.seen_seq],
        "lines_added": experiment.proposed.lines_added,
        "lines_removed": experiment.proposed.lines_removed,
        "places": experiment.proposed.places,
        "code_lines": experiment.proposed.code_lines,
        "diff": diff(files, state, experiment) if experiment.proposed.commit else None,
        "log_tail": log,
        "timings": _in_time(last.timings) if last else {},
        "claims": [wire.dump(claim) for claim in last.claims] if last else [],
        "flags": [*row["flags"], *(last.flags if last else ())],
        "replicates": [e.id for e in state.experiments.values() if e.proposed.of == experiment.id],
        "attempts": len(experiment.attempts),
    }


def approval(state: SessionState, experiment: ExperimentState) -> dict[str, Any] | None:
    """What a person, or the clock, said to the idea; None where nobody is asked."""
    given = experiment.answer
    if given is not None:
        word = "approved" if given.action is ControlAction.APPROVE else "rejected"
        return {"state": word, "by": given.by, "why": given.why}
    if awaits_approval(state, experiment):
        return {"state": "waiting", "by": None, "why": ""}
    return None


def _in_time(timings: Mapping[str, float]) -> dict[str, float]:
    """As the steps followed one another: a row's canonical form has them in order of letters."""
    known = [step for step in STEPS if step in timings]
    return {step: timings[step] for step in (*known, *sorted(timings.keys() - set(known)))}
