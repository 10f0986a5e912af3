"""The world of the protocol's state machine with a real Redis and rq where the fake ones stood."""

from __future__ import annotations

from collections.abc import Iterable

from tests.unit.ledger.history_of import SID
from tests.unit.orchestrator.world import LEASE_SECONDS, Runner, World

from overnight.contracts import wire
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerInbox, LedgerSender
from overnight.jobqueue.worker import PoolWorker
from overnight.orchestrator.planning import Fence
from overnight.orchestrator.ports import Look
from overnight.orchestrator.redis_ports import RedisQueue
from redis_server import RedisServer

POOL = "default"


class RedisWorld(World):
    """Time stays logical: a lease that has run out by it is deleted, as Redis would have."""

    def __init__(self, server: RedisServer, **asked: int) -> None:
        self.server = server
        server.flush()
        self.connection = connect(server.url)
        self.jobs = Jobs(self.connection)
        self.real_leases = Leases(self.connection, SID, ttl_seconds=3600.0)
        self.sender = LedgerSender(self.connection, SID)
        self.inbox = LedgerInbox(self.connection, SID)
        flags = Flags(self.connection)
        self.real_queue = RedisQueue(self.jobs, self.real_leases, flags, SID, POOL)
        super().__init__(**asked)

    def close(self) -> None:
        """Let go of Redis."""
        self.connection.close()

    # -- ports ------------------------------------------------------------------------------

    def send(self, message: LedgerMessage) -> None:
        """LedgerPort."""
        self.sender.send(message)

    def ack(self, key: str) -> Ack | None:
        """LedgerPort."""
        return self.sender.ack(key)

    def push(self, job: ExperimentJob) -> None:
        """QueuePort."""
        self.real_queue.push(job)

    def remove(self, fence: Fence) -> None:
        """QueuePort."""
        self.real_queue.remove(fence)

    def look(self, fences: Iterable[Fence]) -> Look:
        """QueuePort."""
        return self.real_queue.look(fences)

    def stopping(self, on: bool) -> None:
        """QueuePort."""
        self.real_queue.stopping(on)

    # -- steps ------------------------------------------------------------------------------

    def step_recorder(self, crash_after: str | None = None) -> None:
        """Handle one entry; may die after the append or after the ack."""
        for entry in self.inbox.read(1, 0.0):
            assert entry.message is not None, entry.problem
            ack = self.recorder.handle(entry.message)
            if crash_after == "append":
                return self.crash_recorder()
            self.inbox.acknowledge(entry, entry.message.key, ack)
            if ack.seq is not None:
                self.acked_ever[entry.message.key] = ack.seq
            if crash_after == "ack":
                return self.crash_recorder()
        return None

    def take(self, runner: Runner) -> None:
        """One job through rq's own worker, if one waits."""
        if not self.jobs.depth(POOL):
            return
        done: list[str] = []

        def handle(payload: str) -> None:
            done.append(payload)
            job = wire.decode(ExperimentJob, payload)
            if self.real_leases.claim(job.id, job.attempt, runner.name):
                self.leases[(job.id, job.attempt)] = (runner.name, self.now + LEASE_SECONDS)
                runner.job = runner.claimed = job

        stop = iter([False])
        worker = PoolWorker(
            self.connection, POOL, f"{SID}-{runner.name}", handle, lambda: next(stop, True)
        )
        worker.work()

    def release(self, fence: Fence) -> None:
        """Its runner gives it back."""
        held = self.leases.pop(fence, None)
        if held is not None:
            self.real_leases.release(*fence, held[0])

    def owner(self, fence: Fence) -> str | None:
        """Who holds an unexpired lease, by Redis."""
        return self.real_leases.owner(*fence)

    def renew(self) -> None:
        """First what has run out goes, as in Redis; then what each lease thread does."""
        for fence, (name, until) in list(self.leases.items()):
            if until <= self.now:
                self.release(fence)
                assert self.owner(fence) != name
        for runner in self.runners:
            busy = runner.job is not None or bool(runner.outbox)
            if runner.frozen or runner.claimed is None or not busy:
                continue
            fence = (runner.claimed.id, runner.claimed.attempt)
            if self.real_leases.renew(*fence, runner.name).value == "held":
                self.leases[fence] = (runner.name, self.now + LEASE_SECONDS)
            else:
                runner.job = runner.claimed = None

    # -- faults -----------------------------------------------------------------------------

    def flush(self) -> None:
        """FLUSHALL."""
        self.server.flush()
        self.leases = {}

    def kill_redis(self) -> None:
        """SIGKILL and a fresh start without anything."""
        self.server.restart()
        self.leases = {}

    def meddle_with_stream(self, at: int, what: str) -> None:
        """Drop, double or overtake one waiting message."""
        stream = keys.ledger_in(SID)
        entries = self.connection.xrange(stream)
        if not entries:
            return
        entry, fields = entries[at % len(entries)]
        if what in ("drop", "overtake"):
            self.connection.xdel(stream, entry)
        if what in ("double", "overtake"):
            self.connection.xadd(stream, fields)

    def meddle_with_queue(self, at: int, double: bool) -> None:
        """Drop or double one waiting job."""
        name = f"rq:queue:{keys.queue_name(POOL)}"
        ids = self.connection.lrange(name, 0, -1)
        if not ids:
            return
        chosen = ids[at % len(ids)]
        if double:
            self.connection.rpush(name, chosen)
        else:
            self.connection.lrem(name, 1, chosen)
