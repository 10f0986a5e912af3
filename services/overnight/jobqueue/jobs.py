"""The orchestrator's side of the pool queues: push an attempt, look what waits, take one back."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Literal

import redis
from redis.exceptions import WatchError

from overnight.contracts.errors import WireError
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.wire import MAX_MESSAGE_BYTES, Wire, decode, encode
from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, text_of
from overnight.jobqueue.keys import AttemptId
from overnight.jobqueue.rqjob import (
    FAILURE_TTL_SECONDS,
    FUNCTION,
    GRACE_SECONDS,
    LONGEST_TIMEOUT_SECONDS,
    QUEUED_TTL_SECONDS,
    RESULT_TTL_SECONDS,
    ExperimentRqJob,
    pool_queue,
)

PARKED_ENTRIES = 200  #: newest ones kept
PARKED_TTL_SECONDS = 7 * 24 * 3600
PARKED_PAYLOAD_CHARS = 32_000  #: more than honest jobs have


class Parked(Wire):
    """A poison job, set aside so that the others go on."""

    v: Literal[1] = 1
    job: str  #: its rq id, as it stood there
    pool: str
    reason: str
    payload: str  #: the start of it; never run, never imported
    at: str = ""  #: UTC label of the moment when it was set aside


class Jobs:
    """Queues are hints: whatever is lost here is issued again from the ledger."""

    def __init__(self, connection: redis.Redis) -> None:
        self._redis = connection

    def push(self, pool: str, job: ExperimentJob) -> bool:
        """Put one attempt at the end of *pool*'s queue; False when Redis knows it already.

        Raises:
            WireError: longer than a job may be.
            InfrastructureError: Redis did not take it, or may have: push the same again.
        """
        queue = pool_queue(self._redis, pool)
        job_id = keys.job_id(job.sid, job.id, job.attempt)
        timeout = min(math.ceil(job.longest_seconds) + GRACE_SECONDS, LONGEST_TIMEOUT_SECONDS)
        rq_job = queue.create_job(
            FUNCTION,
            args=(encode(job),),
            timeout=timeout,
            result_ttl=RESULT_TTL_SECONDS,
            failure_ttl=FAILURE_TTL_SECONDS,
            ttl=QUEUED_TTL_SECONDS,
            description=job_id,
            job_id=job_id,
        )
        if len(rq_job.data) > MAX_MESSAGE_BYTES:
            raise WireError(f"job {job_id} is longer than {MAX_MESSAGE_BYTES} bytes")
        with edge("pushing a job", queue.key), self._redis.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(rq_job.key)  # type: ignore[no-untyped-call]
                    if pipe.exists(rq_job.key):
                        return False
                    pipe.multi()
                    queue.enqueue_job(rq_job, pipeline=pipe)
                    pipe.execute()
                    return True
                except WatchError:
                    continue  # it, or something under its name, came in between: look again

    def queued(self, pool: str) -> set[AttemptId]:
        """The attempts that wait in *pool*'s list. What a worker has taken is not among them."""
        key = pool_queue(self._redis, pool).key
        with edge("reading a queue", key):
            raw = self._redis.lrange(key, 0, -1)
        found = (keys.parse_job_id(text_of(item)) for item in raw)
        return {attempt for attempt in found if attempt is not None}

    def depth(self, pool: str) -> int:
        """How many entries wait in *pool*'s list."""
        key = pool_queue(self._redis, pool).key
        with edge("reading a queue", key):
            return int(self._redis.llen(key))

    def remove(self, pool: str, sid: str, id: int, attempt: int) -> bool:
        """Take a waiting attempt out; False when it does not wait (a worker may have it)."""
        job_id = keys.job_id(sid, id, attempt)
        key = pool_queue(self._redis, pool).key
        with edge("removing a job", key):
            # The list entry first: whoever gets it out of the list owns the job.
            if not self._redis.lrem(key, 0, job_id):
                return False
            self._redis.delete(ExperimentRqJob.key_for(job_id))
        return True

    def park(self, poison: Parked) -> None:
        """Set a poison job aside. Only the newest few stay."""
        with edge("parking a job", keys.PARKED), self._redis.pipeline() as pipe:
            seconds, _ = self._redis.time()  # a label, by the clock that all who see it share
            at = datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
            pipe.lpush(keys.PARKED, encode(poison.model_copy(update={"at": at})))
            pipe.ltrim(keys.PARKED, 0, PARKED_ENTRIES - 1)
            pipe.expire(keys.PARKED, PARKED_TTL_SECONDS)
            pipe.execute()

    def parked(self) -> list[Parked]:
        """What was set aside, newest first. See `deadjobs` for entries that can't be read."""
        with edge("reading parked jobs", keys.PARKED):
            raw = self._redis.lrange(keys.PARKED, 0, PARKED_ENTRIES - 1)
        return [decode(Parked, text_of(item)) for item in raw]
