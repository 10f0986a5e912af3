"""A session of any length leaves Redis as small as it was: all that grows has an end."""

from __future__ import annotations

from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import ACK_TTL_SECONDS, LedgerInbox, LedgerSender

SID = "0123456789ab"
LONGEST_SECONDS = 7 * 24 * 3600


def _sizes(client) -> dict[bytes, int]:
    """How much each key without an end holds."""
    count = {b"set": "scard", b"zset": "zcard", b"list": "llen", b"stream": "xlen"}
    return {
        key: getattr(client, count[client.type(key)])(key)
        for key in client.keys("*")
        if client.ttl(key) == -1
    }


def test_many_experiments_leave_nothing_that_stays(
    redis_server, start_worker, make_job, wait_until
):
    client, connection = redis_server.client(), connect(redis_server.url)
    jobs, leases, flags = Jobs(connection), Leases(connection, SID), Flags(connection)
    sender, inbox = LedgerSender(connection, SID), LedgerInbox(connection, SID)

    def work(job) -> None:
        leases.claim(job.id, 1, "slot-0")
        key = f"result:{job.id}:1:slot-0"
        sender.send(LedgerMessage(key=key, kind=RowKind.RESULT, body={}))
        for entry in inbox.read(10, 0.1):
            inbox.acknowledge(entry, entry.key, Ack(seq=job.id))
        if job.id % 2:  # half of the runners die before they give it back
            leases.release(job.id, 1, "slot-0")

    worker = start_worker(on_job=work)
    sizes = []
    for first in (1, 51, 101):
        for id in range(first, first + 50):
            jobs.push("default", make_job(id))
            flags.beat(SID, "slot-0", 10)
            flags.swap_mark(SID, "queue", str(id), ttl_seconds=LONGEST_SECONDS)
        wait_until(lambda last=first + 49: client.hget(f"rq:job:{SID}-{last}-1", "status") ==
                   b"finished", 30)  # fmt: skip
        ends = [client.ttl(key) for key in client.keys("*")]
        assert max(ends) <= LONGEST_SECONDS
        # Time passes: what has an end is gone, and rq's notes of jobs have run out.
        for key in client.keys("*"):
            if client.ttl(key) >= 0:
                client.delete(key)
        for key in client.keys("rq:finished:*"):
            client.zadd(key, dict.fromkeys(client.zrange(key, 0, -1), 1))
        worker.worker._tidy_at = 0.0
        wait_until(lambda: not client.exists("rq:finished:experiments.default"))
        sizes.append({k: n for k, n in _sizes(client).items() if not k.startswith(b"rq:worker")})
    worker.stop()

    assert worker.ids == list(range(1, 151))
    assert sizes == [{b"rq:queues": 1}] * 3


def test_a_message_that_waits_is_not_sent_twice(redis_server):
    """However long the recorder is stopped and its sender asks."""
    client = redis_server.client()
    sender = LedgerSender(connect(redis_server.url), SID)
    message = LedgerMessage(key="k", kind=RowKind.CONTROL, body={})
    for _ in range(50):
        sender.send(message)
    assert client.xlen(keys.ledger_in(SID)) == 1

    client.flushall()
    sender.send(message)
    assert client.xlen(keys.ledger_in(SID)) == 1
    sender.send(message.model_copy(update={"key": "l"}))
    assert client.xlen(keys.ledger_in(SID)) == 2


def test_an_ack_lasts_minutes(redis_server):
    """Who missed it sends again, and is given the same."""
    connection = connect(redis_server.url)
    sender, inbox = LedgerSender(connection, SID), LedgerInbox(connection, SID)
    sender.send(LedgerMessage(key="k", kind=RowKind.CONTROL, body={}))
    [entry] = inbox.read(1, 0.1)
    inbox.acknowledge(entry, "k", Ack(seq=1))

    assert 0 < redis_server.client().ttl(keys.ack(SID, "k")) <= ACK_TTL_SECONDS <= 900
