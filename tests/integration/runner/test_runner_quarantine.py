"""A runner whose device is not free takes no attempt, however it comes to know of it."""

from __future__ import annotations

from pathlib import Path
from threading import Timer
from unittest.mock import MagicMock

from prometheus_client import CollectorRegistry
from tests.unit.contracts.test_wire import _job

from overnight.contracts import wire
from overnight.contracts.execution import Stuck, Swept
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.lifeline import Lifeline
from overnight.runner.metrics import RunnerMetrics
from overnight.runner.service import Lines, Runner
from redis_server import RedisServer


def test_a_sandbox_met_on_the_device_keeps_the_job_from_being_leased(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    sid, connection, life = _job().sid, connect(redis_server.url), Lifeline()
    lines = Lines(
        sid=sid,
        sender=LedgerSender(connection, sid),
        leases=Leases(connection, sid),
        flags=Flags(connection),
        renew_seconds=5.0,
        resend_seconds=0.2,
    )
    bench = MagicMock(folder=tmp_path, runner="r0", device="cpu:0")
    bench.executor.reconcile.return_value = Swept(stuck=(Stuck({}, "pids 7 live", (7,)),))
    said: list[str | None] = []
    registry = CollectorRegistry()
    runner = Runner(bench, lines, RunnerMetrics(registry), life, said.append)
    Timer(0.3, life.ending.set).start()
    runner.handle(wire.encode(_job()))

    assert said == ["cpu:0 is quarantined: pids 7 live"]
    assert registry.get_sample_value("overnight_device_quarantined") == 1
    assert Leases(connection, sid).owner(1, 1) is None
    bench.executor.prepare.assert_not_called()
