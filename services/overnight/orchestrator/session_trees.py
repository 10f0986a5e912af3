"""The orchestrator's trees over the snapshots room; with `branches`, refs follow the fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from overnight.contracts.errors import SnapshotError
from overnight.contracts.experiment import Proposal
from overnight.contracts.rows import SessionOpened
from overnight.ledger.fold import SessionState
from overnight.orchestrator.ports import Tree
from overnight.snapshots import branches
from overnight.snapshots.store import CandidateEdit, SnapshotStore
from overnight.snapshots.tags import slug
from overnight.snapshots.userrepo import UserRepo

log = structlog.get_logger()


@dataclass
class SessionTrees:
    """One session's trees, as TreePort. *user*: the user's repository with `branches`."""

    store: SnapshotStore
    opened: SessionOpened
    editable: tuple[str, ...]
    user: UserRepo | None
    _synced: dict[str, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    def files_of(self, commit: str) -> dict[str, str]:
        """The editable files' text in that tree."""
        return self.store.read_files(commit, self.editable)

    def write(
        self, experiment_id: int, parent_commit: str, proposal: Proposal, tried: Mapping[str, int]
    ) -> Tree:
        """Write and pin a candidate's tree. Raises EditRejectedError, also for one in *tried*."""
        edit = CandidateEdit(
            id=experiment_id,
            parent_commit=parent_commit,
            changes=proposal.changes,
            editable=self.editable,
            hypothesis=proposal.hypothesis,
            known=tried,
        )
        stored = self.store.write_candidate(edit)
        return Tree(
            stored.commit,
            stored.tree_digest,
            stored.lines_added,
            stored.lines_removed,
            stored.places,
        )

    def branch_for(self, experiment_id: int, hypothesis: str) -> str:
        """exp/<tag>/<id>-<slug>, or iter<id>."""
        if self.opened.branch_prefix is None:
            return f"iter{experiment_id}"
        return f"{self.opened.branch_prefix}{experiment_id}-{slug(hypothesis)}"

    def follow(self, state: SessionState) -> None:
        """Make refs what the fold says; idempotent. Nothing appears before a baseline worked, so
        that a session which never began leaves no branch behind."""
        if self.user is None or self.opened.branch is None or state.incumbent is None:
            return
        expected = {
            e.proposed.branch: e.proposed.commit
            for e in state.experiments.values()
            if e.proposed.commit is not None
        }
        best = state.experiments[state.incumbent].proposed.commit
        expected[self.opened.branch] = best or self.opened.base_commit
        if expected == self._synced:
            return
        try:
            done = branches.sync(self.user, self.store, expected)
        except SnapshotError as error:
            # The ledger is the truth; the user's refs are tried again with the next row.
            log.warning("branches_behind", reason=str(error))
            return
        for left in done.left_alone:
            if left.path not in self._said:
                self._said.add(left.path)
                log.warning("branch_left_alone", branch=left.path, reason=left.why)
        self._synced = expected
