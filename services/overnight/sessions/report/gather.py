"""A session's report, from its files: the ledger once, and the trees of baseline and best."""

from __future__ import annotations

from overnight.contracts.errors import SnapshotError, UsageError
from overnight.ledger.fold import SessionState
from overnight.sessions.locate import Found, read_state
from overnight.sessions.report.constants import compared, constants
from overnight.sessions.report.entries import Facts, facts
from overnight.sessions.report.research import Research, research
from overnight.snapshots.store import SnapshotStore


def gather(found: Found) -> tuple[Facts, SessionState]:
    """What the ledger says. Raises UsageError when the session was never opened."""
    state = read_state(found.files)
    told = facts(state, found.tag)
    if told is None:
        raise UsageError(
            f"session {found.tag} has not begun, so there is nothing to report: `overnight run`"
        )
    return told, state


def summarise(found: Found, told: Facts, state: SessionState) -> Research:
    """The research summary, with the configuration that stands in the code."""
    store, trees = SnapshotStore(found.files.root), []
    for number in (told.best_id, 1):
        experiment = state.experiments.get(number) if number is not None else None
        commit = experiment.proposed.commit if experiment is not None else None
        if commit is None:
            return research(told)
        try:
            trees.append(store.read_files(commit, told.config.editable_files))
        except (SnapshotError, UsageError):
            return research(told)  # the ledger says the rest; `verify` and `run` see to the trees
    return research(told, compared(constants(trees[0]), constants(trees[1])))
