"""The dead letter: what was given up, parked or refused, and what a person does about it.

Three kinds: an experiment whose attempts are used up (in the ledger), a job that no runner can read
(in Redis, so only while a stack runs), a result that the recorder refused (a file of its runner).
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overnight.contracts.errors import InfrastructureError, UsageError, WireError
from overnight.contracts.rows import Control
from overnight.contracts.status import ControlAction
from overnight.ledger.files import WHY
from overnight.ledger.fold import ExperimentState
from overnight.orchestrator.planning import last_fault
from overnight.sessions.locate import Found, read_state
from overnight.sessions.stack import Stack, in_reach, read_stack, require_stack, tell

if TYPE_CHECKING:
    from overnight.jobqueue.deadjobs import DeadJob, DeadJobs

EXPERIMENT, JOB, RESULT = "experiment", "job", "result"
WHY_BYTES = 4096
_JOB_REF = re.compile(r"job-[0-9a-f]{8}")
_RESULT_NAME = re.compile(r"result_([1-9][0-9]{0,7})_([1-9][0-9]{0,3})_")


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One of them. Texts are not safe to show."""

    ref: str  #: what requeue and drop take
    kind: str
    experiment: int | None
    attempt: int | None  #: the last one
    why: str
    since: str  #: UTC label; empty: unknown

    def as_json(self) -> dict[str, Any]:
        """A row of `deadletter list --json`."""
        return asdict(self)


def letters(found: Found) -> list[Letter]:
    """All of a session. Parked jobs only while a stack runs for it.

    Raises:
        LedgerError: the ledger can't be read.
        InfrastructureError: the stack's Redis did not answer.
    """
    experiments = read_state(found.files).experiments.values()
    listed = [_experiment(e) for e in experiments if e.in_dead_letter]
    stack = read_stack(found.files)
    if stack is not None and in_reach(stack):
        listed += [_job(entry) for entry in _jobs(found, stack).all()]
    return listed + [_result(path) for path in found.files.refused_results()]


def requeue(found: Found, ref: str, why: str = "") -> Letter:
    """Have it tried anew. Returns what it was.

    Raises:
        UsageError: there is no such letter, or it can't be tried anew; says what to do.
        InfrastructureError: no stack runs, or it did not answer.
    """
    if _is_number(ref):
        return _on_experiment(found, ref, ControlAction.REQUEUE, why)
    path = _result_file(found, ref)
    if path is not None:
        raise UsageError(
            f"{ref} was refused for good: look at {path}, then: overnight deadletter drop {ref}"
        )
    jobs = _jobs_for(found, ref)
    entry = _entry(jobs, ref)
    try:
        job = entry.job()
    except WireError as error:
        raise UsageError(f"{ref} can't be read, as before: {error}") from error
    experiment = read_state(found.files).experiments.get(job.id)
    fence = experiment.open_attempt if experiment is not None else None
    if job.sid != found.sid or fence is None or fence.issued.attempt != job.attempt:
        raise UsageError(
            f"attempt {job.attempt} of experiment {job.id} is over, nobody waits for it: "
            f"overnight deadletter drop {ref}"
        )
    try:
        jobs.push(entry, job)
    except WireError as error:
        raise UsageError(f"{ref} can't be queued: {error}") from error
    return _job(entry)


def drop(found: Found, ref: str, why: str = "") -> Letter:
    """Take it out of the dead letter. A refused result moves to quarantine/. Returns what it was.

    Raises:
        UsageError: there is no such letter.
        InfrastructureError: no stack runs (a result needs none), it did not answer, or the disk
            refused.
    """
    if _is_number(ref):
        return _on_experiment(found, ref, ControlAction.DROP, why)
    path = _result_file(found, ref)
    if path is not None:
        letter = _result(path)
        _quarantine(found, path)
        return letter
    jobs = _jobs_for(found, ref)
    entry = _entry(jobs, ref)
    jobs.drop(entry)
    return _job(entry)


# -- experiments --------------------------------------------------------------------------------


def _experiment(experiment: ExperimentState) -> Letter:
    return Letter(
        ref=str(experiment.id),
        kind=EXPERIMENT,
        experiment=experiment.id,
        attempt=len(experiment.attempts) - 1,  # the last one only says that it is given up
        why=last_fault(experiment),
        since=experiment.given_up_ts,
    )


def _on_experiment(found: Found, ref: str, action: ControlAction, why: str) -> Letter:
    experiment = read_state(found.files).experiments.get(int(ref))
    if experiment is None or not experiment.in_dead_letter:
        raise _unknown(f"experiment {ref}")
    letter = _experiment(experiment)
    stack = require_stack(found.files)
    tell(
        stack.redis_url,
        found.sid,
        f"control:{action.value}:{experiment.id}:{experiment.final_seq}",
        Control(action=action, by="cli", why=why[:500], id=experiment.id),
        stop=lambda: read_stack(found.files) is None,
    )
    return letter


def _is_number(ref: str) -> bool:
    return ref.isascii() and ref.isdigit() and len(ref) <= 8


def _unknown(ref: str) -> UsageError:
    return UsageError(f"{ref} is not in the dead letter: see `overnight deadletter list`")


# -- jobs ---------------------------------------------------------------------------------------


def _jobs(found: Found, stack: Stack) -> DeadJobs:
    # Here and not at the top: without a stack nobody needs Redis.
    from overnight.jobqueue.connection import connect
    from overnight.jobqueue.deadjobs import DeadJobs

    return DeadJobs(connect(stack.redis_url), found.sid)


def _jobs_for(found: Found, ref: str) -> DeadJobs:
    """No stack is asked for what can't be a job's name."""
    if not _JOB_REF.fullmatch(ref):
        raise _unknown(repr(ref[:40]))
    return _jobs(found, require_stack(found.files))


def _entry(jobs: DeadJobs, ref: str) -> DeadJob:
    for entry in jobs.all():
        if entry.ref == ref:
            return entry
    raise _unknown(ref[:40])


def _job(entry: DeadJob) -> Letter:
    attempt = entry.attempt
    return Letter(
        ref=entry.ref,
        kind=JOB,
        experiment=attempt.id if attempt else None,
        attempt=attempt.attempt if attempt else None,
        why=entry.parked.reason,
        since=entry.parked.at,
    )


# -- results ------------------------------------------------------------------------------------


def _result(path: Path) -> Letter:
    named = _RESULT_NAME.match(path.name)
    return Letter(
        ref=_result_ref(path),
        kind=RESULT,
        experiment=int(named[1]) if named else None,
        attempt=int(named[2]) if named else None,
        why=_reason(path),
        since=_changed(path),
    )


def _result_ref(path: Path) -> str:
    named = "/".join(path.parts[-4:])  # below the session's folder, which may be moved
    return f"result-{hashlib.sha256(named.encode(errors='replace')).hexdigest()[:8]}"


def _result_file(found: Found, ref: str) -> Path | None:
    return next((p for p in found.files.refused_results() if _result_ref(p) == ref), None)


def _reason(path: Path) -> str:
    try:
        with path.with_suffix(WHY).open("rb") as file:
            return file.read(WHY_BYTES).decode(errors="replace").strip()
    except OSError:
        return f"see {path}"


def _changed(path: Path) -> str:
    try:
        changed = datetime.fromtimestamp(int(path.lstat().st_mtime), UTC)
        return changed.isoformat().replace("+00:00", "Z")
    except (OSError, OverflowError, ValueError):
        return ""


def _quarantine(found: Found, path: Path) -> None:
    slot = path.parts[-4]
    folder, number = found.files.quarantine, 1
    while os.path.lexists(aside := folder / f"refused-{slot}-{path.stem}-{number}.json"):
        number += 1
    try:
        folder.mkdir(exist_ok=True)
        os.replace(path, aside)
        if path.with_suffix(WHY).exists():
            os.replace(path.with_suffix(WHY), aside.with_suffix(WHY))
    except OSError as error:
        raise InfrastructureError(f"{path}: {error.strerror}") from error
