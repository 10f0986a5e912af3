"""The orchestrator's queue over Redis. Only a hint: what is lost comes again from the ledger."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from overnight.contracts.experiment import ExperimentJob
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases
from overnight.orchestrator.planning import Fence
from overnight.orchestrator.ports import Look

MARK = "queue"
MARK_SECONDS = 7 * 86400.0


class RedisQueue:
    """One session's attempts in one pool. As QueuePort."""

    def __init__(self, jobs: Jobs, leases: Leases, flags: Flags, sid: str, pool: str) -> None:
        self._jobs = jobs
        self._leases = leases
        self._flags = flags
        self._sid = sid
        self._pool = pool
        self._mark: str | None = None  #: what the last look left in Redis

    def push(self, job: ExperimentJob) -> None:
        """Queue one attempt; nothing happens when Redis knows it already."""
        self._jobs.push(self._pool, job)

    def remove(self, fence: Fence) -> None:
        """Take an attempt out of the queue, if it is there."""
        self._jobs.remove(self._pool, self._sid, *fence)

    def look(self, fences: Iterable[Fence]) -> Look:
        """Where the given attempts are."""
        intact = self._is_intact()
        wanted = set(fences)
        if not wanted:
            return Look(frozenset(), frozenset(), intact)
        queued = {(i, a) for sid, i, a in self._jobs.queued(self._pool) if sid == self._sid}
        leased = {f for f in wanted - queued if self._leases.owner(*f) is not None}
        return Look(frozenset(queued & wanted), frozenset(leased), intact)

    def _is_intact(self) -> bool:
        """Does Redis still know all since the last look? A new mark each time, so that one which
        came back from an older copy of its memory (a log, a replica) shows too.
        """
        last, mark = self._mark, secrets.token_hex(8)
        self._mark = None
        found = self._flags.swap_mark(self._sid, MARK, mark, ttl_seconds=MARK_SECONDS)
        self._mark = mark
        return last is not None and found == last

    def stopping(self, on: bool) -> None:
        """Set or cleared with every look: it expires by itself, and only the ledger counts."""
        if on:
            self._flags.set_stop(self._sid)
        else:
            self._flags.clear_stop(self._sid)
