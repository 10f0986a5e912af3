"""rq's SimpleWorker with its hands tied: no fork, signals, alarm, pub/sub, INFO or own loop."""

from __future__ import annotations

import logging
from typing import Any

import redis
import structlog
from rq import worker_registration
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty
from rq.utils import now
from rq.worker import SimpleWorker

from overnight.jobqueue.rqjob import ExperimentQueue, ExperimentRqJob

log = structlog.get_logger()

TAKEN_TTL_SECONDS = 24 * 3600  #: what a worker took and never started, when it never comes back
WORKER_TTL_SECONDS = 60  #: a dead worker's registration is gone after this


class _NoAlarm(BaseDeathPenalty):
    """In place of rq's SIGALRM, which works in the main thread alone.

    An exception thrown into the middle of a runner would leave its sandbox behind. Deadlines
    are the executor's, and a lost lease is the orchestrator's.
    """

    def setup_death_penalty(self) -> None:
        pass

    def cancel_death_penalty(self) -> None:
        pass


class _ToStructlog(logging.Handler):
    """What rq warns of becomes an event of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("rq_warned", text=record.getMessage()[:500])


def _private_logger() -> logging.Logger:
    # Not from the registry of loggers: rq's output must not depend on who configured what.
    logger = logging.Logger("rq", level=logging.WARNING)
    logger.addHandler(_ToStructlog())
    return logger


class RqWorker(SimpleWorker):
    """rq's bookkeeping around one job: states, registries, TTLs. The loop is PoolWorker's."""

    queue_class: type[Queue] = ExperimentQueue
    job_class = ExperimentRqJob
    death_penalty_class: type[BaseDeathPenalty] = _NoAlarm
    log_job_description = False
    log_result_lifespan = False

    def __init__(self, queue: ExperimentQueue, name: str) -> None:
        super().__init__(
            [queue],
            name=name,
            connection=queue.connection,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL_SECONDS,
            log_job_description=False,
        )
        self.log = _private_logger()
        self._queue = queue
        self.swallowed: BaseException | None = None  #: what rq met and told nobody, of this job
        queue.worker = name

    def announce(self) -> None:
        """Stand in rq's list of workers for another minute, whatever stood there before.

        rq's own way refuses a name that still stands, as it does after a SIGKILL.
        """
        self.last_heartbeat = now()
        self.birth_date = self.birth_date or self.last_heartbeat
        with self.connection.pipeline() as pipe:
            pipe.hdel(self.key, "death")
            pipe.hset(self.key, mapping=self.serialize())
            worker_registration.register(self, pipe)
            pipe.expire(self.key, WORKER_TTL_SECONDS)
            pipe.expire(self._queue.intermediate_queue_key, TAKEN_TTL_SECONDS)
            pipe.execute()

    def tidy(self) -> None:
        """Drop what dead workers left: registrations and expired notes."""
        queue, connection = self._queue, self.connection
        worker_registration.clean_worker_registry(queue)
        now_seconds = connection.time()[0]  # our own clock may jump
        for registry in (
            queue.started_job_registry,
            queue.finished_job_registry,
            queue.failed_job_registry,
        ):
            # rq's clean-up would run callbacks and retries; expiry is all that we want.
            connection.zremrangebyscore(registry.key, 0, now_seconds)

    def left(self) -> bytes | str | None:
        """An id that this worker, or its predecessor, took and neither started nor let go."""
        raw: bytes | str | None = self.connection.lindex(self._queue.intermediate_queue_key, 0)
        return raw

    def prepare_job_execution(self, job: Job, remove_from_intermediate_queue: bool = False) -> None:
        """As rq does, but with the list of taken ids that is our own."""
        super().prepare_job_execution(job, remove_from_intermediate_queue=False)
        self.let_go(job.id)

    def let_go(self, taken: bytes | str) -> None:
        """Drop an id, as it stood in the queue, from the list of taken ones."""
        self.connection.lrem(self._queue.intermediate_queue_key, 0, taken)  # type: ignore[arg-type]

    def sign_off(self) -> None:
        """Stand in rq's list no more."""
        self.register_death()  # type: ignore[no-untyped-call]

    def handle_exception(self, job: Any, *exc_info: Any) -> None:
        """PoolWorker says what went wrong, once."""
        self.swallowed = exc_info[1] if len(exc_info) > 1 else None

    def procline(self, message: str) -> None:
        """The process's title is not ours to change."""

    def _set_connection(self, connection: redis.Redis) -> redis.Redis:
        return connection  # rq would change the time limits of a client that others use too

    def _set_ip_address(self, connection: redis.Redis) -> None:
        self.ip_address = "unknown"  # CLIENT LIST is @dangerous in an ACL
