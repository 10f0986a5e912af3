"""The fold: rows in, the state of a session out. Pure; the same rows always give the same state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from overnight.contracts import rows, wire
from overnight.contracts.errors import LedgerError
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import GENESIS, Row
from overnight.contracts.status import (
    ENVIRONMENT,
    FREE_SUSPENSIONS,
    GAVE_UP,
    SUSPENDED,
    UNFINISHED,
    ControlAction,
    Role,
    RowKind,
    Status,
)
from overnight.ledger.chain import body_of

ANSWERS = frozenset({ControlAction.APPROVE, ControlAction.REJECT})  #: to an idea that waits
OURSELVES = "orchestrator"  #: `by` of what no person said
BY_PERSON, NO_ANSWER = "by_person", "no_answer"  #: reasons of `rejected`


class UnfoundedRowError(LedgerError):
    """A whole row that can't be folded. Nobody of ours wrote it, or not here."""


class RunState(StrEnum):
    """What the session is doing, as far as the ledger says."""

    NEW = "new"  #: not opened yet
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    STOPPING = "stopping"
    CLOSED = "closed"


@dataclass
class AttemptState:
    """One issued attempt."""

    issued: rows.AttemptIssued
    seq: int
    result: ExperimentResult | None = None
    result_seq: int | None = None


@dataclass
class ExperimentState:
    """One experiment: how it came, its attempts, how it ended."""

    proposed: rows.Proposed
    seq: int
    attempts: list[AttemptState] = field(default_factory=list)
    superseded: int = 0
    final: ExperimentResult | None = None
    final_seq: int | None = None
    decision: Decision | None = None
    decision_seq: int | None = None
    first_decision_seq: int | None = None
    decisions: int = 0
    last_decision: Decision | None = None  #: stands, for the exports, while it is tried anew
    decided_on: ExperimentResult | None = None  #: what was final at the last decision
    given_up_ts: str = ""  #: UTC label
    dropped: bool = False  #: out of the dead letter
    answer: rows.Control | None = None  #: approve or reject: a person's, or the clock's
    answer_seq: int | None = None
    forgiven: int = 0  #: attempts before the last requeue: they count no more

    @property
    def id(self) -> int:
        """Counts from 1, the baseline."""
        return self.proposed.id

    @property
    def open_attempt(self) -> AttemptState | None:
        """The newest issued attempt if it has no result yet: the fence."""
        if self.attempts and self.attempts[-1].result is None:
            return self.attempts[-1]
        return None

    @property
    def ended(self) -> bool:
        """Nothing more will run for it; it is, or can be, decided."""
        return self.final is not None or self.rejection is not None

    @property
    def rejection(self) -> str | None:
        """Why it never ran: its edit was refused, or it was not approved."""
        if self.answer is not None and self.answer.action is ControlAction.REJECT:
            return NO_ANSWER if self.answer.by == OURSELVES else BY_PERSON
        return self.proposed.rejection

    @property
    def end_seq(self) -> int:
        """The row that ended it; of one that still runs, the row that proposed it."""
        answered = self.answer_seq if self.rejection is not None else None
        return self.final_seq or answered or self.seq

    @property
    def infra_results(self) -> int:
        """How many attempts ended by our fault. A suspended one is none, for a good while."""
        results = (a.result for a in self.attempts[self.forgiven :] if a.result is not None)
        reasons = [r.reason for r in results if r.status is Status.INFRA]
        return len(reasons) - min(reasons.count(SUSPENDED), FREE_SUSPENSIONS)

    @property
    def in_dead_letter(self) -> bool:
        """Was it given up, and did nobody see to it yet?"""
        gave_up = self.final is not None and self.final.reason == GAVE_UP
        return gave_up and self.decision is not None and not self.dropped

    @property
    def status(self) -> Status | None:
        """The verdict, once decided."""
        return self.decision.verdict if self.decision else None


@dataclass(frozen=True)
class Advice:
    """What a person said with `steer`."""

    seq: int
    by: str
    text: str  #: data; may hold several lines


@dataclass
class SessionState:
    """A session as its ledger tells it. Grows by `apply`, never otherwise."""

    sid: str | None = None
    opened: rows.SessionOpened | None = None
    config: LoopConfig | None = None
    run_state: RunState = RunState.NEW
    state_why: str = ""
    closed: rows.SessionClosed | None = None
    experiments: dict[int, ExperimentState] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    undecided: list[int] = field(default_factory=list)  #: ended, in order of their ending
    running: set[int] = field(default_factory=set)  #: proposed and not ended
    incumbent: int | None = None
    kept: list[int] = field(default_factory=list)  #: in order; the last one is the incumbent
    decided: list[tuple[int, int]] = field(default_factory=list)  #: (seq, experiment), in order
    replicates: list[int] = field(default_factory=list)
    resumes: list[int] = field(default_factory=list)  #: rows by which the session went on
    last_decision_seq: int = 0
    seq: int = 0
    hash: str = GENESIS
    first_ts: str = ""
    last_ts: str = ""
    last_keep_ts: str = ""  #: of the last decision to keep
    rejected_in_a_row: int = 0
    unanswered_in_a_row: int = 0  #: ideas that were skipped, since nobody answered in time
    steering: list[Advice] = field(default_factory=list)  #: newest last
    device_seconds: float = 0.0  #: that attempts ran, all together; lost ones told nobody
    candidates: int = 0  #: that count for `--max`: not rejected, no baseline, no replicate

    @property
    def epoch(self) -> int:
        """Of the newest orchestrator; 0 before the first."""
        return self.opened.epoch if self.opened else 0

    @property
    def next_id(self) -> int:
        """The id of the next proposal."""
        return len(self.experiments) + 1

    @property
    def baseline(self) -> ExperimentState | None:
        """Experiment 1."""
        return self.experiments.get(1)

    def decided_since_resume(self) -> Iterator[ExperimentState]:
        """Experiments by their decision that stands, newest first, back to the last resume."""
        since = self.resumes[-1] if self.resumes else 0
        for seq, number in reversed(self.decided):
            if seq < since:
                return
            experiment = self.experiments[number]
            if experiment.decision_seq == seq:
                yield experiment

    def metric_of(self, experiment_id: int | None) -> float | None:
        """Final metric of an experiment, None when it has none."""
        if experiment_id is None:
            return None
        final = self.experiments[experiment_id].final
        return final.metric if final else None

    def apply(self, row: Row) -> None:
        """Fold one checked row.

        Raises:
            BrokenRowError: its body is not what its kind says.
            UnfoundedRowError: nobody of ours wrote it: it names what no row before it began.
        """
        body = body_of(row)
        try:
            _HANDLERS[row.kind](self, row, body)
        except LookupError as error:
            raise UnfoundedRowError(
                f"ledger row {row.seq} names an experiment or attempt that no row before it began; "
                "run `overnight ledger repair`"
            ) from error
        self.keys[row.key] = row.seq
        self.seq, self.hash = row.seq, row.hash
        self.sid = self.sid or row.session
        self.first_ts = self.first_ts or row.ts
        self.last_ts = row.ts


def _opened(state: SessionState, row: Row, body: wire.Wire) -> None:
    opened = cast(rows.SessionOpened, body)
    state.opened = opened
    state.config = wire.build(LoopConfig, opened.config)
    if state.run_state is RunState.NEW:
        state.run_state = RunState.RUNNING


def _proposed(state: SessionState, row: Row, body: wire.Wire) -> None:
    proposed = cast(rows.Proposed, body)
    state.experiments[proposed.id] = ExperimentState(proposed, row.seq)
    if proposed.rejection is not None:
        state.undecided.append(proposed.id)
        state.rejected_in_a_row += 1
        return
    state.running.add(proposed.id)
    if proposed.role is Role.REPLICATE:
        state.replicates.append(proposed.id)
    if proposed.role in (Role.CANDIDATE, Role.RECOMBINATION):
        state.candidates += 1
        state.rejected_in_a_row = 0


def _issued(state: SessionState, row: Row, body: wire.Wire) -> None:
    issued = cast(rows.AttemptIssued, body)
    state.experiments[issued.id].attempts.append(AttemptState(issued, row.seq))


def _result(state: SessionState, row: Row, body: wire.Wire) -> None:
    result = cast(ExperimentResult, body)
    experiment = state.experiments[result.id]
    attempt = experiment.attempts[result.attempt - 1]
    attempt.result, attempt.result_seq = result, row.seq
    state.device_seconds += result.runtime_s
    if is_final(result):
        experiment.final, experiment.final_seq = result, row.seq
        experiment.given_up_ts = row.ts if result.reason == GAVE_UP else ""
        state.running.discard(result.id)
        state.undecided.append(result.id)


def _superseded(state: SessionState, row: Row, body: wire.Wire) -> None:
    result = cast(ExperimentResult, body)
    state.experiments[result.id].superseded += 1
    state.device_seconds += result.runtime_s


def _decision(state: SessionState, row: Row, body: wire.Wire) -> None:
    decision = cast(Decision, body)
    experiment = state.experiments[decision.id]
    if decision.reason == ENVIRONMENT and experiment.proposed.role is not Role.REPLICATE:
        state.candidates -= 1  # said once at most: no policy takes it back
    experiment.decision, experiment.decision_seq = decision, row.seq
    experiment.last_decision, experiment.decided_on = decision, experiment.final
    experiment.first_decision_seq = experiment.first_decision_seq or row.seq
    experiment.decisions += 1
    if decision.id in state.undecided:
        state.undecided.remove(decision.id)
    state.decided.append((row.seq, decision.id))
    if decision.verdict is Status.KEEP:
        state.kept.append(decision.id)
        state.last_keep_ts = row.ts
    state.incumbent = decision.incumbent_after
    state.last_decision_seq = row.seq


_NEXT_STATE = {
    ControlAction.PAUSE: RunState.PAUSED,
    ControlAction.RESUME: RunState.RUNNING,
    ControlAction.DRAIN: RunState.DRAINING,
    ControlAction.STOP: RunState.STOPPING,
}


def _control(state: SessionState, row: Row, body: wire.Wire) -> None:
    control = cast(rows.Control, body)
    if control.action is ControlAction.STEER:
        state.steering.append(Advice(row.seq, control.by, control.why))
        return
    if control.id is not None and control.action in ANSWERS:
        _answered(state, state.experiments[control.id], control, row.seq)
        return
    if control.id is not None:
        _see_to(state, state.experiments[control.id], control.action)
        return
    state.run_state = _NEXT_STATE[control.action]
    state.state_why = control.why
    if control.action is ControlAction.RESUME:
        state.rejected_in_a_row = state.unanswered_in_a_row = 0
        state.resumes.append(row.seq)
        state.closed = None


def _answered(
    state: SessionState, experiment: ExperimentState, control: rows.Control, seq: int
) -> None:
    """Approved ones run now; rejected ones never do, and count for no limit."""
    experiment.answer, experiment.answer_seq = control, seq
    skipped = control.by == OURSELVES and control.action is ControlAction.REJECT
    state.unanswered_in_a_row = state.unanswered_in_a_row + 1 if skipped else 0
    if control.action is ControlAction.REJECT:
        state.running.discard(experiment.id)
        state.undecided.append(experiment.id)
        state.candidates -= 1


def _see_to(state: SessionState, experiment: ExperimentState, action: ControlAction) -> None:
    """Of the dead letter. What is requeued is unfinished again; its attempts go on counting."""
    if action is ControlAction.DROP:
        experiment.dropped = True
        return
    experiment.final = experiment.final_seq = None
    experiment.decision = experiment.decision_seq = None
    experiment.forgiven = len(experiment.attempts)
    state.running.add(experiment.id)


def _repaired(state: SessionState, row: Row, body: wire.Wire) -> None:
    """A repair changes no experiment; the row only says that it happened."""


def _closed(state: SessionState, row: Row, body: wire.Wire) -> None:
    state.closed = cast(rows.SessionClosed, body)
    state.run_state = RunState.CLOSED
    state.state_why = state.closed.detail


_HANDLERS = {
    RowKind.SESSION_OPENED: _opened,
    RowKind.PROPOSED: _proposed,
    RowKind.ATTEMPT_ISSUED: _issued,
    RowKind.RESULT: _result,
    RowKind.SUPERSEDED: _superseded,
    RowKind.DECISION: _decision,
    RowKind.CONTROL: _control,
    RowKind.REPAIRED: _repaired,
    RowKind.SESSION_CLOSED: _closed,
}


def is_final(result: ExperimentResult) -> bool:
    """Does this accepted result end its experiment?"""
    return result.status not in UNFINISHED or result.reason == GAVE_UP
