"""What may be said to an idea that waits for a person, in every state, once and in time."""

from __future__ import annotations

from typing import Any

import pytest

from overnight.contracts import wire
from overnight.contracts.rows import AttemptIssued, Control, LedgerMessage, Proposed, SessionClosed
from overnight.contracts.status import RowKind
from overnight.ledger.admission import Admit, Duplicate, Refuse, Verdict, admit
from overnight.ledger.approvals import awaiting
from overnight.ledger.fold import RunState, SessionState
from tests.unit.ledger.history_of import opening, result
from tests.unit.orchestrator.world import MemoryWriter

ASKS = {"approval": "hypothesis"}
IN = {
    RunState.RUNNING: None,
    RunState.PAUSED: "pause",
    RunState.DRAINING: "drain",
    RunState.STOPPING: "stop",
    RunState.CLOSED: "closed",
}


class Ledger:
    """A session with its baseline, written by the real rules."""

    def __init__(self, **policy: Any) -> None:
        self.writer = MemoryWriter([])
        self.send(RowKind.SESSION_OPENED, "open:1", wire.dump(opening(policy=policy)), epoch=1)
        self.propose()
        self.issue(1)
        self.send(RowKind.RESULT, "result:1:1:r0", wire.dump(result(1)))
        self.writer.append(RowKind.DECISION, "decision:1:1", _kept(self.state))

    @property
    def state(self) -> SessionState:
        return self.writer.state

    def say(self, key: str, body: dict[str, Any], epoch: int | None = None) -> Verdict:
        """What becomes of a control message; it is written when it may be."""
        return self.send(RowKind.CONTROL, key, {"by": "cli", **body}, epoch)

    def answer(self, action: str, number: int = 2, **fields: Any) -> Verdict:
        return self.say(f"control:{action}:{number}", {"action": action, "id": number, **fields})

    def send(
        self, kind: RowKind, key: str, body: dict[str, Any], epoch: int | None = None
    ) -> Verdict:
        verdict = admit(self.state, LedgerMessage(key=key, kind=kind, body=body, epoch=epoch))
        if isinstance(verdict, Admit):
            self.writer.append(verdict.kind, key, verdict.body)
        return verdict

    def propose(self) -> int:
        number = self.state.next_id
        plain = {
            "id": number,
            "role": "baseline" if number == 1 else "candidate",
            "parent": None if number == 1 else 1,
            "commit": f"{number:040x}",
            "tree_digest": f"{number:064x}",
            "branch": f"iter{number}",
            "hypothesis": "h",
            "proposer": "test",
            "seen_seq": 0,
        }
        body = wire.dump(wire.build(Proposed, plain))
        assert isinstance(self.send(RowKind.PROPOSED, f"proposed:{number}", body, 1), Admit)
        return number

    def issue(self, number: int) -> Verdict:
        body = wire.dump(AttemptIssued(id=number, attempt=1, wall_seconds=1.0))
        return self.send(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1", body, 1)

    def go_to(self, state: RunState) -> None:
        how = IN[state]
        if how == "closed":
            closed = SessionClosed(outcome="done")
            self.writer.append(RowKind.SESSION_CLOSED, "close:1:1", closed)
        elif how is not None:
            control = wire.build(Control, {"action": how, "by": "cli"})
            self.writer.append(RowKind.CONTROL, "control:1", control)
        assert self.state.run_state is state


def _kept(state: SessionState) -> Any:
    from overnight.orchestrator.policy import decide

    return decide(state, 1)


def refused(verdict: Verdict) -> str:
    assert isinstance(verdict, Refuse)
    return verdict.reason


@pytest.mark.parametrize("action", ["approve", "reject"])
@pytest.mark.parametrize("state", IN)
def test_an_idea_that_waits_is_answered_in_any_state_of_the_session(
    state: RunState, action: str
) -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    ledger.go_to(state)

    assert isinstance(ledger.answer(action), Admit)
    assert ledger.state.run_state is state
    assert awaiting(ledger.state) == []


def test_no_attempt_is_issued_before_the_approval() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()

    assert refused(ledger.issue(2)) == "experiment 2 waits for approval"
    ledger.answer("approve")
    assert isinstance(ledger.issue(2), Admit)


def test_the_baseline_needs_no_approval() -> None:
    ledger = Ledger(**ASKS)

    assert ledger.state.incumbent == 1
    assert refused(ledger.answer("approve", 1)) == "experiment 1 has ended already"


def test_twice_is_once() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    first = ledger.answer("approve")
    assert isinstance(first, Admit)

    assert ledger.answer("approve", why="sure") == Duplicate(ledger.state.seq)


@pytest.mark.parametrize(
    ("said", "then", "why"),
    [
        ("approve", "reject", "experiment 2 was approved already by row 7"),
        ("reject", "approve", "experiment 2 was rejected already by row 7"),
    ],
)
def test_the_second_mind_comes_too_late(said: str, then: str, why: str) -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    ledger.answer(said)

    assert refused(ledger.answer(then)) == why


def test_what_the_clock_answered_is_told_as_such() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    ledger.answer("reject", by="orchestrator")

    assert refused(ledger.answer("approve")) == (
        "experiment 2 was rejected already by row 7, since nobody answered in time"
    )


def test_what_waits_for_nobody_is_not_answered() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    ledger.answer("approve")
    ledger.issue(2)
    free = Ledger()
    free.propose()

    assert refused(ledger.answer("reject", 7)) == "there is no experiment 7"
    assert refused(free.answer("approve")) == "experiment 2 needs no approval"
    free.issue(2)
    assert refused(free.answer("reject")) == "experiment 2 runs already: it was let through before"


def test_an_answer_names_its_experiment_in_the_key_and_the_body() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    body = {"action": "approve", "id": 2}

    assert "key of approve" in refused(ledger.say("control:approve:3", body))
    assert "names an experiment" in refused(ledger.say("control:approve:2", {"action": "approve"}))
    for action in ("pause", "steer"):
        assert "only they" in refused(
            ledger.say("control:x", {"action": action, "id": 2, "why": "w"})
        )


def test_a_rejected_idea_ends_without_an_attempt_and_counts_for_nothing() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    assert ledger.state.candidates == 1
    ledger.answer("reject", why="tried it last year")

    experiment = ledger.state.experiments[2]
    assert (experiment.rejection, experiment.end_seq) == ("by_person", 7)
    assert ledger.state.undecided == [2]
    assert ledger.state.running == set()
    assert (ledger.state.candidates, ledger.state.rejected_in_a_row) == (0, 0)


def test_only_what_nobody_answered_counts_as_unanswered() -> None:
    ledger = Ledger(**ASKS)
    counted = []
    for by in ("orchestrator", "orchestrator", "cli", "orchestrator"):
        number = ledger.propose()
        ledger.answer("reject", number, by=by)
        counted.append(ledger.state.unanswered_in_a_row)

    assert counted == [1, 2, 0, 1]


def test_the_bindings_of_now_say_whether_an_idea_waits() -> None:
    """A session may be resumed with approval, or without; what ran once was let through."""
    ledger = Ledger(**ASKS)
    ledger.propose()
    for epoch, policy in ((2, {}), (3, ASKS)):
        body = wire.dump(opening(epoch, policy=policy))
        ledger.send(RowKind.SESSION_OPENED, f"open:{epoch}", body, epoch)
        assert [e.id for e in awaiting(ledger.state)] == ([2] if policy else [])


@pytest.mark.parametrize("state", IN)
def test_advice_is_taken_while_something_may_still_be_proposed(state: RunState) -> None:
    ledger = Ledger()
    ledger.go_to(state)
    verdict = ledger.say("control:a", {"action": "steer", "why": "smaller\nbatches"})

    assert ledger.state.run_state is state
    if state in (RunState.STOPPING, RunState.CLOSED):
        assert refused(verdict) == f"can't steer: the session is {state.value}"
        assert ledger.state.steering == []
    else:
        assert isinstance(verdict, Admit)
        (advice,) = ledger.state.steering
        assert (advice.seq, advice.by, advice.text) == (ledger.state.seq, "cli", "smaller\nbatches")


def test_empty_advice_is_refused() -> None:
    assert "empty" in refused(Ledger().say("control:a", {"action": "steer", "why": " \n"}))


def test_a_replaced_orchestrator_answers_nothing() -> None:
    ledger = Ledger(**ASKS)
    ledger.propose()
    ledger.send(RowKind.SESSION_OPENED, "open:2", wire.dump(opening(2, policy=ASKS)), 2)
    body = {"action": "reject", "id": 2, "by": "orchestrator"}

    assert "not the newest" in refused(ledger.say("control:reject:2", body, epoch=1))
    assert isinstance(ledger.say("control:reject:2", body, epoch=2), Admit)


@pytest.mark.parametrize(
    "changed",
    [
        {"policy": {"limits": {"experiments": 9, "hours": 1.0, "gpu_hours": 1.0, "usd": 1.0}}},
        {"policy": {"limits": {"per_experiment": {"gpu_hours": 1.0}}}},
        {"policy": {"autonomy": "ask", "ask_after_degradations": 5, "prefetch": 0}},
        {"policy": {"approval": "hypothesis", "approve_timeout": 9.0, "approve_then": "run"}},
        {"proposer": {"name": "random", "options": {}}},
        {"pools": {"default": {"runners": 7, "usd_per_hour": 2.0}}},
    ],
)
def test_a_resumed_session_may_have_other_handles(changed: dict[str, Any]) -> None:
    ledger = Ledger()
    body = wire.dump(opening(2, **changed))

    assert isinstance(ledger.send(RowKind.SESSION_OPENED, "open:2", body, 2), Admit)


@pytest.mark.parametrize(
    "research", [{"question": "another one"}, {"starting_hypothesis": "another one"}]
)
def test_nobody_changes_the_question_of_a_session(research: dict[str, Any]) -> None:
    ledger = Ledger()
    body = wire.dump(opening(2, research=research))

    assert refused(ledger.send(RowKind.SESSION_OPENED, "open:2", body, 2)) == (
        "research may not change within a session: open another tag"
    )


def test_nobody_changes_what_a_session_began_with() -> None:
    ledger = Ledger()
    body = {**wire.dump(opening(2)), "program_digest": "a" * 64}

    assert refused(ledger.send(RowKind.SESSION_OPENED, "open:2", body, 2)) == (
        "program_digest may not change within a session: open another tag"
    )
