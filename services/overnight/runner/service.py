"""A runner: takes attempts of one session, one at a time, and delivers each result."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, WireError
from overnight.contracts.execution import Sandbox
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import Status
from overnight.faultpoints import Step, reach
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.runner.attempt import WAITED_FOR, run_attempt
from overnight.runner.cards import Cards
from overnight.runner.durable import ClaimFile, Outbox
from overnight.runner.holding import Ended, Holder
from overnight.runner.inheritance import clear_work, inherit, report_lost, result_message
from overnight.runner.metrics import RunnerMetrics
from overnight.runner.quarantine import Notice, Quarantine
from overnight.runner.specs import Bench

log = structlog.get_logger()

FIRST_PAUSE_SECONDS = 0.1  #: between two tries to claim while Redis is away; doubled each time
LONGEST_PAUSE_SECONDS = 2.0

IDLE_LOOK_SECONDS = 0.5  #: between two looks at the devices while no job comes
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)  #: the last one repeats


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

    def allow(self, seconds: float) -> None:
        """Inside `patient`, a new step begins, which may be silent for *seconds* longer."""
        ...


class Runner:
    """`handle` is what the queue's worker calls with each payload, in the main thread."""

    def __init__(
        self,
        bench: Bench,
        lines: Lines,
        metrics: RunnerMetrics,
        life: Life,
        say_waiting: Callable[[str | None], None] = lambda why: None,
        *,
        notices: tuple[Notice, ...] = (),
        cards: Cards | None = None,
    ) -> None:
        self._bench = bench
        self._lines = lines
        self._metrics = metrics
        self._life = life
        self._say_waiting = say_waiting
        self._outbox = Outbox(bench.folder / "outbox")
        self._claim = ClaimFile(bench.folder / "claimed")
        self._cards = cards or Cards()
        self._look_at = 0.0
        notice, *beside = notices or (Notice(bench.folder / "device.quarantined"),)
        self._device = Quarantine(
            executor=bench.executor,
            sid=lines.sid,
            runner=bench.runner,
            device=bench.device,
            notice=notice,
            beside=tuple(beside),
            trouble=self._cards.trouble,
            should_stop=life.should_stop,
            say_waiting=say_waiting,
            set_gauge=metrics.quarantined.set,
        )

    def recover(self) -> None:
        """End what dead runners left on this host, report what they held, empty the outbox."""
        self._device.wait()
        ended = self._bench.executor.reconcile({}).ended
        if ended:
            log.warning("leftovers_ended", sandboxes=ended)
        clear_work(self._bench.folder)
        reach(Step.RUNNER_RECONCILED)
        report_lost(self._bench.runner, self._claim, self._outbox)
        inherit(self._bench.folder.parent, self._bench.runner, self._outbox)
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
        if not self._device.wait():
            # Met on a device that we thought free: the attempt is nobody's now, and is issued anew.
            log.warning("attempt_let_go", experiment_id=job.id, attempt=job.attempt)
            return
        if not self._lease(job):
            log.info("attempt_taken_by_another", experiment_id=job.id, attempt=job.attempt)
            return
        reach(Step.RUNNER_LEASED)
        self._metrics.begin()
        result = None
        try:
            result = self._hold_and_run(job)
        finally:
            self._metrics.end(result)
        self._cards.ended(result)
        self._device.wait()  # no further job is taken before all of this one is gone

    def should_stop(self) -> bool:
        """Asked before each job is taken: waits first while a device is in trouble."""
        if time.monotonic() >= self._look_at and self._cards.trouble() is not None:
            self._device.wait()
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + IDLE_LOOK_SECONDS
        return self._life.should_stop()

    def may_start(self) -> bool:
        """Asked when a job was taken: a device that failed meanwhile leaves it to another."""
        if self._cards.trouble() is None:
            return True
        self._look_at = 0.0  # `should_stop` waits at once, before the next job is taken
        return False

    def _lease(self, job: ExperimentJob) -> bool:
        """Claim it, however long Redis is away: a job dropped now would count as lost.

        Raises:
            InfrastructureError: told to end before Redis answered.
        """
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._lines.leases.claim(job.id, job.attempt, self._bench.runner)
            except InfrastructureError as error:
                if self._life.should_stop():
                    raise
                if pause == FIRST_PAUSE_SECONDS:
                    log.warning("claim_waits", experiment_id=job.id, reason=str(error))
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _hold_and_run(self, job: ExperimentJob) -> ExperimentResult | None:
        with Holder(
            self._lines.leases,
            job,
            self._bench.runner,
            renew_seconds=self._lines.renew_seconds,
            stopping=self._stopping,
        ) as holder:
            result = self._run(job, holder)
            if result is None:
                self._claim.clear()
                self._release(job)
                return None
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
            self._keep_and_deliver(result_message(result))
            reach(Step.RUNNER_DELIVERED)
        self._release(job)
        reach(Step.RUNNER_RELEASED)
        return result

    def _release(self, job: ExperimentJob) -> None:
        try:
            self._lines.leases.release(job.id, job.attempt, self._bench.runner)
        except InfrastructureError as error:
            log.warning("lease_not_released", reason=str(error))  # it runs out by itself

    def _run(self, job: ExperimentJob, holder: Holder) -> ExperimentResult | None:
        """Its result; None when it was taken from us before it ran.

        A disk that is full or failing, and an engine that is away, are waited for with the lease in
        hand: they say nothing about the idea, and would use up one attempt after the other.
        """
        said = False

        def on_sandbox(sandbox: Sandbox, seconds: float) -> None:
            if said:
                self._say_waiting(None)
            self._life.allow(seconds)
            holder.attach(sandbox)

        for pause in chain(RETRY_SECONDS, repeat(RETRY_SECONDS[-1])):
            try:
                self._bench.files.make_folder(self._bench.folder)
                self._claim.write(job)
            except InfrastructureError as error:
                result, reason = None, str(error)
            except OSError as error:
                result, reason = None, f"{error.filename}: {error.strerror}"
            else:
                reach(Step.RUNNER_CLAIMED)
                log.info("attempt_started", experiment_id=job.id, attempt=job.attempt)
                self._cards.begin()
                with self._life.patient(job.wall_seconds):
                    result = self._cards.judge(run_attempt(self._bench, job, on_sandbox))
                holder.detach()
                if result.status is not Status.INFRA or result.reason not in WAITED_FOR:
                    return result
                reason = result.detail
            log.warning("attempt_waits", experiment_id=job.id, reason=reason)
            self._say_waiting(reason)
            said = True
            if self._ends_within(pause, holder):
                return result
        return None  # never: the pauses have no end

    def _ends_within(self, seconds: float, holder: Holder) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if holder.ended is not None or self._stopping_now():
                return True
            time.sleep(0.1)
        return False

    def _stopping_now(self) -> bool:
        try:
            return self._stopping()
        except InfrastructureError:
            return False  # without Redis nobody can say so

    def _keep_and_deliver(self, message: LedgerMessage) -> None:
        """Where the disk refuses, memory has to do; the claim stands until the result is acked, so
        that a runner which dies before that is known to have lost it."""
        try:
            self._outbox.put(message)
        except InfrastructureError as error:
            log.error("result_held_in_memory", key=message.key, reason=str(error))
            if self._deliver(message):
                self._claim.clear()
            return
        reach(Step.RUNNER_OUTBOX)
        self._claim.clear()
        reach(Step.RUNNER_UNCLAIMED)
        self._deliver(message)

    def _stopping(self) -> bool:
        return self._life.should_stop() or self._lines.flags.is_stopping(self._lines.sid)

    def _deliver(self, message: LedgerMessage) -> bool:
        """Until it is acked. When this runner is told to end first, the file stays for the next,
        and the answer is False."""
        try:
            ack = self._lines.sender.send_until_acked(
                message,
                resend_seconds=self._lines.resend_seconds,
                stop=self._life.should_stop,
                deadline_seconds=None,
                on_wait=self._say_waiting,
            )
        except InfrastructureError as error:
            log.warning("result_waits_in_outbox", key=message.key, reason=str(error))
            return False
        reach(Step.RUNNER_ACKED)
        if ack.refused:
            self._outbox.refused(message, ack.reason or "")
        else:
            self._outbox.done(message)
        return True
