"""A pool's worker: takes jobs one by one in the calling thread, and outlives Redis.

It does not decode jobs, enforce deadlines or report results: that is the handler's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import redis
import structlog
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError, ResponseError
from rq.exceptions import NoSuchJobError

from overnight.contracts.errors import InfrastructureError, OvernightError, WireError
from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, is_wrong_type, text_of
from overnight.jobqueue.jobs import PARKED_PAYLOAD_CHARS, Jobs, Parked
from overnight.jobqueue.rqjob import ExperimentRqJob, pool_queue
from overnight.jobqueue.rqworker import RqWorker

log = structlog.get_logger()

BLOCK_SECONDS = 0.5  #: longest wait for a job before `should_stop` is asked again
ANNOUNCE_SECONDS = 15.0
TIDY_SECONDS = 300.0
BOOKKEEPING_TRIES = 5  #: of a job that rq can't start although Redis answers


class PoolWorker:
    """Calls *handler* with each payload of *pool* until *should_stop*.

    may_start: asked when a job was taken; on False it goes back. `should_stop` is where to wait.

    The caller owns all signals. It should answer them with a flag that `should_stop` reads:
    an exception raised by a signal handler may land inside rq, which swallows it.
    """

    def __init__(
        self,
        connection: redis.Redis,
        pool: str,
        name: str,
        handler: Callable[[str], None],
        should_stop: Callable[[], bool],
        on_wait: Callable[[str | None], None] = lambda why: None,
        *,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self._redis = connection
        self._pool = pool
        self._queue = pool_queue(connection, pool)
        self._rq = RqWorker(self._queue, name)
        self._jobs = Jobs(connection)
        self._handler = handler
        self._should_stop = should_stop
        self._on_wait = on_wait
        self._may_start = may_start
        self._held: ExperimentRqJob | None = None  # taken, but not yet given to the handler
        self._held_failures = 0
        self._announce_at = self._tidy_at = 0.0
        self._log = log.bind(pool=pool, worker=name)

    def work(self) -> None:
        """Take jobs until `should_stop`, asked at least once a second when idle.

        A Redis that is down, restarts or forgets all is waited for. A handler's WireError parks
        the job, any other OvernightError is logged; both end this job only.

        Raises:
            Exception: what the handler raised, when it is none of ours: a bug must be seen.
        """
        backoff = ExponentialBackoff(cap=1.0, base=0.05)
        failures = 0
        self._announce_at = 0.0
        while not self._should_stop():
            try:
                with edge("working off a queue"):
                    self._step()
            except InfrastructureError as error:
                failures += 1
                if failures == 1:
                    self._log.warning("worker_waits_for_redis", error=str(error))
                else:
                    self._on_wait(str(error))
                self._announce_at = 0.0
                time.sleep(backoff.compute(failures))
            else:
                if failures:
                    self._log.info("worker_goes_on", failures=failures)
                    self._on_wait(None)
                failures = 0
        self._leave()

    def _step(self) -> None:
        if time.monotonic() >= self._announce_at:
            self._rq.announce()
            self._announce_at = time.monotonic() + ANNOUNCE_SECONDS
        if time.monotonic() >= self._tidy_at:
            self._rq.tidy()
            self._tidy_at = time.monotonic() + TIDY_SECONDS
        if self._held is None:
            self._held = self._take()
            self._held_failures = 0
        if self._held is not None and not self._may_start():
            self._give_back(self._held)
        elif self._held is not None:
            self._run(self._held)

    def _take(self) -> ExperimentRqJob | None:
        """The next job of ours, waiting up to BLOCK_SECONDS; anything else is set aside."""
        raw = self._next_id()
        if raw is None:
            return None
        job_id = text_of(raw)
        try:
            if keys.parse_job_id(job_id) is None:
                raise WireError("the id is not <sid>-<id>-<attempt>")
            job = ExperimentRqJob(job_id, self._redis)
            job.refresh()  # type: ignore[no-untyped-call]
        except NoSuchJobError:
            self._log.info("job_gone", job=job_id)
            self._rq.let_go(raw)
            return None
        except WireError as error:
            self._refuse(raw, str(error))
            return None
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._refuse(raw, "its key holds no hash")
            return None
        if job.finished:
            self._log.info("job_done_already", job=job_id)
            self._rq.let_go(raw)
            return None
        job.origin = self._queue.name
        return job

    def _next_id(self) -> bytes | str | None:
        # Always: redis-py asks again by itself where a connection breaks, and tells nobody.
        left = self._rq.left()
        if left is not None:
            self._log.info("job_taken_before", job=text_of(left)[:100])
            return left
        source, taken = self._queue.key, self._queue.intermediate_queue_key
        with edge("taking a job", source):
            raw: bytes | str | None = self._redis.blmove(source, taken, BLOCK_SECONDS)  # type: ignore[arg-type]
        return raw

    def _run(self, job: ExperimentRqJob) -> None:
        job.handler = self._handler
        self._rq.swallowed = None
        try:
            with edge("starting or ending a job"):
                self._rq.execute_job(job, self._queue)
            problem: InfrastructureError | None = None
        except InfrastructureError as error:
            problem = error
        self._announce_at = 0.0  # the registration may have vanished meanwhile
        if not job.ran:
            self._hold(job, problem)
            return
        self._held = None
        if problem is not None:
            # The handler has delivered by its own way; rq's note of it does not matter.
            self._log.info("job_not_noted", job=job.id, error=str(problem))
        self._judge(job)

    def _give_back(self, job: ExperimentRqJob) -> None:
        """To the queue's head, for another worker: this one can't start it, and knew too late."""
        taken = self._queue.intermediate_queue_key
        with edge("giving a job back", taken):
            self._redis.blmove(taken, self._queue.key, 0.01, "LEFT", "LEFT")  # type: ignore[arg-type]
        self._log.info("job_given_back", job=job.id)
        self._held = None

    def _hold(self, job: ExperimentRqJob, problem: InfrastructureError | None) -> None:
        """rq failed before the handler was called: keep the job, it is nowhere else any more."""
        cause = self._rq.swallowed or (problem.__cause__ if problem is not None else None)
        if not isinstance(cause, RedisError) or is_wrong_type(cause):
            # Not the server's state, which is waited for: something lies in this job's way.
            self._held_failures += 1
            if self._held_failures >= BOOKKEEPING_TRIES:
                self._park(job.id, f"rq can't start it: {cause}", job.payload)
                self._rq.let_go(job.id)
                self._held = None
                return
        raise problem or InfrastructureError(f"redis, starting a job: {cause}")

    def _judge(self, job: ExperimentRqJob) -> None:
        error = job.error
        if error is None:
            return
        if isinstance(error, WireError):
            self._park(job.id, str(error), job.payload)
        elif isinstance(error, OvernightError):
            self._log.warning("job_failed", job=job.id, error=str(error))
        else:
            raise error

    def _refuse(self, raw: bytes | str, reason: str) -> None:
        """Set aside what is no job of ours, and remove it, so that nobody meets it again."""
        job_id = text_of(raw)
        self._park(job_id, reason, "")
        self._redis.delete(ExperimentRqJob.key_for(job_id))
        self._rq.let_go(raw)

    def _park(self, job_id: str, reason: str, payload: str) -> None:
        self._log.error("job_parked", job=job_id[:100], reason=reason[:500])
        self._jobs.park(
            Parked(
                job=job_id[:100],
                pool=self._pool,
                reason=reason[:500],
                payload=payload[:PARKED_PAYLOAD_CHARS],
            )
        )

    def _leave(self) -> None:
        try:
            with edge("signing off"):
                self._rq.sign_off()
        except InfrastructureError as error:
            self._log.info("worker_left_silently", error=str(error))
