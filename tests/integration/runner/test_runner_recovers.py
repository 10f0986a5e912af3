"""What a runner does first after its predecessor was killed: nothing that was done is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from prometheus_client import CollectorRegistry
from tests.golden.make import golden
from tests.unit.contracts.test_wire import _job
from tests.unit.ledger.history_of import SID

from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerInbox, LedgerSender
from overnight.ledger.files import SessionFiles
from overnight.lifeline import Lifeline
from overnight.plugins import EXECUTORS, load
from overnight.runner.durable import ClaimFile, Outbox
from overnight.runner.metrics import RunnerMetrics
from overnight.runner.service import Lines, Runner
from overnight.runner.specs import Bench
from redis_server import RedisServer


class Recorder:
    """Acks everything but what it is told to refuse; keeps what it saw."""

    def __init__(self, url: str, refused: tuple[str, ...] = ()) -> None:
        self._inbox = LedgerInbox(connect(url), SID)
        self._refused = refused
        self._over = Event()
        self.seen: list[LedgerMessage] = []
        self._thread = Thread(target=self._work)

    def _work(self) -> None:
        while not self._over.is_set():
            for entry in self._inbox.read(8, 0.05):
                assert entry.message is not None
                self.seen.append(entry.message)
                refused = entry.message.key in self._refused
                ack = Ack(refused=True, reason="no") if refused else Ack(seq=len(self.seen))
                self._inbox.acknowledge(entry, entry.message.key, ack)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "runners" / "r0").mkdir(parents=True)  # as the slot's lock does
    return Bench(
        files=SessionFiles(tmp_path),
        folder=tmp_path / "runners" / "r0",
        executor=load(EXECUTORS, "process")({}),
        runner="r0",
        hardware="test",
        environ={},
    )


@pytest.fixture
def runner(bench: Bench, redis_server: RedisServer) -> Iterator[Runner]:
    connection = connect(redis_server.url)
    lines = Lines(
        sid=SID,
        sender=LedgerSender(connection, SID),
        leases=Leases(connection, SID),
        flags=Flags(connection),
        renew_seconds=5.0,
        resend_seconds=0.2,
    )
    yield Runner(bench, lines, RunnerMetrics(CollectorRegistry()), Lifeline())
    connection.close()


def _message(number: int) -> LedgerMessage:
    return LedgerMessage(key=f"result:{number}:1:r0", kind=RowKind.RESULT, body={"n": number})


def test_the_outbox_is_emptied_before_anything_else(
    bench: Bench, runner: Runner, redis_server: RedisServer
) -> None:
    outbox = Outbox(bench.folder / "outbox")
    outbox.put(_message(1))
    outbox.put(_message(2))
    with Recorder(redis_server.url, refused=("result:2:1:r0",)) as recorder:
        runner.recover()

    assert {m.key for m in recorder.seen} == {"result:1:1:r0", "result:2:1:r0"}
    assert list(outbox.waiting()) == []
    assert [p.name for p in (outbox.folder / "refused").glob("*.json")] == ["result_2_1_r0.json"]


def test_what_a_runner_of_another_version_left_stops_nobody(
    bench: Bench, runner: Runner, redis_server: RedisServer
) -> None:
    """Its result is kept aside with the reason, its claim too; the rest is delivered."""
    outbox = Outbox(bench.folder / "outbox")
    outbox.put(_message(1))
    left = golden("message", 1)
    (outbox.folder / "result_7_2_r0.json").write_text(left)
    (bench.folder / "claimed").write_text(golden("job", -1))
    with Recorder(redis_server.url) as recorder:
        runner.recover()

    assert [m.key for m in recorder.seen] == ["result:1:1:r0"]
    aside = outbox.folder / "refused" / "result_7_2_r0.json"
    assert aside.read_text() == left
    assert "written by a newer version of Overnight" in aside.with_suffix(".why").read_text()
    assert not (bench.folder / "claimed").exists()


def test_a_claimed_attempt_is_reported_lost_at_once(
    bench: Bench, runner: Runner, redis_server: RedisServer
) -> None:
    ClaimFile(bench.folder / "claimed").write(_job())
    with Recorder(redis_server.url) as recorder:
        runner.recover()

    (message,) = recorder.seen
    assert message.key == "result:1:1:r0"
    assert (message.body["status"], message.body["reason"]) == ("infra", "lost")
    assert not (bench.folder / "claimed").exists()


def test_a_result_that_was_already_written_wins_over_lost(
    bench: Bench, runner: Runner, redis_server: RedisServer
) -> None:
    """Killed between the outbox and the claim: what ran is not run again."""
    ClaimFile(bench.folder / "claimed").write(_job())
    Outbox(bench.folder / "outbox").put(_message(1))
    with Recorder(redis_server.url) as recorder:
        runner.recover()

    assert [m.body for m in recorder.seen] == [{"n": 1}]
