"""The next experiment: the proposer is asked for an idea, which becomes a tree or a rejection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from overnight.contracts import rows
from overnight.contracts.errors import EditRejectedError, ProposerError, UsageError
from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import Proposer
from overnight.contracts.status import Role
from overnight.faultpoints import Step, reach
from overnight.ledger.fold import SessionState
from overnight.orchestrator.codesize import code_lines
from overnight.orchestrator.history import history
from overnight.orchestrator.ports import TreePort

log = structlog.get_logger()


@dataclass(frozen=True)
class Proposing:
    """Builds `proposed` bodies. What it writes is derived from the fold, so it may be redone."""

    trees: TreePort
    proposer: Proposer
    program: str | None = None  #: program.md as the session began with it

    def baseline(self, state: SessionState, opening: rows.SessionOpened) -> rows.Proposed:
        """Experiment 1: the tree as the session found it."""
        return rows.Proposed(
            id=1,
            role=Role.BASELINE,
            parent=None,
            commit=opening.base_commit,
            tree_digest=opening.base_digest,
            branch=self.trees.branch_for(1, "baseline"),
            hypothesis="baseline",
            proposer="orchestrator",
            seen_seq=state.seq,
            code_lines=self._code_lines(opening.base_commit, {}),
        )

    def idea(self, state: SessionState, experiment_id: int) -> rows.Proposed | None:
        """The proposer's next idea; None when it has nothing left."""
        incumbent = state.experiments[state.incumbent or 1].proposed
        assert incumbent.commit is not None  # an incumbent ran
        files = self.trees.files_of(incumbent.commit)
        try:
            proposal = self.proposer.propose(history(state, files, self.program))
        except ProposerError as error:
            log.info("proposer_exhausted", reason=str(error))
            return None
        return self.candidate(state, experiment_id, proposal)

    def candidate(
        self, state: SessionState, experiment_id: int, proposal: Proposal
    ) -> rows.Proposed:
        """*proposal* as a tree that is stored and pinned, or as a rejection."""
        parent = state.experiments[proposal.parent].proposed
        assert parent.commit is not None  # proposers build on what ran
        common: dict[str, Any] = {
            "id": experiment_id,
            "role": Role.CANDIDATE,
            "parent": proposal.parent,
            "branch": self.trees.branch_for(experiment_id, proposal.hypothesis),
            "hypothesis": proposal.hypothesis,
            "analysis": proposal.analysis,
            "proposer": proposal.proposer,
            "seen_seq": state.seq,
            "details": proposal.details,
        }
        try:
            tree = self.trees.write(experiment_id, parent.commit, proposal, _tried(state))
            reach(Step.ORCHESTRATOR_TREE)
        except EditRejectedError as error:
            refused = {"commit": None, "tree_digest": None, "rejection": error.reason}
            detail = {"rejection_detail": error.detail[:2000]}
            return rows.Proposed.model_validate({**common, **refused, **detail})
        written = {
            "commit": tree.commit,
            "tree_digest": tree.digest,
            "lines_added": tree.lines_added,
            "lines_removed": tree.lines_removed,
            "places": tree.places,
            "code_lines": self._code_lines(parent.commit, proposal.changes),
        }
        return rows.Proposed.model_validate({**common, **written})

    def _code_lines(self, commit: str, changes: Mapping[str, str]) -> int | None:
        """Size of the editable files of a tree with *changes*; None: one is no text."""
        try:
            return code_lines({**self.trees.files_of(commit), **changes})
        except UsageError:
            return None


def _tried(state: SessionState) -> dict[str, int]:
    """Tree digest -> the first experiment that had it."""
    tried: dict[str, int] = {}
    for experiment in state.experiments.values():
        if experiment.proposed.tree_digest is not None:
            tried.setdefault(experiment.proposed.tree_digest, experiment.id)
    return tried
