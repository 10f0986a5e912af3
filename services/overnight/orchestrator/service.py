"""The loop: fold what is new, do the one next thing, never block. May die between any two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from overnight.contracts import rows
from overnight.contracts.errors import InfrastructureError, ProposerError, SessionHeldError
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import GAVE_UP, RowKind, Status
from overnight.faultpoints import Step, reach
from overnight.ledger.approvals import awaiting
from overnight.ledger.fold import RunState, SessionState
from overnight.orchestrator import jobs
from overnight.orchestrator.answering import AnswerClock
from overnight.orchestrator.deadlines import deadlines
from overnight.orchestrator.planning import (
    Action,
    Answer,
    Bounds,
    Cancel,
    Close,
    Decide,
    Fence,
    GiveUp,
    Issue,
    Pause,
    Propose,
    QueueView,
    ReportLost,
    Rerun,
    next_action,
    would_free,
)
from overnight.orchestrator.policy import decide
from overnight.orchestrator.ports import Look, Ports
from overnight.orchestrator.proposing import Proposing

log = structlog.get_logger()

UNSEEN_SECONDS = 2.0  #: between two looks at the queue; only a stopped or busy loop takes longer


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often, in seconds of the orchestrator's monotonic clock."""

    look_seconds: float = 0.5  #: between two glances at the queue
    resend_seconds: float = 2.0
    requeue_seconds: float = 6.0  #: after a flush, runners have this long to take leases again


@dataclass
class _Pending:
    message: LedgerMessage
    sent_at: float | None
    after: Callable[[], None] | None


class Orchestrator:
    """One session's only decider. Call `step` for ever; `outcome` is set when the run is over."""

    def __init__(
        self,
        ports: Ports,
        opening: rows.SessionOpened,
        *,
        bounds: Bounds,
        timing: Timing,
        launch: jobs.Launch,
        starter: str,
    ) -> None:
        self._ports = ports
        self._proposing = Proposing(ports.trees, ports.proposer, ports.program)
        self._opening = opening.model_copy(update={"starter": starter})
        self._bounds = bounds
        self._timing = timing
        self._launch = launch
        self.state = SessionState()
        self.epoch = 0
        self.outcome: rows.SessionClosed | None = None
        self._pending: _Pending | None = None
        self._look: Look | None = None
        self._looked_at: float | None = None
        self._missing_since: dict[Fence, float] = {}
        self._requeue_at: float | None = None
        self._exhausted: str | None = None
        self._started_at: float | None = None
        self._refs_seq = -1
        self._answers = AnswerClock(UNSEEN_SECONDS)

    def step(self, now: float) -> bool:
        """Do what can be done without waiting; True when something was done.

        now: seconds, monotonic.

        Raises:
            InfrastructureError: Redis is away; call again later, nothing is lost.
            SessionHeldError: a newer orchestrator has taken over.
        """
        self._started_at = self._started_at if self._started_at is not None else now
        self._fold()
        if self._pending is not None:
            return self._settle(now)
        if self.epoch == 0:
            self._open()
            return True
        if self.state.epoch == self.epoch and not self._opened_by_us():
            self.epoch = 0  # somebody else's opening came first under the same key
            return True
        if self.state.epoch != self.epoch:
            raise SessionHeldError(f"orchestrator of epoch {self.state.epoch} has taken over")
        if self.state.run_state is RunState.CLOSED:
            self.outcome = self.state.closed
            return False
        self._glance(now)
        action = next_action(self.state, self._view(now), self._bounds)
        if action is None:
            return False
        self._do(action)
        return self._settle(now)

    @property
    def waits_for_an_answer(self) -> bool:
        """Is a message under way, so that looking again soon is worth it?"""
        return self._pending is not None

    def places(self) -> dict[str, int]:
        """Where the last look found issued attempts: in the queue, with a runner, or nowhere."""
        look = self._look
        return {
            "queued": len(look.queued) if look else 0,
            "leased": len(look.leased) if look else 0,
            "missing": len(self._missing_since),
        }

    def _fold(self) -> None:
        for row in self._ports.rows():
            self.state.apply(row)
        if self._refs_seq != self.state.seq and self.state.opened is not None:
            reach(Step.ORCHESTRATOR_FOLDED)
            self._ports.trees.follow(self.state)
            reach(Step.ORCHESTRATOR_REFS)
            self._refs_seq = self.state.seq

    def _settle(self, now: float) -> bool:
        """Send, re-send or finish the one message under way."""
        pending = self._pending
        if pending is None:
            return False
        if pending.sent_at is None or now - pending.sent_at >= self._timing.resend_seconds:
            reach(Step(f"orchestrator:send-{pending.message.kind.value}"))
            self._ports.ledger.send(pending.message)
            pending.sent_at = now  # not before: what was refused is tried, and told, again soon
        ack = self._ports.ledger.ack(pending.message.key)
        if ack is None:
            return False
        if ack.refused:
            self._refused(pending, ack.reason or "")
            return False
        if pending.message.key not in self.state.keys:
            return False  # our own reading lags behind; or it is the ack of another ledger
        reach(Step(f"orchestrator:acked-{pending.message.kind.value}"))
        self._pending = None
        if pending.after is not None:
            pending.after()
        return True

    def _refused(self, pending: _Pending, reason: str) -> None:
        self._pending = None
        log.warning("message_refused", key=pending.message.key, reason=reason)
        if pending.message.kind is RowKind.SESSION_OPENED or "epoch" in reason:
            raise SessionHeldError(reason)

    def _send(self, message: LedgerMessage, after: Callable[[], None] | None = None) -> None:
        self._pending = _Pending(message, None, after)

    def _open(self) -> None:
        epoch = self.state.epoch + 1
        self.epoch = epoch
        self._send(jobs.open_message(self._opening, epoch))

    def _opened_by_us(self) -> bool:
        opened = self.state.opened
        return opened is not None and opened.starter == self._opening.starter

    # -- the queue ------------------------------------------------------------------------------

    def _open_fences(self) -> list[Fence]:
        attempts = ((i, self.state.experiments[i].open_attempt) for i in sorted(self.state.running))
        return [(i, attempt.issued.attempt) for i, attempt in attempts if attempt is not None]

    def _glance(self, now: float) -> None:
        stopping = self.state.run_state is RunState.STOPPING
        recent = self._looked_at is not None and now - self._looked_at < self._timing.look_seconds
        if recent and not stopping:
            return
        fences = self._open_fences()
        try:
            reach(Step.ORCHESTRATOR_LOOK)
            self._ports.queue.stopping(stopping)
            look = self._ports.queue.look(fences)
        except InfrastructureError:
            # Nothing can be said to be missing while nobody can look.
            self._missing_since.clear()
            raise
        first = self._looked_at is None
        # Were we stopped, or busy? What nobody saw missing is not missing for so long.
        unseen = 0.0 if self._looked_at is None else now - self._looked_at - UNSEEN_SECONDS
        self._missing_since = {
            fence: since + max(0.0, unseen) for fence, since in self._missing_since.items()
        }
        self._look, self._looked_at = look, now
        if first or not look.intact:
            self._requeue_at = now + self._timing.requeue_seconds
            # What Redis forgot is not lost: it is pushed again, and costs no attempt.
            self._missing_since.clear()
        present = look.queued | look.leased
        self._missing_since = {
            fence: self._missing_since.get(fence, now) for fence in fences if fence not in present
        }
        if self._requeue_at is not None and now >= self._requeue_at:
            self._requeue_at = None
            if not stopping:
                self._requeue()

    def _requeue(self) -> None:
        """After a start, a restart of Redis or a flush: what nobody has is pushed again."""
        for fence in list(self._missing_since):
            log.info("requeued", experiment_id=fence[0], attempt=fence[1])
            reach(Step.ORCHESTRATOR_REQUEUE)
            self._ports.queue.push(jobs.job_for(self.state, fence[0], self._launch))
            del self._missing_since[fence]

    def _view(self, now: float) -> QueueView:
        look = self._look
        config = self.state.config
        hours = config.policy.limits.hours if config else None
        started = self._started_at if self._started_at is not None else now
        running = self.state.run_state is RunState.RUNNING
        waiting = [e.id for e in awaiting(self.state)] if running else []
        return QueueView(
            queued=look.queued if look else frozenset(),
            leased=look.leased if look else frozenset(),
            missing_seconds={f: now - since for f, since in self._missing_since.items()},
            exhausted=self._exhausted,
            out_of_time=hours is not None and now - started >= hours * 3600,
            unanswered_seconds=self._answers.waited(waiting, now),
            free_gb=self._ports.free_gb() if running else None,
        )

    # -- actions --------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        match action:
            case Decide(id=experiment_id):
                self._decide(experiment_id)
            case Issue(id=experiment_id, attempt=attempt):
                self._issue(experiment_id, attempt, lambda: self._push(experiment_id))
            case GiveUp(id=experiment_id, attempt=attempt):
                last = jobs.own_result(experiment_id, attempt, Status.INFRA, GAVE_UP)
                self._issue(experiment_id, attempt, lambda: self._send(last))
            case ReportLost(id=experiment_id, attempt=attempt):
                self._missing_since.pop((experiment_id, attempt), None)
                self._send(jobs.own_result(experiment_id, attempt, Status.INFRA, "lost"))
            case Cancel(id=experiment_id, attempt=attempt):
                self._ports.queue.remove((experiment_id, attempt))
                reach(Step.ORCHESTRATOR_CANCEL)
                self._send(jobs.own_result(experiment_id, attempt, Status.CANCELLED, None))
            case Propose(id=experiment_id):
                self._propose(experiment_id)
            case Rerun(id=experiment_id, suspicion=suspicion):
                again = self._proposing.rerun(self.state, experiment_id, suspicion)
                self._send(jobs.proposed_message(again, self.epoch))
            case Answer(id=experiment_id, approve=approve, why=why):
                self._send(jobs.answer_message(experiment_id, approve, why, self.epoch))
            case Pause(why=why, for_room=for_room):
                more = would_free(*self._ports.freeable(self.state)) if for_room else ""
                self._send(jobs.pause_message(self.state, why + more))
            case Close(outcome=outcome, detail=detail):
                self._send(jobs.close_message(self.state, outcome, detail, self.epoch))

    def _decide(self, experiment_id: int) -> None:
        decision = decide(self.state, experiment_id)
        assert isinstance(decision, Decision)  # no policy of this release wants more
        number = self.state.experiments[experiment_id].decisions + 1
        self._send(jobs.decision_message(decision, number, self.epoch))

    def _issue(self, experiment_id: int, attempt: int, after: Callable[[], None]) -> None:
        assert self.state.config is not None  # opened
        wall, cpu = deadlines(self.state.config, self.state)
        issued = rows.AttemptIssued(
            id=experiment_id, attempt=attempt, wall_seconds=wall, cpu_seconds=cpu
        )
        self._send(jobs.issue_message(issued, self.epoch), after)

    def _push(self, experiment_id: int) -> None:
        try:
            self._ports.queue.push(jobs.job_for(self.state, experiment_id, self._launch))
            reach(Step.ORCHESTRATOR_PUSHED)
        except InfrastructureError:
            self._requeue_at = 0.0  # with the first look that succeeds
            raise

    def _propose(self, experiment_id: int) -> None:
        reach(Step.ORCHESTRATOR_PROPOSE)
        if experiment_id == 1:
            baseline = self._proposing.baseline(self.state, self._opening)
            self._send(jobs.proposed_message(baseline, self.epoch))
            return
        try:
            idea = self._proposing.idea(self.state, experiment_id)
        except ProposerError as error:
            self._exhausted = str(error)
            return
        self._send(jobs.proposed_message(idea, self.epoch))
