"""The protocol's state machine again, over a real Redis and rq: flushed, killed, robbed."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from redis_world import RedisWorld
from tests.unit.orchestrator.test_protocol_machine import Protocol

from overnight.contracts.status import RowKind
from redis_server import RedisServer


class OverRedis(Protocol):
    """The same rules and the same invariant; Redis itself may be killed too."""

    server: ClassVar[RedisServer]

    def new_world(self, **asked: int) -> RedisWorld:
        return RedisWorld(self.server, **asked)

    @rule()
    def redis_is_killed(self) -> None:
        self.world.kill_redis()  # type: ignore[attr-defined]


def test_the_protocol_holds_over_a_real_redis(redis_server: RedisServer) -> None:
    OverRedis.server = redis_server
    run_state_machine_as_test(
        OverRedis,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("fault", ["flush", "kill_redis"])
def test_a_forgetful_redis_costs_no_attempt(redis_server: RedisServer, fault: str) -> None:
    world = RedisWorld(redis_server, experiments=4)
    for turn in range(160):
        world.step_orchestrator()
        world.step_recorder()
        if turn % 40 == 20:
            getattr(world, fault)()
        if turn % 11 < 2:  # slow enough that jobs wait when Redis forgets them
            world.step_runner(turn % 11)
        world.tick(1.0)
    world.settle()
    world.close()

    kinds = Counter(row.kind for row in world.disk)
    assert kinds[RowKind.ATTEMPT_ISSUED] == 5
    assert kinds[RowKind.SUPERSEDED] == 0
