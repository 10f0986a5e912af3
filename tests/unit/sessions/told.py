"""A session's folder told row by row: a real store and a real ledger, nothing is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.ledger.history_of import SID, opening, result

from overnight.contracts import wire
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import AttemptIssued, Proposed, SessionOpened
from overnight.contracts.status import RowKind
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import Identity, read_identity
from overnight.ledger.writer import LedgerWriter
from overnight.sessions.locate import Found
from overnight.snapshots import branches
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import CandidateEdit, SnapshotStore, Stored
from overnight.snapshots.tree import scan


class Told:
    """Experiment 1 is the repository as it lies when this is made."""

    def __init__(self, repo: Path, *, tag: str = "mar5", root: Path | None = None, sid: str = SID,
                 origin: dict[str, Any] | None = None, **config: Any) -> None:  # fmt: skip
        self.repo, self.tag = repo, tag
        self.root = root or repo / "sandbox"
        self.files = SessionFiles(self.root)
        prepare_root(self.root, repo)
        self.store = SnapshotStore(self.root)
        base, head, branch = self._base(config)
        said = wire.dump(opening(**config)) | {
            "tag": tag, "base_commit": base.commit, "base_digest": base.tree_digest,
            "base_head": head, "branch": branch, "origin": origin,
        }  # fmt: skip
        self.opened = wire.build(SessionOpened, said)
        self.files.identity.write_text(wire.encode(Identity(sid=sid, tag=tag)))
        self._writer = LedgerWriter(self.files, sid)
        self._writer.open()
        self.state = self._writer.state
        self._row(RowKind.SESSION_OPENED, "open:1", self.opened)
        self._experiment(1, None, base.commit, base.tree_digest, "baseline", role="baseline")
        self.end(1, 1.0)

    def _base(self, config: dict[str, Any]) -> tuple[Stored, str | None, str | None]:
        """The tree as it lies, or HEAD's with `branches`; the user's HEAD; the session's branch."""
        if config.get("iter_strategy") == "branches":
            found = branches.require(self.repo)
            base = branches.adopt_head(found, self.store, ["train.py"], None).stored
            return base, base.commit, branches.plan_names(found, self.tag).session
        listing = scan(self.repo, self.root)
        self.store.create()
        return self.store.write_base(listing), listing.head, None

    @classmethod
    def again(cls, repo: Path, *, tag: str = "mar5", root: Path | None = None) -> Told:
        """One that lies there already, e.g. as a copy."""
        told = cls.__new__(cls)
        told.repo, told.tag, told.root = repo, tag, root or repo / "sandbox"
        told.files, told.store = SessionFiles(told.root), SnapshotStore(told.root)
        told._writer = LedgerWriter(told.files, read_identity(told.files).sid)
        told._writer.open()
        told.state = told._writer.state
        return told

    @property
    def found(self) -> Found:
        """As the verbs find it."""
        return Found(self.files, self._writer.sid, self.tag)

    def idea(self, changes: dict[str, str], metric: float | None, *, hypothesis: str = "an idea",
             parent: int | None = None) -> int:  # fmt: skip
        """A candidate on the best one; kept when its metric is lower. None: it crashed."""
        number = self.state.next_id
        parent = parent or self.state.incumbent or 1
        commit = self.state.experiments[parent].proposed.commit
        assert commit is not None
        assert self.state.config is not None
        stored = self.store.write_candidate(
            CandidateEdit(
                id=number,
                parent_commit=commit,
                changes=changes,
                hypothesis=hypothesis,
                editable=self.state.config.editable_files,
            )
        )
        self._experiment(number, parent, stored.commit, stored.tree_digest, hypothesis)
        self.end(number, metric)
        return number

    def end(self, number: int, metric: float | None) -> None:
        """Its one attempt, its result and the verdict."""
        issued = AttemptIssued(id=number, attempt=1, wall_seconds=60.0)
        self._row(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1", issued)
        status = "scored" if metric is not None else "crash"
        self._row(
            RowKind.RESULT, f"result:{number}:1:r0", result(number, metric=metric, status=status)
        )
        before = self.state.incumbent
        best = self.state.metric_of(before)
        kept = metric is not None and (best is None or metric < best)
        verdict = "keep" if kept else "discard" if metric is not None else "crash"
        decision = {
            "id": number, "verdict": verdict, "reason": None, "incumbent_before": before,
            "incumbent_after": number if kept else before, "rests_on": [],
            "basis_seq": self.state.seq,
        }  # fmt: skip
        self._row(RowKind.DECISION, f"decision:{number}:1", wire.build(Decision, decision))

    def close(self) -> None:
        """Let go of the ledger."""
        self._writer.close()

    def _experiment(self, number: int, parent: int | None, commit: str, digest: str,
                    hypothesis: str, role: str = "candidate") -> None:  # fmt: skip
        body = {
            "id": number, "role": role, "parent": parent, "commit": commit, "tree_digest": digest,
            "branch": f"iter{number}", "hypothesis": hypothesis, "proposer": "random",
            "seen_seq": self.state.seq,
        }  # fmt: skip
        self._row(RowKind.PROPOSED, f"proposed:{number}", wire.build(Proposed, body))

    def _row(self, kind: RowKind, key: str, body: wire.Wire) -> None:
        self._writer.append(kind, key, body)
