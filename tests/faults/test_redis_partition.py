"""One service cut off from Redis while the others go on: exactly one result is accepted.

The form `long` of test_redis_faults.py runs the partition for 60 s with the clocks as shipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.faults.proxy import Proxy
from tests.faults.redis_stage import (
    SCALED,
    SOON_SECONDS,
    RedisStage,
    keep_for,
    made_session,
)

from overnight.contracts import wire
from overnight.contracts.status import Status
from overnight.orchestrator.jobs import own_result

FORM = os.environ.get("NOTHING_LOST_FORM")
LONG = FORM == "long"
OUTAGE_SECONDS = 2.0


@pytest.fixture
def session() -> Iterator[RedisStage]:
    """Not started; its clocks are scaled."""
    with made_session(dict(SCALED)) as made:
        yield made


@pytest.fixture
def as_shipped() -> Iterator[RedisStage]:
    """Not started; its clocks are scaled unless the form is `long`."""
    with made_session({} if LONG else dict(SCALED)) as made:
        yield made


@pytest.mark.timeout(120)
def test_each_service_alone_outlives_being_cut_off(session: RedisStage) -> None:
    with ExitStack() as stack:
        names = ("recorder", "orchestrator", "r0")
        ways = {name: stack.enter_context(Proxy(session.server.socket)) for name in names}
        session.start(0.3, {name: way.url for name, way in ways.items()})
        services = session.services()
        for name, way in ways.items():
            both = (way.cut, way.deafen)
            for fault in both if FORM else both[name == "orchestrator" :][:1]:
                began = time.monotonic()
                fault()
                keep_for(OUTAGE_SECONDS, began)
                decided = session.decided()
                way.fair()
                session.wait_for(lambda n=decided: session.decided() > n, name, SOON_SECONDS)
        assert session.services() == services, "a service was started again"
        session.drain()


@pytest.mark.timeout(900)
def test_of_two_answers_one_is_accepted_and_the_other_is_kept(as_shipped: RedisStage) -> None:
    session = as_shipped
    with Proxy(session.server.socket) as way:
        session.start(40.0 if LONG else 1.0, {"r0": way.url}, prefetch=0)
        cut_off = _cut_off_until_another_has_it(session, way)
        unheard = _lose_the_ack(session, way)
        session.drain(200)

    late, [accepted] = _superseded(session, cut_off)[0], _final(session, cut_off[0])
    assert (late["sender"], late["attempt"]) == ("r0", cut_off[1])
    assert (accepted["sender"], accepted["attempt"]) == ("r1", cut_off[1] + 1)
    assert late["status"] == "scored"
    assert late["metric"] == accepted["metric"], "it keeps its payload"
    assert [body["sender"] for body in _superseded(session, unheard)] == ["orchestrator"]
    assert [body["sender"] for body in _final(session, unheard[0])] == ["r0"]
    assert not _is_issued(session, unheard[0], unheard[1] + 1), "no second attempt was needed"


def _cut_off_until_another_has_it(session: RedisStage, way: Proxy) -> tuple[int, int]:
    """A's lease runs out and B has the next attempt; both finish, A's result arrives late."""
    session.wait_for(lambda: session.trains("r0"), "r0 trains", 200)
    began = time.monotonic()
    way.cut()
    fence = _attempt_of(session, "r0")
    again = (fence[0], fence[1] + 1)
    session.wait_for(lambda: _is_issued(session, *again), "issued again", 60)
    session.wait_for(lambda: _attempt_of(session, "r1") == again, "B has it", 120)
    keep_for(60.0 if LONG else OUTAGE_SECONDS, began)
    session.wait_for(lambda: not session.trains("r0"), "A's candidate ends meanwhile")
    way.fair()
    session.wait_for(lambda: _superseded(session, fence), "A's result arrives late", 60)
    session.wait_for(lambda: _final(session, fence[0]), "B's result is accepted", 250)
    return fence


def _lose_the_ack(session: RedisStage, way: Proxy) -> tuple[int, int]:
    """The other order: A's result comes first. That A is lost, said a moment later by an
    orchestrator which could not know, is superseded; A finds its ack when it hears again."""
    recorder = session.stage.service("recorder")
    assert recorder is not None
    session.wait_for(lambda: session.trains("r0"), "r0 trains", 200)
    fence = _attempt_of(session, "r0")
    recorder.kill(signal.SIGSTOP)
    key = f"result:{fence[0]}:{fence[1]}:r0"
    stream = f"overnight:{session.sid}:ledger.in"
    session.wait_for(lambda: _waits(session, stream, key), "A's result waits", 200)
    way.deafen()
    said = own_result(*fence, Status.INFRA, "lost")
    session.admin.xadd(stream, {"key": said.key, "message": wire.encode(said)})
    began = time.monotonic()
    recorder.kill(signal.SIGCONT)
    session.wait_for(lambda: _final(session, fence[0]), "A's result is accepted")
    keep_for(OUTAGE_SECONDS, began)
    outbox = session.stage.root / "runners" / "r0" / "outbox"
    assert [file.suffix for file in outbox.iterdir()] == [".json"], "A does not know it"
    way.fair()
    decided = session.decided()
    session.wait_for(lambda: not list(outbox.glob("*.json")), "A knows it", SOON_SECONDS)
    session.wait_for(lambda: session.decided() > decided, "it goes on", 200)
    return fence


def _attempt_of(session: RedisStage, slot: str) -> tuple[int, int]:
    claimed = session.stage.root / "runners" / slot / "claimed"
    with contextlib.suppress(FileNotFoundError):
        job = json.loads(claimed.read_text())
        return int(job["id"]), int(job["attempt"])
    return 0, 0


def _is_issued(session: RedisStage, id: int, attempt: int) -> bool:
    return (id, attempt) in {(b["id"], b["attempt"]) for b in session.bodies("attempt_issued")}


def _superseded(session: RedisStage, fence: tuple[int, int]) -> list[dict[str, object]]:
    return [b for b in session.bodies("superseded") if (b["id"], b["attempt"]) == fence]


def _final(session: RedisStage, id: int) -> list[dict[str, object]]:
    return [b for b in session.bodies("result") if b["id"] == id and b["status"] == "scored"]


def _waits(session: RedisStage, stream: str, key: str) -> bool:
    return any(fields[b"key"] == key.encode() for _, fields in session.admin.xrange(stream))
