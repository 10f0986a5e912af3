"""A runner: takes attempts of one session, one at a time, and delivers each result."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, WireError
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step, reach
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.runner.attempt import Bench, clear_work, infra_result, run_attempt
from overnight.runner.durable import ClaimFile, Outbox
from overnight.runner.holding import Ended, Holder
from overnight.runner.metrics import RunnerMetrics

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A runner's lines to Redis."""

    sid: str
    sender: LedgerSender
    leases: Leases
    flags: Flags
    renew_seconds: float
    resend_seconds: float


class Life(Protocol):
    """What ends a runner from outside."""

    def should_stop(self) -> bool:
        """Was it asked to end? Asking is a sign of life."""
        ...

    def patient(self, seconds: float) -> AbstractContextManager[None]:
        """Inside, it may be silent for *seconds* longer."""
        ...


class Runner:
    """`handle` is what the queue's worker calls with each payload, in the main thread."""

    def __init__(
        self,
        bench: Bench,
        lines: Lines,
        metrics: RunnerMetrics,
        life: Life,
    ) -> None:
        self._bench = bench
        self._lines = lines
        self._metrics = metrics
        self._life = life
        self._outbox = Outbox(bench.folder / "outbox")
        self._claim = ClaimFile(bench.folder / "claimed")

    def recover(self) -> None:
        """End a dead predecessor's leftovers, report its attempt, empty the outbox."""
        ended = self._bench.executor.reconcile(
            {"sid": self._lines.sid, "runner": self._bench.runner}
        )
        if ended:
            log.warning("leftovers_ended", sandboxes=ended)
        clear_work(self._bench)
        reach(Step.RUNNER_RECONCILED)
        claimed = self._claim.read()
        if claimed is not None:
            message = self._message(
                infra_result(self._bench.runner, claimed, "lost", "its runner died")
            )
            if all(waiting.key != message.key for waiting in self._outbox.waiting()):
                self._outbox.put(message)
            self._claim.clear()
        for message in list(self._outbox.waiting()):
            self._deliver(message)

    def handle(self, payload: str) -> None:
        """Run one job.

        Raises:
            WireError: the payload is no job of this session; it is parked.
        """
        job = wire.decode(ExperimentJob, payload)
        if job.sid != self._lines.sid:
            raise WireError(f"job of session {job.sid}, this runner serves {self._lines.sid}")
        reach(Step.RUNNER_TAKEN)
        if not self._lines.leases.claim(job.id, job.attempt, self._bench.runner):
            log.info("attempt_taken_by_another", experiment_id=job.id, attempt=job.attempt)
            return
        reach(Step.RUNNER_LEASED)
        self._metrics.begin()
        result = None
        try:
            result = self._hold_and_run(job)
        finally:
            self._metrics.end(result)

    def _hold_and_run(self, job: ExperimentJob) -> ExperimentResult | None:
        with Holder(
            self._lines.leases,
            job,
            self._bench.runner,
            renew_seconds=self._lines.renew_seconds,
            stopping=self._stopping,
        ) as holder:
            self._claim.write(job)
            reach(Step.RUNNER_CLAIMED)
            log.info("attempt_started", experiment_id=job.id, attempt=job.attempt)
            with self._life.patient(job.wall_seconds):
                result = run_attempt(self._bench, job, holder.attach)
            holder.detach()
            log.info(
                "attempt_ended",
                experiment_id=job.id,
                attempt=job.attempt,
                status=result.status.value,
                reason=result.reason,
                wall_seconds=round(result.runtime_s, 3),
            )
            if holder.ended is Ended.LEASE_LOST:
                self._claim.clear()
                return None
            message = self._message(result)
            self._outbox.put(message)
            reach(Step.RUNNER_OUTBOX)
            self._claim.clear()
            reach(Step.RUNNER_UNCLAIMED)
            self._deliver(message)
            reach(Step.RUNNER_DELIVERED)
        try:
            self._lines.leases.release(job.id, job.attempt, self._bench.runner)
        except InfrastructureError as error:
            log.warning("lease_not_released", reason=str(error))  # it runs out by itself
        reach(Step.RUNNER_RELEASED)
        return result

    def _stopping(self) -> bool:
        return self._life.should_stop() or self._lines.flags.is_stopping(self._lines.sid)

    def _message(self, result: ExperimentResult) -> LedgerMessage:
        key = f"result:{result.id}:{result.attempt}:{result.sender}"
        return LedgerMessage(key=key, kind=RowKind.RESULT, body=wire.dump(result))

    def _deliver(self, message: LedgerMessage) -> None:
        """Until it is acked. When this runner is told to end first, the file stays for the next."""
        try:
            ack = self._lines.sender.send_until_acked(
                message,
                resend_seconds=self._lines.resend_seconds,
                stop=self._life.should_stop,
                deadline_seconds=None,
            )
        except InfrastructureError as error:
            log.warning("result_waits_in_outbox", key=message.key, reason=str(error))
            return
        reach(Step.RUNNER_ACKED)
        if ack.refused:
            self._outbox.refused(message, ack.reason or "")
        else:
            self._outbox.done(message)
