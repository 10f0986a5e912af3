"""Signs over a real Redis: they stand for one session, for a while."""

from __future__ import annotations

import time

import pytest

from overnight.contracts.errors import InfrastructureError
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags

SID, OTHER = "0123456789ab", "ba9876543210"


@pytest.fixture
def flags(redis_server) -> Flags:
    return Flags(connect(redis_server.url))


def test_a_stop_flag_stands_for_its_session_alone_until_cleared(flags):
    flags.set_stop(SID)
    assert flags.is_stopping(SID)
    assert not flags.is_stopping(OTHER)

    flags.clear_stop(SID)
    assert not flags.is_stopping(SID)


def test_a_stop_flag_falls_unless_it_is_set_again(flags):
    flags.set_stop(SID, ttl_seconds=0.3)
    time.sleep(0.2)
    flags.set_stop(SID, ttl_seconds=0.3)
    time.sleep(0.2)
    assert flags.is_stopping(SID)

    time.sleep(0.2)
    assert not flags.is_stopping(SID)


def test_readiness_is_said_by_each_service(flags):
    flags.mark_ready(SID, "recorder")

    assert flags.is_ready(SID, "recorder")
    assert not flags.is_ready(SID, "orchestrator")
    assert not flags.is_ready(OTHER, "recorder")


def test_only_living_runners_are_listed(redis_server, flags):
    flags.beat(SID, "slot-1", 60)
    flags.beat(SID, "slot-0", 60)
    flags.beat(SID, "dead", 0.05)
    flags.beat(OTHER, "elsewhere", 60)
    time.sleep(0.1)

    assert flags.runners(SID) == ["slot-0", "slot-1"]
    assert redis_server.client().scard(f"overnight:{SID}:runners") == 2


def test_a_flush_takes_all_signs_and_the_next_beat_brings_them_back(redis_server, flags):
    flags.beat(SID, "slot-0", 60)
    redis_server.flush()
    assert flags.runners(SID) == []

    flags.beat(SID, "slot-0", 60)
    assert flags.runners(SID) == ["slot-0"]


def test_every_sign_expires(redis_server, flags):
    flags.set_stop(SID)
    flags.mark_ready(SID, "recorder")
    flags.beat(SID, "slot-0", 60)
    client = redis_server.client()

    assert all(client.ttl(key) > 0 for key in client.keys("*"))


def test_without_redis_every_call_is_our_error(redis_server, flags):
    redis_server.kill()
    for call in (flags.set_stop, flags.clear_stop, flags.is_stopping, flags.runners):
        with pytest.raises(InfrastructureError):
            call(SID)
