"""Leases over a real Redis: one owner at a time, whatever is lost in between."""

from __future__ import annotations

import threading
import time

import pytest
from redis.client import Pipeline

from overnight.contracts.errors import InfrastructureError
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.lease import Leases, Renewal

SID = "0123456789ab"


@pytest.fixture
def leases(redis_server) -> Leases:
    return Leases(connect(redis_server.url), SID)


def test_an_attempt_has_one_owner(leases):
    assert leases.claim(1, 1, "a")
    assert not leases.claim(1, 1, "b")
    assert leases.claim(1, 1, "a")  # the answer to the first try may have been lost
    assert leases.claim(1, 2, "b")
    assert leases.owner(1, 1) == "a"
    assert leases.owner(2, 1) is None


def test_a_lease_ends_by_itself_and_lives_on_by_renewal(redis_server):
    leases = Leases(connect(redis_server.url), SID, ttl_seconds=0.3)
    leases.claim(1, 1, "a")
    leases.claim(2, 1, "a")
    for _ in range(6):
        time.sleep(0.1)
        assert leases.renew(1, 1, "a") is Renewal.HELD

    assert leases.owner(1, 1) == "a"
    assert leases.owner(2, 1) is None
    assert leases.claim(2, 1, "b")


def test_the_term_is_fifteen_seconds(redis_server, leases):
    leases.claim(1, 1, "a")
    client = redis_server.client()
    key = keys.lease(SID, 1, 1)
    assert 14_000 < client.pttl(key) <= 15_000

    client.pexpire(key, 100)
    leases.renew(1, 1, "a")
    assert 14_000 < client.pttl(key) <= 15_000


def test_a_flushed_lease_is_taken_again(redis_server, leases):
    leases.claim(1, 1, "a")
    redis_server.flush()

    assert leases.renew(1, 1, "a") is Renewal.HELD
    assert leases.owner(1, 1) == "a"
    assert redis_server.client().pttl(keys.lease(SID, 1, 1)) > 14_000


def test_a_foreign_owner_ends_a_lease(redis_server, leases):
    leases.claim(1, 1, "a")
    redis_server.flush()
    leases.claim(1, 1, "b")

    assert leases.renew(1, 1, "a") is Renewal.FOREIGN
    assert leases.owner(1, 1) == "b"


def test_only_its_owner_releases_a_lease(leases):
    leases.claim(1, 1, "a")

    assert not leases.release(1, 1, "b")
    assert leases.owner(1, 1) == "a"
    assert leases.release(1, 1, "a")
    assert not leases.release(1, 1, "a")
    assert leases.owner(1, 1) is None


@pytest.mark.parametrize(("ours_stood", "found"), [(True, Renewal.FOREIGN), (False, Renewal.LOST)])
def test_a_lease_taken_under_our_hands_is_not_overwritten(
    redis_server, leases, monkeypatch, ours_stood, found
):
    """Another takes it between our look and our write: WATCH must see that."""
    client = redis_server.client()
    key = keys.lease(SID, 1, 1)
    if ours_stood:
        leases.claim(1, 1, "a")
    real_multi = Pipeline.multi

    def multi_after_another_took_it(pipe: Pipeline) -> None:
        monkeypatch.undo()
        client.set(key, "b", px=15_000)
        real_multi(pipe)

    monkeypatch.setattr(Pipeline, "multi", multi_after_another_took_it)

    assert leases.renew(1, 1, "a") is found
    assert leases.owner(1, 1) == "b"


def test_a_release_never_takes_another_runners_lease_away(redis_server, leases, monkeypatch):
    client = redis_server.client()
    leases.claim(1, 1, "a")
    real_multi = Pipeline.multi

    def multi_after_another_took_it(pipe: Pipeline) -> None:
        monkeypatch.undo()
        client.set(keys.lease(SID, 1, 1), "b", px=15_000)
        real_multi(pipe)

    monkeypatch.setattr(Pipeline, "multi", multi_after_another_took_it)

    assert not leases.release(1, 1, "a")
    assert leases.owner(1, 1) == "b"


def test_many_claimers_at_once_share_nothing(redis_server):
    won: dict[str, list[int]] = {f"r{number}": [] for number in range(8)}
    barrier = threading.Barrier(8)

    def claim(name: str) -> None:
        mine = Leases(connect(redis_server.url), SID)
        barrier.wait()
        won[name] = [id for id in range(1, 101) if mine.claim(id, 1, name)]

    threads = [threading.Thread(target=claim, args=(name,)) for name in won]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(id for ids in won.values() for id in ids) == list(range(1, 101))


def test_after_a_flush_many_renewals_leave_one_owner(redis_server):
    """All of them believe that they own it; the first SET NX wins, and nobody overwrites it."""
    names = [f"r{number}" for number in range(8)]
    for round in range(10):
        barrier = threading.Barrier(len(names))
        found: dict[str, Renewal] = {}

        def renew(
            name: str, id: int, barrier: threading.Barrier, found: dict[str, Renewal]
        ) -> None:
            mine = Leases(connect(redis_server.url), SID)
            mine.owner(id, 1)  # connected before the start
            barrier.wait()
            found[name] = mine.renew(id, 1, name)

        threads = [
            threading.Thread(target=renew, args=(name, round + 1, barrier, found)) for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        holders = [name for name, renewal in found.items() if renewal is Renewal.HELD]
        assert holders == [Leases(connect(redis_server.url), SID).owner(round + 1, 1)]


def test_without_redis_every_call_is_our_error(redis_server, leases):
    redis_server.kill()
    for call in (leases.claim, leases.renew, leases.release):
        with pytest.raises(InfrastructureError):
            call(1, 1, "a")
    with pytest.raises(InfrastructureError):
        leases.owner(1, 1)


def test_a_lease_never_outlives_its_term_whatever_the_servers_clock_did(redis_server):
    """It expires by the server's wall clock: one that jumped back an hour adds that hour."""
    client, key = redis_server.client(), keys.lease(SID, 1, 1)
    runners = Leases(connect(redis_server.url), SID, ttl_seconds=3.0)
    orchestrators = Leases(connect(redis_server.url), SID)  # need not know the runner's term
    runners.claim(1, 1, "a")
    client.pexpire(key, 3_603_000)
    assert orchestrators.owner(1, 1) == "a"
    assert 0 < client.pttl(key) <= 3_000

    client.persist(key)
    assert orchestrators.owner(1, 1) == "a"
    assert 0 < client.pttl(key) <= 3_000

    client.pexpire(key, 500)
    assert orchestrators.owner(1, 1) == "a"
    assert client.pttl(key) <= 500, "it gives nobody more time"
    assert runners.renew(1, 1, "a") is Renewal.HELD
    assert client.pttl(key) > 2_000


def test_a_lease_that_says_no_term_and_never_ends_is_cut_down_too(redis_server):
    """Nobody of ours writes one, but the session would wait for its owner for ever."""
    client, key = redis_server.client(), keys.lease(SID, 1, 1)
    client.set(key, "somebody")
    leases = Leases(connect(redis_server.url), SID, ttl_seconds=3.0)
    assert leases.owner(1, 1) == "somebody"
    assert 0 < client.pttl(key) <= 3_000
