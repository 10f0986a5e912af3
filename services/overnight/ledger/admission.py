"""What may be written: a message against the fold. Pure; `verify` uses the same rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from overnight.contracts import rows, wire
from overnight.contracts.errors import WireError
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig, comparable
from overnight.contracts.rows import BODIES, FENCED_BY_EPOCH, LedgerMessage
from overnight.contracts.status import ControlAction, Role, RowKind, Status
from overnight.ledger.approvals import awaits_approval
from overnight.ledger.fold import ANSWERS, OURSELVES, RunState, SessionState


@dataclass(frozen=True)
class Admit:
    """Append it, as this kind (a late result becomes `superseded`)."""

    kind: RowKind
    body: wire.Wire


@dataclass(frozen=True)
class Duplicate:
    """The key has its row already: same ack, no row."""

    seq: int


@dataclass(frozen=True)
class Refuse:
    """It will never be written; ends re-sending."""

    reason: str


Verdict = Admit | Duplicate | Refuse


def admit(state: SessionState, message: LedgerMessage) -> Verdict:
    """Decide what becomes of *message* given all rows so far."""
    if message.key in state.keys:
        return Duplicate(state.keys[message.key])
    try:
        body = wire.build(BODIES[message.kind], message.body)
    except WireError as error:
        return Refuse(str(error))
    if message.kind in (RowKind.SUPERSEDED, RowKind.REPAIRED):
        return Refuse(f"a {message.kind.value} row is never sent")
    if message.kind is not RowKind.SESSION_OPENED:
        if state.opened is None:
            return Refuse("the session is not open yet")
        fenced = message.kind in FENCED_BY_EPOCH or message.epoch is not None
        if fenced and message.epoch != state.epoch:
            return Refuse(f"epoch {message.epoch} is not the newest ({state.epoch})")
    return _RULES[message.kind](state, message, body)


#: What a session began with, for ever.
_KEPT = (
    *("tag", "track_digest", "base_commit", "base_digest", "policy_version"),
    *("origin", "program_digest"),
)


def _session_opened(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    opened = cast(rows.SessionOpened, body)
    if opened.epoch != state.epoch + 1 or message.epoch != opened.epoch:
        return Refuse(f"epoch {opened.epoch} does not follow {state.epoch}")
    if message.key != f"open:{opened.epoch}":
        return Refuse("key of session_opened must be open:<epoch>")
    try:
        config = wire.build(LoopConfig, opened.config)
    except WireError as error:
        return Refuse(str(error))
    before = state.opened
    if before is None or state.config is None:
        return Admit(RowKind.SESSION_OPENED, opened)
    old, new = comparable(state.config), comparable(config)
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    for name in _KEPT:
        if getattr(before, name) != getattr(opened, name):
            changed.append(name)
    if changed:
        return Refuse(f"{', '.join(changed)} may not change within a session: open another tag")
    return Admit(RowKind.SESSION_OPENED, opened)


def _proposed(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    proposed = cast(rows.Proposed, body)
    if proposed.id != state.next_id or message.key != f"proposed:{proposed.id}":
        return Refuse(f"experiment {proposed.id} is not the next one ({state.next_id})")
    if (proposed.role is Role.BASELINE) != (proposed.id == 1):
        return Refuse("experiment 1, and only it, is the baseline")
    if (proposed.rejection is None) != (proposed.commit is not None):
        return Refuse("a proposal has a commit or a rejection")
    if proposed.id > 1 and (proposed.parent is None or proposed.parent >= proposed.id):
        return Refuse("a candidate's parent must be an earlier experiment")
    if proposed.id > 1 and state.incumbent is None:
        return Refuse("there is no baseline to propose on")
    if state.run_state is not RunState.RUNNING and proposed.id > 1:
        return Refuse(f"nothing is proposed while the session is {state.run_state.value}")
    return Admit(RowKind.PROPOSED, proposed)


def _attempt_issued(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    issued = cast(rows.AttemptIssued, body)
    experiment = state.experiments.get(issued.id)
    if experiment is None or experiment.ended:
        return Refuse(f"experiment {issued.id} is not waiting for an attempt")
    if experiment.open_attempt is not None:
        return Refuse(f"attempt {experiment.open_attempt.issued.attempt} has no result yet")
    if awaits_approval(state, experiment):
        return Refuse(f"experiment {issued.id} waits for approval")
    if issued.attempt != len(experiment.attempts) + 1:
        return Refuse(f"attempt {issued.attempt} is not the next one")
    if message.key != f"attempt:{issued.id}:{issued.attempt}":
        return Refuse("key of attempt_issued must be attempt:<id>:<attempt>")
    return Admit(RowKind.ATTEMPT_ISSUED, issued)


def _result(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    result = cast(ExperimentResult, body)
    experiment = state.experiments.get(result.id)
    if experiment is None or not 1 <= result.attempt <= len(experiment.attempts):
        return Refuse(f"attempt {result.attempt} of experiment {result.id} was never issued")
    if message.key != f"result:{result.id}:{result.attempt}:{result.sender}":
        return Refuse("key of a result must be result:<id>:<attempt>:<sender>")
    if (result.metric is not None) != (result.status in (Status.SCORED, Status.HELD)):
        return Refuse("a scored result has a finite metric, and no other has one")
    fence = experiment.open_attempt
    if fence is None or fence.issued.attempt != result.attempt:
        return Admit(RowKind.SUPERSEDED, result)
    return Admit(RowKind.RESULT, result)


def _decision(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    decision = cast(Decision, body)
    experiment = state.experiments.get(decision.id)
    if experiment is None or not experiment.ended:
        return Refuse(f"experiment {decision.id} has not ended")
    if message.key != f"decision:{decision.id}:{experiment.decisions + 1}":
        return Refuse("key of a decision must be decision:<id>:<n>")
    if decision.incumbent_before != state.incumbent:
        return Refuse(f"the incumbent is {state.incumbent}, not {decision.incumbent_before}")
    if not state.last_decision_seq <= decision.basis_seq <= state.seq:
        return Refuse("a decision must know all decisions before it")
    return Admit(RowKind.DECISION, decision)


#: Advice is of use as long as something may still be proposed.
_TAKES_ADVICE = {RunState.RUNNING, RunState.PAUSED, RunState.DRAINING}
_ALLOWED = {
    RunState.RUNNING: {ControlAction.PAUSE, ControlAction.DRAIN, ControlAction.STOP},
    RunState.PAUSED: {ControlAction.RESUME, ControlAction.DRAIN, ControlAction.STOP},
    RunState.DRAINING: {ControlAction.RESUME, ControlAction.PAUSE, ControlAction.STOP},
    RunState.STOPPING: {ControlAction.RESUME},
    RunState.CLOSED: {ControlAction.RESUME},
}


def _control(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    control = cast(rows.Control, body)
    if control.action in ANSWERS:
        return _answer(state, message, control)
    if control.action in _OF_DEAD_LETTER or control.id is not None:
        return _dead_letter(state, message, control)
    if control.action is ControlAction.STEER:
        if not control.why.strip():
            return Refuse("can't steer: the advice is empty")
        allowed = state.run_state in _TAKES_ADVICE
    else:
        allowed = control.action in _ALLOWED[state.run_state]
    if not allowed:
        return Refuse(f"can't {control.action.value}: the session is {state.run_state.value}")
    return Admit(RowKind.CONTROL, control)


def _answer(state: SessionState, message: LedgerMessage, control: rows.Control) -> Verdict:
    """In any state of the session: what is approved runs as soon as attempts are issued."""
    if control.id is None:
        return Refuse(f"{control.action.value} names an experiment")
    if message.key != f"control:{control.action.value}:{control.id}":
        return Refuse(f"key of {control.action.value} must be control:{control.action.value}:<id>")
    what = why_no_answer(state, control.id)
    return Refuse(what) if what else Admit(RowKind.CONTROL, control)


def why_no_answer(state: SessionState, experiment_id: int) -> str | None:
    """Why that experiment can't be approved or rejected; None when it can."""
    name = f"experiment {experiment_id}"
    experiment = state.experiments.get(experiment_id)
    if experiment is None:
        return f"there is no {name}"
    if experiment.answer is not None:
        word = "approved" if experiment.answer.action is ControlAction.APPROVE else "rejected"
        by = "" if experiment.answer.by != OURSELVES else ", since nobody answered in time"
        return f"{name} was {word} already by row {experiment.answer_seq}{by}"
    if experiment.decision is not None or experiment.ended:
        return f"{name} has ended already"
    if experiment.attempts:
        return f"{name} runs already: it was let through before"
    if not awaits_approval(state, experiment):
        return f"{name} needs no approval"
    return None


_OF_DEAD_LETTER = {ControlAction.REQUEUE, ControlAction.DROP}


def _dead_letter(state: SessionState, message: LedgerMessage, control: rows.Control) -> Verdict:
    """In any state of the session: what is requeued runs as soon as attempts are issued."""
    if control.id is None or control.action not in _OF_DEAD_LETTER:
        return Refuse("requeue and drop, and only they, name an experiment")
    experiment = state.experiments.get(control.id)
    if experiment is None or not experiment.in_dead_letter:
        return Refuse(f"experiment {control.id} is not in the dead letter")
    if message.key != f"control:{control.action.value}:{control.id}:{experiment.final_seq}":
        return Refuse(f"experiment {control.id} was given up by row {experiment.final_seq}")
    return Admit(RowKind.CONTROL, control)


def _session_closed(state: SessionState, message: LedgerMessage, body: wire.Wire) -> Verdict:
    if state.run_state is RunState.CLOSED:
        return Refuse("the session is closed already")
    return Admit(RowKind.SESSION_CLOSED, body)


_Rule = Callable[[SessionState, LedgerMessage, wire.Wire], Verdict]
_RULES: dict[RowKind, _Rule] = {
    RowKind.SESSION_OPENED: _session_opened,
    RowKind.PROPOSED: _proposed,
    RowKind.ATTEMPT_ISSUED: _attempt_issued,
    RowKind.RESULT: _result,
    RowKind.DECISION: _decision,
    RowKind.CONTROL: _control,
    RowKind.SESSION_CLOSED: _session_closed,
}
