"""The same message two or three times is the same row: whatever comes in between, in any order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.contracts import wire
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import Ack, LedgerMessage, Row
from overnight.contracts.status import RowKind
from overnight.ledger.fold import RunState, SessionState
from overnight.orchestrator.policy import decide
from overnight.recorder.service import Recorder
from overnight.sessions.verify import _Replay
from tests.unit.ledger.history_of import opening, result
from tests.unit.orchestrator.world import MemoryWriter

ENDINGS = ("scored", "crash", "infra", "cancelled", "gave_up")
CONTROLS = ("pause", "resume", "drain", "stop")


def _message(kind: str, key: str, body: Any, epoch: int | None = None) -> LedgerMessage:
    plain = wire.dump(body) if isinstance(body, wire.Wire) else body
    return LedgerMessage(key=key, kind=RowKind(kind), body=plain, epoch=epoch)


def _possible(state: SessionState, dice: int) -> Iterator[LedgerMessage]:
    """What any sender might send now for the first time, right or not."""
    epoch = state.epoch
    yield _message("session_opened", f"open:{epoch + 1}", opening(epoch + 1), epoch + 1)
    if state.opened is None:
        return
    yield _message("control", f"control:{dice}", {"action": CONTROLS[dice % 4], "by": "cli"})
    body = {
        "id": state.next_id, "role": "candidate" if state.experiments else "baseline",
        "parent": state.incumbent if state.experiments else None, "commit": "c" * 40,
        "tree_digest": f"{state.next_id:064x}", "branch": "b", "hypothesis": "h",
        "proposer": "p", "seen_seq": state.seq,
    }  # fmt: skip
    yield _message("proposed", f"proposed:{state.next_id}", body, epoch)
    for number, experiment in state.experiments.items():
        issued = {"id": number, "attempt": len(experiment.attempts) + 1, "wall_seconds": 9.0}
        yield _message("attempt_issued", f"attempt:{number}:{issued['attempt']}", issued, epoch)
        for attempt in range(1, len(experiment.attempts) + 1):
            sender, ending = f"r{dice % 3}", ENDINGS[dice % len(ENDINGS)]
            fields = {"status": ending, "sender": sender, "metric": 1 / (1 + dice)}
            if ending == "gave_up":
                fields |= {"status": "infra", "reason": "gave_up"}
            body = result(number, attempt, **fields)
            yield _message("result", f"result:{number}:{attempt}:{sender}", body)
        if experiment.ended and state.run_state is not RunState.NEW:
            decision = decide(state, number)
            assert isinstance(decision, Decision)
            key = f"decision:{number}:{experiment.decisions + 1}"
            yield _message("decision", key, decision, epoch - dice % 2)
        for action in ("requeue", "drop"):
            key = f"control:{action}:{number}:{experiment.final_seq}"
            yield _message("control", key, {"action": action, "by": "cli", "id": number})


def _next(state: SessionState, dice: random.Random) -> LedgerMessage:
    """One of them; openings and wishes are rare."""
    possible = list(_possible(state, dice.randrange(10**6)))
    kind = dice.choice(sorted({m.kind.value for m in possible} - {"session_opened"}) or [""])
    if kind == "" or dice.random() < 0.05:
        kind = "session_opened"
    about = [m for m in possible if m.kind == kind]
    if kind == "control" and dice.random() < 0.7:
        about = [m for m in about if m.body["action"] in ("requeue", "resume")] or about
    return dice.choice(about)


@dataclass
class Ledger:
    """A recorder over memory."""

    disk: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = MemoryWriter(self.disk)
        self._recorder = Recorder(self.writer, lambda row: None)  # type: ignore[arg-type]

    def handle(self, message: LedgerMessage) -> Ack:
        """Its ack, after a way over the wire."""
        return self._recorder.handle(wire.decode(LedgerMessage, wire.encode(message)))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(5, 80))
def test_messages_sent_up_to_three_times_give_the_rows_and_acks_of_one_time(
    seed: int, steps: int
) -> None:
    """Some come again at once, some much later, some after the recorder was started again.

    A refusal is an answer to its moment, not to its key: what was refused may be sent anew later.
    Right after the first time it is refused again.
    """
    dice = random.Random(seed)
    once, often = Ledger(), Ledger()
    sent: list[tuple[LedgerMessage, Ack]] = []
    times: Counter[str] = Counter()
    for _ in range(steps):
        if dice.random() < 0.1:
            often = Ledger(often.disk)
        if sent and dice.random() < 0.4:
            message, first = dice.choice(sent)
            if times[message.key] < 3:
                times[message.key] += 1
                assert often.handle(message) == first
            continue
        message = _next(once.writer.state, dice)
        known = message.key in once.writer.state.keys
        first = once.handle(message)
        assert often.handle(message) == first
        if first.refused:
            assert often.handle(message) == first
        elif not known:
            sent.append((message, first))
            times[message.key] = 1

    assert often.disk == once.disk
    assert often.writer.state == once.writer.state
    replay = _Replay()
    assert [replay.problem_with(row) for row in often.disk] == [None] * len(often.disk)
