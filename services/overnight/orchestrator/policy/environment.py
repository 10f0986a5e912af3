"""Is it the ideas, or does nothing run any more? Candidates that crash alike, and the incumbent
run again to tell. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from overnight.contracts.status import Role, Status
from overnight.ledger.fold import ExperimentState, SessionState

IN_A_ROW = 3  #: ideas that crash alike before the incumbent is run again
FIRST_VERSION = 2  #: of the policy that knows of it
CHECKS, SIGNATURE = "checks", "signature"  #: in the details of the re-run


@dataclass(frozen=True)
class Suspicion:
    """The newest ideas all crashed alike."""

    ids: tuple[int, ...]  #: in order of their decisions
    signature: str


def suspicion(state: SessionState) -> Suspicion | None:
    """Set when the incumbent should be run again. A re-run that was decided ends the row, so that
    it takes as many crashes again for the next one; so does a resume.

    The tries to mend one idea count as one.
    """
    if not _judges(state):
        return None
    ids: list[int] = []
    ideas: set[int] = set()
    signature: str | None = None
    for experiment in state.decided_since_resume():
        if experiment.status in (Status.REJECTED, Status.INFRA):
            if experiment.proposed.role is Role.REPLICATE:
                break
            continue
        found = experiment.final.signature if experiment.final else None
        if experiment.status is not Status.CRASH or found is None:
            break
        if signature not in (None, found) or not _is_idea(experiment):
            break
        signature = found
        ids.append(experiment.id)
        ideas.add(idea_of(state, experiment))
    if signature is None or len(ideas) < IN_A_ROW:
        return None
    return Suspicion(tuple(reversed(ids)), signature)


def idea_of(state: SessionState, experiment: ExperimentState) -> int:
    """The first of those that were to mend one another."""
    while experiment.proposed.repairs is not None:
        experiment = state.experiments[experiment.proposed.repairs]
    return experiment.id


def checking(state: SessionState) -> bool:
    """Is the incumbent being run again?"""
    return any(
        state.experiments[i].proposed.role is Role.REPLICATE
        for i in (*state.running, *state.undecided)
    )


def broken(state: SessionState) -> ExperimentState | None:
    """The re-run that failed, as long as nobody went on after it."""
    found = next((state.experiments[i] for i in reversed(state.replicates)), None)
    if found is None or not failed(found) or found.decision is None:
        return None
    return None if _next_resume(state, found.final_seq or 0) is not None else found


def failed(re_run: ExperimentState) -> bool:
    """Did the incumbent not run again? What our own fault ended says nothing."""
    final = re_run.final
    return final is not None and final.status in (Status.CRASH, Status.TIMEOUT)


def blamed(state: SessionState, experiment: ExperimentState) -> bool:
    """Was it the environment, not the idea, that this crash came from?"""
    if experiment.proposed.role is Role.REPLICATE:
        return failed(experiment)
    final, ended = experiment.final, experiment.final_seq
    if final is None or ended is None or final.status is not Status.CRASH:
        return False
    for number in reversed(state.replicates):
        re_run = state.experiments[number]
        ids, signature = checked(re_run)
        if not ids or not failed(re_run) or final.signature != signature:
            continue
        first = state.experiments[ids[0]].final_seq
        resumed = _next_resume(state, re_run.final_seq or 0)
        if first is not None and first <= ended and (resumed is None or ended < resumed):
            return True
    return False


def overturned(state: SessionState) -> ExperimentState | None:
    """One whose crash still stands, though the environment is to blame for it."""
    re_run = next((state.experiments[i] for i in reversed(state.replicates)), None)
    if re_run is None or not failed(re_run) or not _judges(state):
        return None
    ids, _ = checked(re_run)
    for number in range(min(ids, default=re_run.id), re_run.id):
        experiment = state.experiments[number]
        if experiment.status is Status.CRASH and blamed(state, experiment):
            return experiment
    return None


def checked(re_run: ExperimentState) -> tuple[tuple[int, ...], str | None]:
    """Whose crashes a re-run is to explain, and how they ended."""
    ids, signature = (re_run.proposed.details.get(key) for key in (CHECKS, SIGNATURE))
    if not isinstance(ids, list) or not isinstance(signature, str):
        return (), None
    return tuple(i for i in ids if isinstance(i, int) and 0 < i < re_run.id), signature


def _judges(state: SessionState) -> bool:
    """Version 1 of the policy takes no crash back."""
    return state.opened is not None and state.opened.policy_version >= FIRST_VERSION


def _is_idea(experiment: ExperimentState) -> bool:
    return experiment.proposed.role in (Role.CANDIDATE, Role.RECOMBINATION)


def _next_resume(state: SessionState, seq: int) -> int | None:
    """The first resume after row *seq*."""
    at = bisect_right(state.resumes, seq)
    return state.resumes[at] if at < len(state.resumes) else None
