"""The protocol's state machine once more, with people who approve, reject and advise, twice, late
and too late, while everything else goes wrong."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from overnight.contracts.status import RowKind
from overnight.ledger.approvals import awaiting
from tests.unit.orchestrator.test_protocol_machine import Protocol
from tests.unit.orchestrator.world import World

ASKS = {"approval": "hypothesis", "approve_timeout": 30.0, "approve_then": "run"}


class ProtocolWithPeople(Protocol):
    """Nobody has to answer: after half a minute an idea runs."""

    def new_world(self, **asked: int) -> World:
        return World(policy=ASKS, **asked)

    @rule(at=st.integers(0, 2), action=st.sampled_from(["approve", "reject"]))
    def somebody_answers(self, at: int, action: str) -> None:
        """Twice, as somebody does who gets no answer."""
        waiting = [experiment.id for experiment in awaiting(self.world.writer.state)]
        for _ in range(2 if waiting else 0):
            self.world.wish(action, waiting[at % len(waiting)])

    @rule(number=st.integers(1, 8), action=st.sampled_from(["approve", "reject"]))
    def somebody_answers_what_nobody_asked(self, number: int, action: str) -> None:
        self.world.wish(action, number)

    @rule()
    def somebody_advises(self) -> None:
        self.world.wish("steer", why="smaller steps")

    def check_the_end(self) -> None:
        super().check_the_end()
        state = self.world.writer.state
        answered: Counter[int] = Counter()
        ran = {row.body["id"] for row in self.world.disk if row.kind is RowKind.ATTEMPT_ISSUED}
        for row in self.world.disk:
            if row.kind is RowKind.CONTROL and row.body["action"] in ("approve", "reject"):
                answered[row.body["id"]] += 1
                approved = row.body["action"] == "approve"
                assert (row.body["id"] in ran) is approved, row.body
        ideas = {e.id for e in state.experiments.values() if e.proposed.role == "candidate"}
        assert answered == Counter(dict.fromkeys(ideas, 1)), "each idea is answered once"


ProtocolWithPeople.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestProtocolWithPeople = ProtocolWithPeople.TestCase
del Protocol  # or its own test would be collected here, too
