"""Holding an attempt: the thread that renews its lease and ends its sandbox when it must."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from threading import Event, Lock, Thread

import structlog

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.execution import Sandbox
from overnight.contracts.experiment import ExperimentJob
from overnight.faultpoints import Step, reach
from overnight.jobqueue.lease import Leases, Renewal

log = structlog.get_logger()

LOOK_SECONDS = 0.25  #: how soon a stop is noticed
SLOWEST_LOOK_SECONDS = 1.0  #: while Redis is away


class Ended(StrEnum):
    """Why the holder ended the sandbox."""

    LEASE_LOST = "lease_lost"  #: another runner has the attempt: drop everything
    STOPPED = "stopped"  #: the session or this runner is ending: the result is `cancelled`


class Holder:
    """Use as a context manager around run and delivery of one attempt."""

    def __init__(
        self,
        leases: Leases,
        job: ExperimentJob,
        runner: str,
        *,
        renew_seconds: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._leases = leases
        self._job = job
        self._runner = runner
        self._renew_seconds = renew_seconds
        self._stopping = stopping
        self._lock = Lock()
        self._sandbox: Sandbox | None = None
        self._over = Event()
        self._thread = Thread(target=self._watch, name="lease", daemon=True)
        self.ended: Ended | None = None

    def __enter__(self) -> Holder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def attach(self, sandbox: Sandbox) -> None:
        """From now on *sandbox* is what gets killed."""
        with self._lock:
            self._sandbox = sandbox
            if self.ended is not None:
                sandbox.kill()

    def detach(self) -> None:
        """The sandbox is over: a stop changes nothing any more."""
        with self._lock:
            self._sandbox = None

    def _watch(self) -> None:
        renewed_at = time.monotonic()
        pause, failures = LOOK_SECONDS, 0
        while not self._over.wait(pause):
            try:
                if self._stopping():
                    self._end(Ended.STOPPED)
                now = time.monotonic()
                if failures or now - renewed_at >= self._renew_seconds:
                    self._renew()
                    renewed_at = now
            except InfrastructureError as error:
                # The candidate runs on. Where only we are cut off, its attempt may be issued again
                # meanwhile; then the recorder accepts one result and keeps the other beside it.
                if failures == 0:
                    log.warning("lease_unreachable", reason=str(error))
                failures += 1
                pause = min(2 * pause, SLOWEST_LOOK_SECONDS)
            else:
                if failures:
                    log.info("lease_reached_again", failures=failures)
                pause, failures = LOOK_SECONDS, 0

    def _renew(self) -> None:
        reach(Step.RUNNER_RENEW)
        found = self._leases.renew(self._job.id, self._job.attempt, self._runner)
        if found is not Renewal.HELD:
            log.warning("lease_lost", experiment_id=self._job.id, attempt=self._job.attempt)
            self._end(Ended.LEASE_LOST)

    def _end(self, why: Ended) -> None:
        with self._lock:
            if self.ended is None and (self._sandbox is not None or why is Ended.LEASE_LOST):
                self.ended = why
            if self._sandbox is not None:
                self._sandbox.kill()
