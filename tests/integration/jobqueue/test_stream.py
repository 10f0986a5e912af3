"""The way to the ledger, over a real Redis: acked once, re-sent when lost, bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from overnight.contracts.errors import InfrastructureError, WireError
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind
from overnight.contracts.wire import encode
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.stream import ACK_TTL_SECONDS, STREAM_ENTRIES, LedgerInbox, LedgerSender
from redis_server import RedisServer

SID = "0123456789ab"
STREAM = keys.ledger_in(SID)


def message(key: str = "control:1", why: str = "") -> LedgerMessage:
    body = {"action": "pause", "by": "tester", "why": why}
    return LedgerMessage(key=key, kind=RowKind.CONTROL, body=body)


def never() -> bool:
    return False


class Recorder:
    """A recorder in a thread: one seq a key, the same key again the same ack. Outlives Redis."""

    def __init__(self, server: RedisServer) -> None:
        self.seqs: dict[str, int] = {}
        self.entries = 0
        self._inbox = LedgerInbox(connect(server.url), SID)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(15)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for entry in self._inbox.read(10, 0.1):
                    self.entries += 1
                    seq = self.seqs.setdefault(entry.key or "", len(self.seqs) + 1)
                    self._inbox.acknowledge(entry, entry.key, Ack(seq=seq))
            except InfrastructureError:
                time.sleep(0.02)


@pytest.fixture
def recorder(redis_server) -> Iterator[Recorder]:
    recorder = Recorder(redis_server)
    yield recorder
    recorder.stop()


@pytest.fixture
def sender(redis_server) -> LedgerSender:
    return LedgerSender(connect(redis_server.url), SID)


@pytest.fixture
def inbox(redis_server) -> LedgerInbox:
    return LedgerInbox(connect(redis_server.url), SID)


def send_in_thread(sender: LedgerSender, resend_seconds: float = 0.1):
    """Starts send_until_acked; the list holds its ack or error once the thread ended."""
    got: list[Ack | BaseException] = []

    def run() -> None:
        try:
            got.append(
                sender.send_until_acked(
                    message(), resend_seconds=resend_seconds, stop=never, deadline_seconds=20
                )
            )
        except InfrastructureError as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, got


def test_a_message_arrives_whole_and_its_ack_comes_back(redis_server, sender, inbox):
    sent = message(why='quotes " and snow ☃ and a line\nbreak')
    sender.send(sent)
    [entry] = inbox.read(10, 0)
    assert (entry.message, entry.key, entry.problem) == (sent, sent.key, None)
    assert sender.ack(sent.key) is None

    inbox.acknowledge(entry, entry.key, Ack(refused=True, reason="no such experiment"))

    assert sender.ack(sent.key) == Ack(refused=True, reason="no such experiment")
    assert inbox.read(10, 0) == []
    assert 0 < redis_server.client().ttl(keys.ack(SID, sent.key)) <= ACK_TTL_SECONDS


def test_what_was_read_but_not_acknowledged_is_read_again(sender, inbox):
    """A recorder that dies between reading and appending loses nothing."""
    for number in range(5):
        sender.send(message(f"control:{number}"))

    first = inbox.read(3, 0)
    assert [entry.key for entry in first] == ["control:0", "control:1", "control:2"]
    assert inbox.read(3, 0) == first

    inbox.acknowledge(first[1], first[1].key, Ack(seq=1))
    assert [entry.key for entry in inbox.read(9, 0)] == [
        "control:0", "control:2", "control:3", "control:4",
    ]  # fmt: skip


def test_reading_waits_for_the_first_message_and_no_longer(sender, inbox):
    timer = threading.Timer(0.2, sender.send, [message()])
    started = time.monotonic()
    timer.start()
    assert [entry.key for entry in inbox.read(10, 30.0)] == ["control:1"]
    assert time.monotonic() - started < 10.0
    timer.join()


def test_reading_an_empty_stream_gives_up_after_its_wait(inbox):
    started = time.monotonic()
    assert inbox.read(10, 0.2) == []
    assert 0.15 < time.monotonic() - started < 10.0


def test_what_can_not_be_read_is_handed_over_for_refusal(redis_server, sender, inbox):
    text = encode(message("control:9"))
    client = redis_server.client()
    for fields in (
        {"key": "k:1", "message": '{"key":"k:1","kind":"hope","body":{}}'},
        {"key": "k:2", "message": b"\x80\x04pickle"},
        {"key": "k:3"},
        {"key": "k:4", "message": text},  # another key than it says inside
        {"key": "bad key\n", "message": "{"},
        {"message": text},
        {"key": "k:5", "message": "[" * 5000},
    ):
        client.xadd(STREAM, fields)
    sender.send(message())

    entries = inbox.read(100, 0)

    assert [entry.key for entry in entries[:-1]] == ["k:1", "k:2", "k:3", "k:4", None, None, "k:5"]
    assert all(entry.problem and entry.message is None for entry in entries[:-1])
    assert entries[-1].message == message()
    for entry in entries:
        inbox.acknowledge(entry, entry.key, Ack(refused=True, reason=entry.problem))
    assert sender.ack("k:1") is not None
    assert client.xlen(STREAM) == 0


def test_an_unreadable_ack_is_no_ack(redis_server, sender):
    redis_server.client().set(keys.ack(SID, "control:1"), b"\xff{")

    assert sender.ack("control:1") is None


def test_a_message_over_the_cap_is_refused_at_the_sender(redis_server, sender):
    huge = message().model_copy(update={"body": {"x": "y" * 4 * 1024 * 1024}})

    with pytest.raises(WireError, match="control:1"):
        sender.send(huge)
    with pytest.raises(WireError, match="control:1"):
        sender.send_until_acked(huge, stop=never, deadline_seconds=1)
    assert redis_server.client().xlen(STREAM) == 0


def test_a_sender_gets_its_ack_in_milliseconds(sender, recorder):
    waits = []
    for number in range(30):
        started = time.perf_counter()
        ack = sender.send_until_acked(message(f"c:{number}"), stop=never, deadline_seconds=5)
        waits.append(time.perf_counter() - started)
        assert ack == Ack(seq=number + 1)

    waits.sort()
    print(f"send to ack: median {waits[15] * 1e3:.1f} ms, worst {waits[-1] * 1e3:.1f} ms")
    assert waits[15] < 0.1


def test_sending_the_same_key_again_gives_the_same_ack(sender, recorder):
    first = sender.send_until_acked(message(), stop=never, deadline_seconds=5)
    sender.send(message())

    assert sender.send_until_acked(message(), stop=never, deadline_seconds=5) == first
    assert recorder.seqs == {"control:1": 1}


def test_a_message_that_still_waits_is_not_sent_twice(redis_server, sender):
    """A recorder that is down for a night must not find a stream full of copies."""
    with pytest.raises(InfrastructureError, match=r"did not ack control:1 within 0\.5 s"):
        sender.send_until_acked(message(), resend_seconds=0.05, stop=never, deadline_seconds=0.5)

    assert redis_server.client().xlen(STREAM) == 1


def test_the_stream_is_bounded(redis_server, sender):
    with redis_server.client() as client, client.pipeline() as pipe:
        for number in range(2 * STREAM_ENTRIES):
            pipe.xadd(STREAM, {"key": f"k:{number}", "message": "x"})
        pipe.execute()
    sender.send(message())

    assert redis_server.client().xlen(STREAM) < 1.1 * STREAM_ENTRIES


def test_stop_ends_the_wait(sender):
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="stopped before"):
        sender.send_until_acked(
            message(), stop=lambda: time.monotonic() > started + 0.2, deadline_seconds=None
        )
    assert time.monotonic() - started < 10.0


def test_a_deadline_holds_while_redis_is_away(redis_server, sender):
    redis_server.kill()
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="did not ack"):
        sender.send_until_acked(message(), stop=never, deadline_seconds=0.5)
    assert time.monotonic() - started < 10.0


def test_a_flush_while_a_sender_waits_loses_nothing(redis_server, sender, wait_until):
    thread, got = send_in_thread(sender)
    client = redis_server.client()
    wait_until(lambda: client.xlen(STREAM) == 1)
    redis_server.flush()

    recorder = Recorder(redis_server)
    thread.join(10)
    recorder.stop()

    assert got == [Ack(seq=1)]


def test_a_flush_after_the_row_gives_the_same_ack_again(redis_server, sender, recorder):
    first = sender.send_until_acked(message(), stop=never, deadline_seconds=5)
    redis_server.flush()

    assert sender.send_until_acked(message(), stop=never, deadline_seconds=5) == first
    assert recorder.entries >= 2


def test_redis_killed_and_back_empty_while_a_sender_waits(redis_server, sender, wait_until):
    thread, got = send_in_thread(sender)
    client = redis_server.client()
    wait_until(lambda: client.xlen(STREAM) == 1)
    redis_server.restart(down_seconds=1.0)
    assert not got

    recorder = Recorder(redis_server)
    thread.join(15)
    recorder.stop()

    assert got == [Ack(seq=1)]
    assert recorder.seqs == {"control:1": 1}


def test_a_sender_may_start_before_redis(redis_server, sender):
    redis_server.kill()
    thread, got = send_in_thread(sender)
    time.sleep(0.3)
    redis_server.start()
    recorder = Recorder(redis_server)
    thread.join(15)
    recorder.stop()

    assert got == [Ack(seq=1)]


def test_who_waits_is_told_why_once_and_when_it_is_over(redis_server, sender, wait_until):
    told: list[str | None] = []
    redis_server.kill()

    def send() -> None:
        sender.send_until_acked(
            message(), resend_seconds=0.1, stop=never, deadline_seconds=20, on_wait=told.append
        )

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(lambda: bool(told))
    redis_server.start()
    recorder = Recorder(redis_server)
    try:
        thread.join(20)
    finally:
        recorder.stop()

    assert not thread.is_alive()
    assert len(told) == 2
    assert told[0]
    assert told[1] is None
