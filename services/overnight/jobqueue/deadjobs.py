"""Jobs that were parked: look at them, take one out, push one again. Nothing in them is trusted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import redis

from overnight.contracts.errors import WireError
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.wire import decode
from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, text_of
from overnight.jobqueue.jobs import PARKED_ENTRIES, Jobs, Parked
from overnight.jobqueue.rqjob import ExperimentRqJob

UNREADABLE = Parked(job="", pool="", reason="", payload="")


@dataclass(frozen=True)
class DeadJob:
    """One entry of the list of parked jobs."""

    ref: str  #: names it for a person, as long as it stands there
    parked: Parked  #: with an empty `job` where the entry itself can't be read
    raw: bytes | str  #: as it stands there

    @property
    def attempt(self) -> keys.AttemptId | None:
        """Which attempt it asked for, when its id says so."""
        return keys.parse_job_id(self.parked.job)

    def job(self) -> ExperimentJob:
        """What it asks for. Raises WireError when this release can't read it (yet)."""
        return decode(ExperimentJob, self.parked.payload)


class DeadJobs:
    """The parked jobs of one session. Those of other sessions on the same Redis are not seen."""

    def __init__(self, connection: redis.Redis, sid: str) -> None:
        self._redis = connection
        self._sid = sid
        self._jobs = Jobs(connection)

    def all(self) -> list[DeadJob]:
        """Newest first. What may be anybody's is shown to everybody.

        Raises:
            InfrastructureError: Redis did not answer.
        """
        with edge("reading parked jobs", keys.PARKED):
            raw = self._redis.lrange(keys.PARKED, 0, PARKED_ENTRIES - 1)
        found = {item: _entry(item) for item in raw}  # the same twice is one
        return [e for e in found.values() if e.attempt is None or e.attempt.sid == self._sid]

    def drop(self, entry: DeadJob) -> bool:
        """Forget it; False when it was not there any more."""
        with edge("dropping a parked job", keys.PARKED):
            return bool(self._redis.lrem(keys.PARKED, 0, entry.raw))  # type: ignore[arg-type]

    def push(self, entry: DeadJob, job: ExperimentJob) -> None:
        """Queue *job*, which is what *entry* asks for, and forget the entry. Twice is once.

        Raises:
            WireError: longer than a job may be.
            InfrastructureError: Redis did not take it, or may have: do it again.
        """
        waiting = keys.AttemptId(job.sid, job.id, job.attempt)
        if waiting not in self._jobs.queued(entry.parked.pool):
            name = ExperimentRqJob.key_for(keys.job_id(*waiting))
            with edge("pushing a parked job", name):
                self._redis.delete(name)  # rq's note that it failed, under the same id
            self._jobs.push(entry.parked.pool, job)
        self.drop(entry)


def _entry(raw: bytes | str) -> DeadJob:
    data = raw if isinstance(raw, bytes) else raw.encode()
    ref = f"job-{hashlib.sha256(data).hexdigest()[:8]}"
    try:
        return DeadJob(ref, decode(Parked, text_of(raw)), raw)
    except WireError as error:
        return DeadJob(ref, UNREADABLE.model_copy(update={"reason": str(error)}), raw)
