"""Every message that the orchestrator can write can be built, and is what its kind says."""

from __future__ import annotations

import pytest

from overnight.contracts import wire
from overnight.contracts.rows import BODIES, LedgerMessage
from overnight.contracts.status import GAVE_UP, RowKind, Status
from overnight.ledger.fold import SessionState
from overnight.orchestrator import jobs

MESSAGES = [
    (RowKind.CONTROL, jobs.pause_message(SessionState(), "ten in a row " + "x" * 900)),
    (RowKind.SESSION_CLOSED, jobs.close_message(SessionState(), "done", "y" * 9000, 1)),
    (RowKind.RESULT, jobs.own_result(2, 1, Status.INFRA, "lost")),
    (RowKind.RESULT, jobs.own_result(2, 1, Status.INFRA, GAVE_UP)),
    (RowKind.RESULT, jobs.own_result(2, 1, Status.CANCELLED, None)),
]


@pytest.mark.parametrize(("kind", "message"), MESSAGES)
def test_a_message_survives_the_wire(kind: RowKind, message: LedgerMessage) -> None:
    assert message.kind is kind
    assert wire.decode(LedgerMessage, wire.encode(message)) == message
    assert wire.dump(wire.build(BODIES[kind], message.body)) == message.body
