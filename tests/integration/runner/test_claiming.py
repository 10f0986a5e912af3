"""A job that was taken is not dropped while Redis does not answer: dropped, it counts as lost."""

from __future__ import annotations

from threading import Event, Thread
from unittest.mock import MagicMock

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.contracts.test_wire import _job

from overnight.contracts.errors import InfrastructureError
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.lifeline import Lifeline
from overnight.runner.metrics import RunnerMetrics
from overnight.runner.service import Lines, Runner
from redis_server import RedisServer


def _runner(server: RedisServer, life: Lifeline, folder: object) -> Runner:
    sid, connection = _job().sid, connect(server.url)
    lines = Lines(
        sid=sid,
        sender=LedgerSender(connection, sid),
        leases=Leases(connection, sid),
        flags=Flags(connection),
        renew_seconds=5.0,
        resend_seconds=0.2,
    )
    bench = MagicMock(folder=folder, runner="r0")
    return Runner(bench, lines, RunnerMetrics(CollectorRegistry()), life)


def test_it_is_claimed_when_redis_is_back(redis_server, tmp_path) -> None:
    runner, claimed = _runner(redis_server, Lifeline(), tmp_path), Event()
    redis_server.kill()
    thread = Thread(target=lambda: runner._lease(_job()) and claimed.set())
    thread.start()
    assert not claimed.wait(1.5)
    redis_server.start()

    assert claimed.wait(10)
    thread.join()
    assert Leases(connect(redis_server.url), _job().sid).owner(1, 1) == "r0"


def test_a_runner_that_is_told_to_end_does_not_wait_for_it(redis_server, tmp_path) -> None:
    life = Lifeline()
    life.ending.set()
    redis_server.kill()

    with pytest.raises(InfrastructureError):
        _runner(redis_server, life, tmp_path)._lease(_job())
