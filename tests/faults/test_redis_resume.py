"""A closed session is taken up again while its Redis is away: it waits, says why, and goes on."""

from __future__ import annotations

import signal

from tests.e2e import truth
from tests.e2e.procs import wait_until
from tests.e2e.stage import Stage, until

from redis_server import RedisServer


def test_resuming_waits_for_redis_and_can_be_interrupted(
    stage: Stage, redis_server: RedisServer
) -> None:
    stage.environment = {"REDIS_URL": redis_server.url}
    stage.toy(0.1)
    first = stage.run(1)
    assert first.code == 0, first
    redis_server.kill()
    words = ("run", str(stage.repo), "--max", "2", "--json")

    given_up = stage.start(*words)
    until(lambda: _waits(stage), 60, "the stack says that it waits for Redis", given_up)
    given_up.process.send_signal(signal.SIGINT)
    wait_until(lambda: given_up.over, 20, "Ctrl-C ends it, although Redis is away")
    wait_until(lambda: not stage.alive(), 5, "and all of it")

    again = stage.start(*words)
    until(lambda: _waits(stage), 60, "the stack says that it waits for Redis", again)
    recorder = stage.service("recorder")
    assert recorder is not None
    recorder.kill()
    until(lambda: stage.service("recorder") not in (None, recorder), 30, "it is tended", again)
    redis_server.start()
    finished = again.wait(60)

    assert finished.code == 0, finished
    truth.check_session(stage.root, 2)
    stage.check_nothing_is_left()


def test_a_stop_that_nobody_can_record_ends_all_the_same(
    stage: Stage, redis_server: RedisServer
) -> None:
    stage.environment = {
        "REDIS_URL": redis_server.url,
        "OVERNIGHT_SUPERVISOR_STOP_SECONDS": "1.5",
    }
    stage.toy(0.1)
    play = stage.start("run", str(stage.repo), "--max", "100000", "--json")
    until(lambda: len(truth.read_rows(stage.root)) > 8, 60, "experiments run", play)
    redis_server.kill()
    play.process.send_signal(signal.SIGTERM)
    wait_until(lambda: play.over, 30, "it ends without Redis")
    wait_until(lambda: not stage.alive(), 5, "and all of it")
    redis_server.start()
    rows = truth.read_rows(stage.root)
    experiments = sum(row["kind"] == "proposed" for row in rows)
    finished = stage.run(experiments + 1)

    assert finished.code == 0, finished
    truth.check_session(stage.root, experiments + 1)


def _waits(stage: Stage) -> bool:
    stack = stage.stack()
    return stack is not None and "redis" in str(stack.get("waiting")).lower()
