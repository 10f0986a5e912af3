"""A runner whose disk refuses: no attempt is used up, and no result is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from prometheus_client import CollectorRegistry
from tests.integration.runner.test_runner_recovers import Recorder, bench
from tests.unit.contracts.test_wire import _job
from tests.unit.ledger.history_of import SID

from overnight.contracts import wire
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.lifeline import Lifeline
from overnight.runner.attempt import WAITED_FOR, infra_result
from overnight.runner.checks import OnSandbox
from overnight.runner.metrics import RunnerMetrics
from overnight.runner.service import Lines, Runner
from overnight.runner.specs import Bench
from redis_server import RedisServer

__all__ = ["bench"]

JOB = _job().model_copy(update={"sid": SID})


class Waits(list[str | None]):
    """What the runner said that it waits for."""

    def __call__(self, why: str | None) -> None:
        self.append(why)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def runner(bench: Bench, redis_server: RedisServer, waits: Waits) -> Iterator[Runner]:
    connection = connect(redis_server.url)
    lines = Lines(
        sid=SID,
        sender=LedgerSender(connection, SID),
        leases=Leases(connection, SID),
        flags=Flags(connection),
        renew_seconds=5.0,
        resend_seconds=0.2,
    )
    yield Runner(bench, lines, RunnerMetrics(CollectorRegistry()), Lifeline(), waits)
    connection.close()


def _results(monkeypatch: pytest.MonkeyPatch, *results: ExperimentResult) -> list[int]:
    """Attempts end with these, one after the other; the times at which they were made."""
    left, made = list(results), []

    class NoSandbox:
        def kill(self) -> None:
            pass

    def run(bench: Bench, job: ExperimentJob, on_sandbox: OnSandbox) -> object:
        made.append(job.attempt)
        result = left.pop(0)
        if result.reason not in WAITED_FOR:
            on_sandbox(NoSandbox(), 1.0)  # type: ignore[arg-type]
        return result

    monkeypatch.setattr("overnight.runner.service.run_attempt", run)
    monkeypatch.setattr("overnight.runner.service.RETRY_SECONDS", (0.1,))
    return made


def _scored() -> ExperimentResult:
    plain = wire.dump(infra_result("r0", JOB, "lost", ""))
    return wire.build(ExperimentResult, {**plain, "status": "scored", "reason": None, "metric": 1})


@pytest.mark.parametrize("reason", sorted(WAITED_FOR))
def test_a_full_disk_or_an_engine_that_is_away_uses_up_no_attempt(
    runner: Runner,
    waits: Waits,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
) -> None:
    full = infra_result("r0", JOB, reason, "No space left on device")
    made = _results(monkeypatch, full, full, full, _scored())
    with Recorder(redis_server.url) as recorder:
        runner.handle(wire.encode(JOB))

    assert made == [1, 1, 1, 1]
    assert [m.body["status"] for m in recorder.seen] == ["scored"]
    assert waits == ["No space left on device"] * 3 + [None]


def test_a_claim_that_cant_be_written_is_waited_for(
    bench: Bench,
    runner: Runner,
    waits: Waits,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = _results(monkeypatch, _scored())
    bench.folder.mkdir(parents=True, exist_ok=True)
    (bench.folder / "claimed" / "in the way").mkdir(parents=True)

    def clear() -> None:
        while not waits:
            time.sleep(0.01)
        assert made == []
        shutil.rmtree(bench.folder / "claimed")

    clearing = Thread(target=clear)
    clearing.start()
    with Recorder(redis_server.url) as recorder:
        runner.handle(wire.encode(JOB))
    clearing.join()

    assert [m.body["status"] for m in recorder.seen] == ["scored"]
    assert waits[-1] is None
    assert not (bench.folder / "claimed").exists()


def test_a_result_that_finds_no_room_is_delivered_from_memory(
    bench: Bench,
    runner: Runner,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _results(monkeypatch, _scored())
    bench.folder.mkdir(parents=True, exist_ok=True)
    (bench.folder / "outbox").write_text("a file in the way of the folder")
    claims: list[bool] = []
    deliver = Runner._deliver

    def watched(self: Runner, message: object) -> bool:
        claims.append(Path(bench.folder / "claimed").exists())
        return deliver(self, message)  # type: ignore[arg-type]

    monkeypatch.setattr(Runner, "_deliver", watched)
    with Recorder(redis_server.url) as recorder:
        runner.handle(wire.encode(JOB))

    assert [m.body["status"] for m in recorder.seen] == ["scored"]
    assert claims == [True], "until it is acked, the claim says that it may be lost"
    assert not (bench.folder / "claimed").exists()
