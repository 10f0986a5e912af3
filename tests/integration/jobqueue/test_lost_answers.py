"""What was done but not answered, done twice, or written by somebody else: each job runs once."""

from __future__ import annotations

import threading
import time

import pytest
from tests.faults.proxy import Proxy

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerInbox, LedgerSender

SID = "0123456789ab"
QUEUE = "rq:queue:experiments.default"
TAKEN = f"{QUEUE}:intermediate:slot-0"


@pytest.mark.parametrize("then", ["silence", "the connection breaks"])
def test_a_job_whose_taking_was_not_answered_is_found_again(
    redis_server, start_worker, make_job, wait_until, then
):
    """The server moved it out of the queue; the worker that asked never heard of it."""
    jobs, client = Jobs(connect(redis_server.url)), redis_server.client()
    with Proxy(redis_server.socket) as way:
        worker = start_worker(url=f"{way.url}?socket_timeout=1")
        wait_until(lambda: client.exists("rq:worker:slot-0"))
        lost = 0
        while not client.llen(TAKEN):  # it must be asking at this very moment
            way.fair()
            wait_until(lambda count=lost: len(worker.ids) == count)
            time.sleep(0.1)
            way.deafen()
            lost += 1
            jobs.push("default", make_job(lost))
            time.sleep(0.1)
        assert jobs.queued("default") == set()
        if then != "silence":
            way.cut()
        way.fair()
        wait_until(lambda: worker.ids == list(range(1, lost + 1)))
        worker.stop()

    assert not client.exists(TAKEN)


def test_a_job_that_was_taken_by_a_worker_which_died_then_runs_at_once(
    redis_server, start_worker, make_job, wait_until
):
    client = redis_server.client()
    Jobs(connect(redis_server.url)).push("default", make_job(1))
    client.lmove(QUEUE, TAKEN)

    worker = start_worker()

    wait_until(lambda: worker.ids == [1])
    wait_until(lambda: not client.exists(TAKEN))


def test_the_same_job_twice_in_the_queue_runs_once(
    redis_server, start_worker, make_job, wait_until
):
    jobs, client = Jobs(connect(redis_server.url)), redis_server.client()
    jobs.push("default", make_job(1))
    client.rpush(QUEUE, f"{SID}-1-1")
    jobs.push("default", make_job(2))

    worker = start_worker()

    wait_until(lambda: 2 in worker.ids)
    assert worker.ids == [1, 2]


def test_of_two_workers_with_the_same_job_one_runs_it(
    redis_server, start_worker, make_job, wait_until
):
    ran: list[str] = []
    both = threading.Barrier(2)

    def work(name: str, id: int) -> None:
        both.wait(10)
        if Leases(connect(redis_server.url), SID).claim(id, 1, name):
            ran.append(name)

    for name in ("slot-0", "slot-1"):
        start_worker(name=name, on_job=lambda job, name=name: work(name, job.id))
    time.sleep(0.2)
    client = redis_server.client()
    Jobs(connect(redis_server.url)).push("default", make_job(1))
    client.rpush(QUEUE, f"{SID}-1-1")

    wait_until(lambda: both.n_waiting == 0 and len(ran) == 1)
    assert client.get(keys.lease(SID, 1, 1)).startswith(ran[0].encode())


def test_a_job_under_another_attempts_id_is_parked(
    redis_server, start_worker, make_job, wait_until
):
    jobs, client = Jobs(connect(redis_server.url)), redis_server.client()
    jobs.push("default", make_job(1))
    client.copy(f"rq:job:{SID}-1-1", f"rq:job:{SID}-2-1")
    client.lpush(QUEUE, f"{SID}-2-1")

    worker = start_worker()

    wait_until(lambda: worker.ids == [1])
    [parked] = jobs.parked()
    assert parked.job == f"{SID}-2-1"
    assert "another attempt" in parked.reason


@pytest.mark.parametrize("state", ["full", "read-only", "forbidden"])
def test_a_job_that_can_not_be_started_yet_is_kept_and_not_parked(
    redis_server, start_worker, make_job, wait_until, state
):
    """As long as the server, and not the job, is what stands in the way."""
    client = redis_server.client()
    on = {
        "full": ("CONFIG", "SET", "maxmemory", "1"),
        "read-only": ("REPLICAOF", "127.0.0.1", "1"),
        "forbidden": ("ACL", "SETUSER", "default", "-zadd"),
    }
    off = {
        "full": ("CONFIG", "SET", "maxmemory", "0"),
        "read-only": ("REPLICAOF", "NO", "ONE"),
        "forbidden": ("ACL", "SETUSER", "default", "+zadd"),
    }
    worker = start_worker()
    real_take = worker.worker._take

    def take_then_refuse():
        job = real_take()
        if job is not None and not worker.ids:
            client.execute_command(*on[state])
        return job

    worker.worker._take = take_then_refuse
    Jobs(connect(redis_server.url)).push("default", make_job(1))
    time.sleep(1.8)  # more tries than a job has that is itself at fault
    assert worker.ids == []
    client.execute_command(*off[state])

    wait_until(lambda: worker.ids == [1])
    assert Jobs(connect(redis_server.url)).parked() == []


def test_where_memory_is_full_an_entry_goes_even_without_its_answer(redis_server):
    """Else the recorder would read it for ever, and nothing made room."""
    client = redis_server.client()
    sender = LedgerSender(connect(redis_server.url), SID)
    inbox = LedgerInbox(connect(redis_server.url), SID)
    message = LedgerMessage(key="k", kind=RowKind.CONTROL, body={})
    sender.send(message)
    [entry] = inbox.read(10, 0.1)
    client.config_set("maxmemory", "1")

    with pytest.raises(InfrastructureError, match="maxmemory"):
        inbox.acknowledge(entry, "k", Ack(seq=1))
    assert client.xlen(keys.ledger_in(SID)) == 0

    client.config_set("maxmemory", "0")
    sender.send(message)  # it had no answer
    [entry] = inbox.read(10, 0.1)
    inbox.acknowledge(entry, "k", Ack(seq=1))
    assert sender.ack("k") == Ack(seq=1)


def test_what_stands_in_our_place_is_named_with_the_way_out(redis_server, make_job):
    client, connection = redis_server.client(), connect(redis_server.url)
    jobs, leases, flags = Jobs(connection), Leases(connection, SID), Flags(connection)
    message = LedgerMessage(key="k", kind=RowKind.CONTROL, body={})
    sender, inbox = LedgerSender(connection, SID), LedgerInbox(connection, SID)
    uses = {
        keys.ledger_in(SID): [lambda: sender.send(message), lambda: inbox.read(1, 0.01)],
        keys.ack(SID, "k"): [lambda: sender.ack("k")],
        keys.lease(SID, 1, 1): [
            lambda: leases.claim(1, 1, "a"),
            lambda: leases.renew(1, 1, "a"),
            lambda: leases.owner(1, 1),
        ],
        keys.mark(SID, "queue"): [lambda: flags.swap_mark(SID, "queue", "m", ttl_seconds=9)],
        keys.PARKED: [jobs.parked],
        QUEUE: [lambda: jobs.push("default", make_job(1)), lambda: jobs.queued("default")],
    }
    for key, calls in uses.items():
        client.hset(key, "not", "ours")
        for call in calls:
            with pytest.raises(InfrastructureError, match=f"delete {key}"):
                call()
        client.delete(key)
        for call in calls:
            call()
