"""The next experiment: the proposer is asked for an idea, which becomes a tree or a rejection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from overnight.contracts import rows
from overnight.contracts.errors import EditRejectedError, ProposerError, UsageError
from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import Crash, Proposer
from overnight.contracts.status import ENVIRONMENT, Role, Strategy
from overnight.faultpoints import Step, reach
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator import strategy
from overnight.orchestrator.codesize import code_lines
from overnight.orchestrator.history import history
from overnight.orchestrator.policy.environment import CHECKS, SIGNATURE, Suspicion
from overnight.orchestrator.ports import TreePort
from overnight.orchestrator.strategy import Mendable, Plan

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

    def rerun(self, state: SessionState, experiment_id: int, suspicion: Suspicion) -> rows.Proposed:
        """The incumbent again, since ideas crash alike."""
        assert state.incumbent is not None  # ideas were tried
        best = state.experiments[state.incumbent].proposed
        what = f"experiment {best.id} again: {len(suspicion.ids)} ideas in a row crashed alike"
        return rows.Proposed(
            id=experiment_id,
            role=Role.REPLICATE,
            of=best.id,
            parent=best.id,
            commit=best.commit,
            tree_digest=best.tree_digest,
            branch=self.trees.branch_for(experiment_id, what),
            hypothesis=what,
            proposer="orchestrator",
            seen_seq=state.seq,
            code_lines=best.code_lines,
            details={CHECKS: list(suspicion.ids), SIGNATURE: suspicion.signature},
        )

    def idea(self, state: SessionState, experiment_id: int) -> rows.Proposed:
        """The proposer's next idea.

        A proposer with `repairs = True` is shown a crashed idea: it mends it, or goes on to
        another idea, and then the crash stands.

        Raises:
            ProposerError: it has nothing left; says why.
        """
        mends = getattr(self.proposer, "repairs", False) is True
        found = strategy.mendable(state) if mends else None
        fields: dict[str, Any] = {"asked_to_mend": found.crash.id} if found is not None else {}
        usual = Plan(Strategy.NORMAL, state.incumbent or 1)
        ways = [(strategy.plan(state), found)]
        if found is not None or ways[0][0].strategy is Strategy.REWIND:
            ways.append((usual, None))  # nothing left back there, but perhaps here
        nothing = ProposerError("the proposer has nothing left to try")
        for asked, crash in ways:
            try:
                proposal = self._asked(state, asked, crash)
            except ProposerError as error:
                log.info("proposer_exhausted", reason=str(error))
                nothing = error
                continue
            if crash is not None and proposal.repairs == crash.crash.id:
                proposal = self._on_the_crashed(crash.crash, proposal)
                fields["repairs"] = crash.crash.id
            else:
                fields["strategy"] = asked.strategy
                # One that knows of no rewind names the incumbent; a control edits the baseline.
                if asked.parent != state.incumbent == proposal.parent:
                    proposal = proposal.model_copy(update={"parent": asked.parent})
            return self.candidate(state, experiment_id, proposal, fields)
        raise nothing

    def _asked(self, state: SessionState, asked: Plan, found: Mendable | None) -> Proposal:
        files = self.trees.files_of(_commit(state.experiments[asked.parent]))
        repair = None
        if found is not None and found.crash.final is not None:
            repair = Crash(
                id=found.crash.id,
                files=self.trees.files_of(_commit(found.crash)),
                log_tail=found.crash.final.log_tail or found.crash.final.detail,
                tries_left=found.tries_left,
            )
        told = history(state, files, self.program, asked=asked, repair=repair)
        begun = files if asked.parent == 1 else self.trees.files_of(_commit(state.experiments[1]))
        return self.proposer.propose(replace(told, baseline_files=begun))

    def _on_the_crashed(self, crash: ExperimentState, proposal: Proposal) -> Proposal:
        """The whole idea again, mended: on the same parent, so that its diff shows all of it."""
        files = {**self.trees.files_of(_commit(crash)), **proposal.changes}
        return proposal.model_copy(update={"changes": files, "parent": crash.proposed.parent})

    def candidate(
        self,
        state: SessionState,
        experiment_id: int,
        proposal: Proposal,
        fields: Mapping[str, Any],
    ) -> rows.Proposed:
        """*proposal* as a tree that is stored and pinned, or as a rejection.

        fields: what else its row says.
        """
        commit = _commit(state.experiments[proposal.parent])
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
            **fields,
        }
        try:
            tree = self.trees.write(experiment_id, commit, proposal, _tried(state))
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
            "code_lines": self._code_lines(commit, proposal.changes),
        }
        return rows.Proposed.model_validate({**common, **written})

    def _code_lines(self, commit: str, changes: Mapping[str, str]) -> int | None:
        """Size of the editable files of a tree with *changes*; None: one is no text."""
        try:
            return code_lines({**self.trees.files_of(commit), **changes})
        except UsageError:
            return None


def _commit(experiment: ExperimentState) -> str:
    commit = experiment.proposed.commit
    assert commit is not None  # proposers build on what ran
    return commit


def _tried(state: SessionState) -> dict[str, int]:
    """Tree digest -> the first experiment that had it.

    What a broken environment ended may be proposed again: nothing is known of it.
    """
    tried: dict[str, int] = {}
    for experiment in state.experiments.values():
        said = experiment.decision
        if said is not None and said.reason == ENVIRONMENT:
            continue
        if experiment.proposed.tree_digest is not None:
            tried.setdefault(experiment.proposed.tree_digest, experiment.id)
    return tried
