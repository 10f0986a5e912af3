"""Jobs through a real Redis and a real worker: order, once only, bounded traces, latency."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from overnight.contracts.errors import InfrastructureError, WireError
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.rqjob import QUEUED_TTL_SECONDS
from overnight.jobqueue.worker import PoolWorker

SID = "0123456789ab"


def test_jobs_are_worked_off_in_the_order_of_pushing(
    redis_server, start_worker, make_job, wait_until
):
    jobs = Jobs(connect(redis_server.url))
    for id in (3, 1, 2):
        jobs.push("default", make_job(id))
    assert jobs.depth("default") == 3

    worker = start_worker()
    wait_until(lambda: len(worker.ids) == 3)

    assert worker.ids == [3, 1, 2]
    assert jobs.depth("default") == 0


def test_a_job_that_can_t_be_started_here_goes_to_another_worker_at_once(
    redis_server, start_worker, make_job, wait_until
):
    connection = connect(redis_server.url)
    jobs = Jobs(connection)
    asked, handled = [], []
    trouble = threading.Event()

    def may_start() -> bool:
        asked.append(True)
        trouble.set()
        return False

    stop = threading.Event()

    def should_stop() -> bool:
        """As a runner's: it waits here while its device is in trouble."""
        if trouble.is_set():
            stop.wait(20)
        return stop.is_set()

    broken = PoolWorker(
        connect(redis_server.url), "default", "slot-9", handled.append, should_stop,
        may_start=may_start,
    )  # fmt: skip
    thread = threading.Thread(target=broken.work)
    thread.start()
    for id in (1, 2):
        jobs.push("default", make_job(id))
    wait_until(lambda: asked)
    wait_until(lambda: jobs.depth("default") == 2)
    worker = start_worker()
    wait_until(lambda: len(worker.ids) == 2)
    stop.set()
    thread.join(20)

    assert worker.ids == [1, 2], "in their order, each once"
    assert (handled, len(asked)) == ([], 1)
    assert jobs.depth("default") == 0


def test_pushing_the_same_attempt_again_changes_nothing(
    redis_server, start_worker, make_job, wait_until
):
    jobs = Jobs(connect(redis_server.url))

    assert [jobs.push("default", make_job(1)) for _ in range(3)] == [True, False, False]
    assert jobs.push("default", make_job(1, attempt=2))
    assert jobs.queued("default") == {(SID, 1, 1), (SID, 1, 2)}

    worker = start_worker()
    wait_until(lambda: len(worker.ids) == 2)
    assert not jobs.push("default", make_job(1))
    time.sleep(0.1)
    assert worker.ids == [1, 1]


def test_an_attempt_that_a_worker_took_is_not_queued(
    redis_server, start_worker, make_job, wait_until
):
    """Only the list counts: rq's intermediate list keeps the ids of dead workers."""
    jobs = Jobs(connect(redis_server.url))
    jobs.push("default", make_job(1))
    jobs.push("default", make_job(2))
    with redis_server.client() as client:
        client.lmove("rq:queue:experiments.default", "rq:queue:experiments.default:intermediate")
        client.rpush("rq:queue:experiments.default", "no-id-of-ours", b"\xff\xfe")

    assert jobs.queued("default") == {(SID, 2, 1)}


def test_a_removed_attempt_never_runs(redis_server, start_worker, make_job, wait_until):
    jobs = Jobs(connect(redis_server.url))
    jobs.push("default", make_job(1))
    jobs.push("default", make_job(2))

    assert jobs.remove("default", SID, 1, 1)
    assert not jobs.remove("default", SID, 1, 1)

    worker = start_worker()
    wait_until(lambda: worker.ids == [2])


def test_pools_do_not_mix(redis_server, start_worker, make_job, wait_until):
    jobs = Jobs(connect(redis_server.url))
    jobs.push("gpu", make_job(1))
    jobs.push("default", make_job(2))

    worker = start_worker()
    wait_until(lambda: worker.ids == [2])

    assert jobs.queued("gpu") == {(SID, 1, 1)}


def test_everything_that_a_job_leaves_in_redis_expires(
    redis_server, start_worker, make_job, wait_until
):
    jobs = Jobs(connect(redis_server.url))
    client = redis_server.client()
    jobs.push("default", make_job(1))
    assert 0 < client.ttl(f"rq:job:{SID}-1-1") <= QUEUED_TTL_SECONDS
    seen: list[int] = []

    worker = start_worker(on_job=lambda _: seen.append(client.ttl(f"rq:job:{SID}-1-1")))
    wait_until(lambda: client.hget(f"rq:job:{SID}-1-1", "status") == b"finished")
    worker.stop()

    # While it runs: deadline 2 s + 600 s, and an hour for whoever looks after a dead runner.
    assert 600 < seen[0] <= 602 + 3600
    for_ever = {key for key in client.keys("*") if client.ttl(key) == -1}
    assert for_ever <= {b"rq:queues", b"rq:finished:experiments.default"}
    assert client.smembers("rq:queues") == {b"rq:queue:experiments.default"}


def test_a_worker_forgets_what_dead_ones_left(redis_server, start_worker, make_job, wait_until):
    client = redis_server.client()
    client.sadd("rq:workers", "rq:worker:dead")
    client.sadd("rq:workers:experiments.default", "rq:worker:dead")
    client.zadd("rq:wip:experiments.default", {f"{SID}-9-1:abc": 1})
    client.rpush("rq:queue:experiments.default:intermediate:slot-0", f"{SID}-9-1")
    # The same name still stands after a SIGKILL; rq itself refuses to start then.
    client.hset("rq:worker:slot-0", mapping={"birth": "2026-01-01T00:00:00Z"})

    worker = start_worker()
    Jobs(connect(redis_server.url)).push("default", make_job(1))
    wait_until(lambda: worker.ids == [1])

    assert client.smembers("rq:workers") == {b"rq:worker:slot-0"}
    assert client.smembers("rq:workers:experiments.default") == {b"rq:worker:slot-0"}
    wait_until(lambda: not client.exists("rq:wip:experiments.default"))
    assert not client.exists("rq:queue:experiments.default:intermediate:slot-0")
    worker.stop()
    assert not client.exists("rq:workers")


def test_a_job_reaches_an_idle_worker_at_once(redis_server, start_worker, make_job, wait_until):
    """A blocking take, not polling: the median is milliseconds, the block lasts 500."""
    jobs = Jobs(connect(redis_server.url))
    worker = start_worker()
    latencies = []
    for id in range(1, 31):
        time.sleep(0.01)
        pushed = time.perf_counter()
        jobs.push("default", make_job(id))
        wait_until(lambda count=id: len(worker.ids) == count)
        latencies.append(worker.times[-1] - pushed)

    latencies.sort()
    print(f"push to handler: median {latencies[15] * 1e3:.1f} ms, worst {latencies[-1] * 1e3:.1f}")
    assert latencies[15] < 0.1


def test_an_idle_worker_stops_within_a_second(redis_server, start_worker):
    worker = start_worker()
    time.sleep(0.2)

    assert worker.stop() < 1.0
    assert worker.died is None


def test_a_worker_runs_in_its_callers_thread_and_leaves_signals_alone(redis_server, make_job):
    """No fork, no helper thread, no SIGALRM: the caller's handlers and limits stay its own."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    seen: list[tuple[object, ...]] = []

    def look(payload: str) -> None:
        handlers = [signal.getsignal(number) for number in numbers]
        seen.append((os.getpid(), threading.current_thread(), threading.active_count(), handlers))

    here = (os.getpid(), threading.current_thread(), threading.active_count(), before)
    connection = connect(redis_server.url)
    Jobs(connection).push("default", make_job(1))
    PoolWorker(connection, "default", "slot-0", look, lambda: bool(seen)).work()

    assert seen == [here]
    assert [signal.getsignal(number) for number in numbers] == before
    assert threading.active_count() == here[2]


def test_an_error_of_ours_ends_the_job_and_a_bug_ends_the_worker(
    redis_server, start_worker, make_job, wait_until
):
    jobs = Jobs(connect(redis_server.url))

    def fail(job) -> None:
        if job.id == 1:
            raise InfrastructureError("disk full")
        if job.id == 2:
            raise WireError("another version")
        raise ZeroDivisionError("a bug")

    worker = start_worker(on_job=fail)
    for id in (1, 2, 3):
        jobs.push("default", make_job(id))
    worker.thread.join(10)

    assert worker.ids == [1, 2, 3]
    assert isinstance(worker.died, ZeroDivisionError)
    assert [parked.job for parked in jobs.parked()] == [f"{SID}-2-1"]
    assert redis_server.client().hget(f"rq:job:{SID}-3-1", "status") == b"failed"


def test_parked_jobs_are_bounded(redis_server):
    from overnight.jobqueue.jobs import PARKED_ENTRIES, Parked

    jobs = Jobs(connect(redis_server.url))
    for number in range(PARKED_ENTRIES + 5):
        jobs.park(Parked(job=str(number), pool="default", reason="r", payload=""))

    assert len(jobs.parked()) == PARKED_ENTRIES
    assert jobs.parked()[0].job == str(PARKED_ENTRIES + 4)
    assert redis_server.client().ttl(keys.PARKED) > 0


def test_a_job_longer_than_the_cap_is_refused_at_the_sender(redis_server, make_job):
    huge = make_job(1).model_copy(update={"env": {"A": "x" * 4 * 1024 * 1024}})
    jobs = Jobs(connect(redis_server.url))

    with pytest.raises(WireError, match="longer than"):
        jobs.push("default", huge)
    assert jobs.depth("default") == 0
