"""A worker whose Redis is flushed, killed, cut off or not yet there lives on."""

from __future__ import annotations

import threading
import time

import pytest

from overnight.contracts.errors import InfrastructureError
from overnight.jobqueue.connection import connect
from overnight.jobqueue.jobs import Jobs
from redis_server import RedisServer

SID = "0123456789ab"


def test_an_idle_worker_outlives_a_flush(redis_server, start_worker, make_job, wait_until):
    worker = start_worker()
    client = redis_server.client()
    wait_until(lambda: client.exists("rq:worker:slot-0"))
    redis_server.flush()

    Jobs(connect(redis_server.url)).push("default", make_job(1))
    wait_until(lambda: worker.ids == [1])
    # It stands in rq's list again, with an end.
    wait_until(lambda: client.sismember("rq:workers", "rq:worker:slot-0"))
    assert client.ttl("rq:worker:slot-0") > 0


def test_an_idle_worker_outlives_a_killed_redis(redis_server, start_worker, make_job, wait_until):
    worker = start_worker()
    time.sleep(0.1)
    redis_server.restart(down_seconds=1.5)

    restarted = time.monotonic()
    Jobs(connect(redis_server.url)).push("default", make_job(1))
    wait_until(lambda: worker.ids == [1])
    assert time.monotonic() - restarted < 15.0
    assert worker.thread.is_alive()


def test_an_idle_worker_outlives_cut_connections(redis_server, start_worker, make_job, wait_until):
    worker = start_worker()
    jobs = Jobs(connect(redis_server.url))
    for id in range(1, 6):
        time.sleep(0.05)
        assert redis_server.drop_connections() >= 1
        jobs.push("default", make_job(id))
        wait_until(lambda count=id: len(worker.ids) == count)

    assert worker.ids == [1, 2, 3, 4, 5]


def test_a_worker_may_start_before_redis(redis_server, start_worker, make_job, wait_until):
    redis_server.kill()
    worker = start_worker()
    time.sleep(0.3)
    redis_server.start()

    Jobs(connect(redis_server.url)).push("default", make_job(1))
    wait_until(lambda: worker.ids == [1])


def test_a_worker_stops_while_redis_is_away(redis_server, start_worker):
    worker = start_worker()
    time.sleep(0.2)
    redis_server.kill()
    time.sleep(0.5)

    assert worker.stop() < 4.0
    assert worker.died is None


def test_a_worker_outlives_a_killed_redis_while_it_is_in_a_job(
    redis_server, start_worker, make_job, wait_until
):
    """The job runs to its end, once; rq's own notes of it are lost, the worker is not."""
    in_job, go_on = threading.Event(), threading.Event()

    def work(job) -> None:
        if job.id == 1:
            in_job.set()
            assert go_on.wait(10)

    worker = start_worker(on_job=work)
    jobs = Jobs(connect(redis_server.url))
    jobs.push("default", make_job(1))
    assert in_job.wait(10)
    redis_server.restart()
    go_on.set()

    jobs.push("default", make_job(2))
    wait_until(lambda: worker.ids == [1, 2])
    client = redis_server.client()
    wait_until(lambda: client.hget(f"rq:job:{SID}-2-1", "status") == b"finished")
    assert all(client.ttl(key) > 0 for key in client.keys("rq:job:*"))


def test_a_job_that_ends_while_redis_is_away_ends_once(
    redis_server, start_worker, make_job, wait_until
):
    in_job, go_on = threading.Event(), threading.Event()

    def work(job) -> None:
        if job.id == 1:
            in_job.set()
            assert go_on.wait(10)

    worker = start_worker(on_job=work)
    Jobs(connect(redis_server.url)).push("default", make_job(1))
    assert in_job.wait(10)
    redis_server.kill()
    go_on.set()
    time.sleep(1.0)
    redis_server.start()

    Jobs(connect(redis_server.url)).push("default", make_job(2))
    wait_until(lambda: worker.ids == [1, 2])


def test_a_full_or_read_only_redis_is_waited_for(redis_server, start_worker, make_job, wait_until):
    jobs = Jobs(connect(redis_server.url))
    worker = start_worker()
    client = redis_server.client()
    client.config_set("maxmemory", "1")
    with pytest.raises(InfrastructureError, match="memory"):
        jobs.push("default", make_job(1))
    time.sleep(0.7)  # longer than the worker blocks: it has met the refusal too
    client.config_set("maxmemory", "0")
    jobs.push("default", make_job(1))
    wait_until(lambda: worker.ids == [1])

    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(InfrastructureError):
        jobs.push("default", make_job(2))
    time.sleep(0.7)
    client.execute_command("REPLICAOF", "NO", "ONE")
    jobs.push("default", make_job(2))
    wait_until(lambda: worker.ids == [1, 2])


def test_a_job_taken_just_before_redis_died_still_runs(start_worker, make_job, wait_until):
    """Between taking and starting a job, it is nowhere but in the worker's hands."""
    with RedisServer() as server:
        worker = start_worker(url=server.url)
        real_take = worker.worker._take

        def take_then_lose_redis():
            job = real_take()
            if job is not None and not worker.ids:
                server.kill()
            return job

        worker.worker._take = take_then_lose_redis
        Jobs(connect(server.url)).push("default", make_job(1))
        wait_until(lambda: server.process is None)
        time.sleep(0.8)
        server.start()
        wait_until(lambda: worker.ids == [1])
        worker.stop()


def test_a_flush_between_push_and_take_loses_only_the_hint(
    redis_server, start_worker, make_job, wait_until
):
    """Pushing the same attempt again, as the orchestrator may, works after a flush."""
    jobs = Jobs(connect(redis_server.url))
    jobs.push("default", make_job(1))
    redis_server.flush()
    assert jobs.queued("default") == set()
    assert jobs.push("default", make_job(1))

    worker = start_worker()
    wait_until(lambda: worker.ids == [1])


def test_a_redis_with_a_log_keeps_queued_jobs_over_a_kill(start_worker, make_job, wait_until):
    with RedisServer(persist=True) as server:
        Jobs(connect(server.url)).push("default", make_job(1))
        server.restart()

        worker = start_worker(url=server.url)
        wait_until(lambda: worker.ids == [1])
        worker.stop()
