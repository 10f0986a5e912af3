"""A session written row by row, decided as it goes."""

from __future__ import annotations

from typing import Any

from overnight.contracts import wire
from overnight.contracts.experiment import Decision
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import AttemptIssued, Control, Proposed
from overnight.contracts.status import RowKind
from overnight.ledger.fold import SessionState
from overnight.orchestrator.policy import decide
from overnight.sessions.verify import _Replay
from tests.unit.ledger.history_of import opening, result
from tests.unit.orchestrator.world import MemoryWriter


class Story:
    """Writes rows by hand and decides as it goes."""

    def __init__(self, *, policy_version: int | None = None, **config: Any) -> None:
        self.writer = MemoryWriter([])
        opened = opening(**config)
        whole = wire.dump(wire.build(LoopConfig, opened.config))
        opened = opened.model_copy(update={"config": whole})
        if policy_version is not None:
            opened = opened.model_copy(update={"policy_version": policy_version})
        self.writer.append(RowKind.SESSION_OPENED, "open:1", opened)

    @property
    def state(self) -> SessionState:
        return self.writer.state

    def experiment(self, *, digest: str | None = None, **fields: Any) -> Decision:
        """Propose the next, end it with *fields*, decide it."""
        number = self.state.next_id
        plain = {
            "id": number,
            "role": "baseline" if number == 1 else "candidate",
            "parent": None if number == 1 else self.state.incumbent,
            "commit": f"{number:040x}",
            "tree_digest": digest or f"{number:064x}",
            "branch": f"iter{number}",
            "hypothesis": "h",
            "proposer": "test",
            "seen_seq": 0,
        }
        plain.update({k: fields.pop(k) for k in list(fields) if k in Proposed.model_fields})
        if "rejection" in plain:
            plain["commit"] = plain["tree_digest"] = None
        self.writer.append(RowKind.PROPOSED, f"proposed:{number}", wire.build(Proposed, plain))
        if "rejection" not in plain:
            issued = AttemptIssued(id=number, attempt=1, wall_seconds=1.0)
            self.writer.append(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1", issued)
            ended = result(number, **fields)
            self.writer.append(RowKind.RESULT, f"result:{number}:1:r0", ended)
        return self.decide(number)

    def decide(self, number: int) -> Decision:
        """Once more, or for the first time."""
        decision = decide(self.state, number)
        assert isinstance(decision, Decision)
        times = self.state.experiments[number].decisions + 1
        self.writer.append(RowKind.DECISION, f"decision:{number}:{times}", decision)
        return decision

    def wish(self, action: str, by: str = "cli") -> None:
        """A control row."""
        control = wire.build(Control, {"action": action, "by": by})
        self.writer.append(RowKind.CONTROL, f"control:{action}:{self.state.seq}", control)

    def verified(self) -> None:
        """Every row as `verify` sees it. AssertionError: one is not allowed or not derived."""
        replay = _Replay()
        assert [replay.problem_with(row) for row in self.writer.disk if row] == [
            None for _ in self.writer.disk
        ]
