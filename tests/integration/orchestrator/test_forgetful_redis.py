"""What Redis forgets, all at once, again and again or by its clock, costs no attempt."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.integration.orchestrator.redis_world import POOL, RedisWorld
from tests.unit.ledger.history_of import SID

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.status import RowKind
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases
from overnight.orchestrator.redis_ports import MARK, RedisQueue
from redis_server import RedisServer


@pytest.fixture
def queue(redis_server: RedisServer) -> RedisQueue:
    connection = connect(redis_server.url)
    return RedisQueue(Jobs(connection), Leases(connection, SID), Flags(connection), SID, POOL)


def _expire_all_leases(world: RedisWorld) -> None:
    """The server's clock jumped forward."""
    for key in world.connection.keys("overnight:*:lease:*"):
        world.connection.delete(key)


@pytest.mark.parametrize("what", ["flushed", "leases expired"])
def test_again_and_again_for_longer_than_an_attempt_may_be_missing(
    redis_server: RedisServer, what: str
) -> None:
    world = RedisWorld(redis_server, experiments=3)
    for turn in range(150):
        world.step_orchestrator()
        world.step_recorder()
        if turn % 50 >= 25:  # each second for 25 s; an attempt is lost after 15
            world.flush() if what == "flushed" else _expire_all_leases(world)
        elif turn % 11 < 2:
            world.step_runner(turn % 11)
        world.tick(1.0)
        if turn % 5 == 0:
            world.renew()
    world.settle()
    world.close()

    kinds = Counter(row.kind for row in world.disk)
    assert kinds[RowKind.ATTEMPT_ISSUED] == 4
    assert kinds[RowKind.SUPERSEDED] == 0


def test_a_memory_from_an_older_copy_is_seen(redis_server: RedisServer, queue: RedisQueue) -> None:
    """A log of a second ago, a replica that lagged: the mark is there, but not the newest."""
    client, key = redis_server.client(), keys.mark(SID, MARK)
    assert not queue.look([]).intact, "nobody knows what was before"
    older = client.get(key)
    assert queue.look([]).intact
    assert queue.look([]).intact
    client.set(key, older)
    assert not queue.look([]).intact
    assert queue.look([]).intact
    client.flushall()
    assert not queue.look([]).intact


def test_a_dead_runners_lease_is_cut_down_by_the_next_look(
    redis_server: RedisServer, queue: RedisQueue
) -> None:
    """The server's clock jumped back an hour."""
    client = redis_server.client()
    Leases(connect(redis_server.url), SID, ttl_seconds=0.5).claim(1, 1, "dead")
    client.pexpire(keys.lease(SID, 1, 1), 3_600_000)

    assert queue.look([(1, 1)]).leased == {(1, 1)}
    assert client.pttl(keys.lease(SID, 1, 1)) <= 500


def test_a_message_that_redis_refuses_is_tried_and_told_each_time(
    redis_server: RedisServer,
) -> None:
    """And not only when it would be sent again: nobody would hear that we wait."""
    world = RedisWorld(redis_server, experiments=1)
    redis_server.client().execute_command("REPLICAOF", "127.0.0.1", "1")
    world.orchestrator.step(0.0)  # decides what to send
    for now in (0.1, 0.2, 0.3):
        with pytest.raises(InfrastructureError, match="it is a replica"):
            world.orchestrator.step(now)
    redis_server.client().execute_command("REPLICAOF", "NO", "ONE")
    world.settle()
    world.close()
