"""Whatever becomes of Redis in mid-run: the services wait, say why, and go on by themselves.

NOTHING_LOST_FORM: unset (some of the faults, another choice each time), short (all of them), long
(all of them, and the partition with the clocks as shipped). NOTHING_LOST_SEED repeats a run,
NOTHING_LOST_FAULTS names some of them, separated by commas.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.faults.redis_stage import (
    PASSWORD,
    RIGHTS,
    SCALED,
    SOON_SECONDS,
    USER,
    RedisStage,
    keep_for,
    made_session,
)

FORM = os.environ.get("NOTHING_LOST_FORM", "small")
OUTAGE_SECONDS = 2.0  #: more than two leases
SMALL = 3  #: faults of the small form
MOST_CPU = 0.35  #: CPU-seconds a second of all services together; one that spins takes 1
MOST_WAKEUPS = 1_800  #: a second; measured: 26 to 183 on an idle machine, 403 on a busy one
MOST_CONNECTIONS = 150  #: a second; one that spins opens thousands


@dataclass(frozen=True)
class Fault:
    """One kind of it."""

    on: Callable[[RedisStage], object]
    off: Callable[[RedisStage], object] = lambda it: None
    waits: str | None = None  #: what the services say; None: the session may go on meanwhile


def _stream(it: RedisStage) -> str:
    return f"overnight:{it.sid}:ledger.in"


def _queue(it: RedisStage) -> str:
    return f"rq:queue:experiments.default-{it.sid}"


def _acl(it: RedisStage, *rules: str) -> None:
    it.admin.execute_command("ACL", "SETUSER", USER, *rules)


def _plant(it: RedisStage, key: str) -> None:
    with it.admin.pipeline() as pipe:
        pipe.delete(key)
        pipe.hset(key, "not", "ours")
        pipe.execute()


def _rotate(it: RedisStage) -> None:
    _acl(it, "resetpass", ">another")
    it.admin.execute_command("CLIENT", "KILL", "USER", USER)


def _fill_clients(it: RedisStage) -> None:
    it.admin.config_set("maxclients", 1)
    it.admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def _flush_ten_times(it: RedisStage) -> None:
    for _ in range(10):
        it.admin.flushall()
        time.sleep(0.15)


def _lose_the_log(it: RedisStage) -> None:
    for file in sorted(it.server.folder.glob("appendonlydir/*")):
        file.unlink()
    it.server.start()


def _expire_leases(it: RedisStage) -> None:
    for key in it.admin.scan_iter(f"overnight:{it.sid}:lease:*"):
        it.admin.pexpire(key, 1)


def _freeze(it: RedisStage, number: signal.Signals) -> None:
    os.kill(it.server.pid, number)


DOWN = r"is Redis up\?"
FAULTS = {
    "killed, back with its log": Fault(
        lambda it: it.server.kill(), lambda it: it.server.start(), DOWN
    ),
    "killed, back empty": Fault(lambda it: it.server.kill(), _lose_the_log, DOWN),
    "flushed": Fault(lambda it: it.admin.flushall()),
    "flushed ten times": Fault(_flush_ten_times),
    "all leases expired at once": Fault(_expire_leases),
    "paused": Fault(
        # Nobody can end it early, the command for that is paused too.
        lambda it: it.admin.execute_command("CLIENT", "PAUSE", "4000", "ALL"),
        lambda it: it.admin.ping(),
        DOWN,
    ),
    "paused for writes": Fault(
        lambda it: it.admin.execute_command("CLIENT", "PAUSE", "60000", "WRITE"),
        lambda it: it.admin.execute_command("CLIENT", "UNPAUSE"),
        DOWN,
    ),
    "stopped": Fault(
        lambda it: _freeze(it, signal.SIGSTOP), lambda it: _freeze(it, signal.SIGCONT), DOWN
    ),
    "out of memory": Fault(
        lambda it: it.admin.config_set("maxmemory", "1"),
        lambda it: it.admin.config_set("maxmemory", "0"),
        "raise its maxmemory",
    ),
    "read-only": Fault(
        lambda it: it.admin.execute_command("REPLICAOF", "127.0.0.1", "1"),
        lambda it: it.admin.execute_command("REPLICAOF", "NO", "ONE"),
        "it is a replica",
    ),
    "keys forbidden": Fault(
        lambda it: _acl(it, "resetkeys", "~rq:*"), lambda it: _acl(it, "resetkeys", *RIGHTS), "ACL"
    ),
    "commands forbidden": Fault(
        lambda it: _acl(it, "-set", "-blmove"), lambda it: _acl(it, *RIGHTS), "ACL"
    ),
    "password rotated": Fault(_rotate, lambda it: _acl(it, f">{PASSWORD}"), "password"),
    "no more clients": Fault(
        _fill_clients, lambda it: it.admin.config_set("maxclients", 1000), "maxclients"
    ),
    "something else in the stream's place": Fault(
        lambda it: _plant(it, _stream(it)),
        lambda it: it.admin.delete(_stream(it)),
        r"WRONGTYPE .*delete overnight:[0-9a-f]+:ledger\.in",
    ),
    "something else in the queue's place": Fault(
        lambda it: _plant(it, _queue(it)),
        lambda it: it.admin.delete(_queue(it)),
        r"WRONGTYPE .*delete rq:queue:experiments",
    ),
    "very slow": Fault(lambda it: it.proxy.slow(0.1), lambda it: it.proxy.slow(0)),
    "half-open connections": Fault(lambda it: it.proxy.forget()),
    "cut off": Fault(lambda it: it.proxy.cut(), lambda it: it.proxy.fair(), DOWN),
    "stalled": Fault(lambda it: it.proxy.stall(), lambda it: it.proxy.fair(), DOWN),
    "answers lost": Fault(lambda it: it.proxy.deafen(), lambda it: it.proxy.fair(), DOWN),
}


@pytest.fixture
def session() -> Iterator[RedisStage]:
    """Not started; its clocks are scaled."""
    with made_session(dict(SCALED)) as made:
        yield made


@pytest.mark.timeout(600)
def test_whatever_becomes_of_redis_the_session_goes_on_by_itself(session: RedisStage) -> None:
    seed = int(os.environ.get("NOTHING_LOST_SEED") or random.randrange(2**32))
    rng = random.Random(seed)
    chosen = rng.sample(sorted(FAULTS), SMALL if FORM == "small" else len(FAULTS))
    if "NOTHING_LOST_FAULTS" in os.environ:
        chosen = os.environ["NOTHING_LOST_FAULTS"].split(",")
    print(f"\nNOTHING_LOST_SEED={seed} {chosen}", flush=True)
    session.start(0.3)
    services = session.services()

    for name in chosen:
        line = _go_through(session, FAULTS[name])
        print(f"{name:<40} {line}", flush=True)

    finished = session.drain()
    attempts = session.bodies("attempt_issued")
    print(f"{len(attempts)} attempts of {len(session.bodies('proposed'))} experiments")
    assert finished.last["state"] == "closed"
    assert None not in services.values()


def _go_through(session: RedisStage, fault: Fault) -> str:
    session.wait_for(session.stage.training, "a candidate trains")
    services, cpu, began = session.services(), session.cpu_seconds(), time.monotonic()
    connections, wakeups = session.proxy.connections, session.wakeups()
    fault.on(session)
    if fault.waits is not None:
        pattern = fault.waits
        session.wait_for(lambda: session.says(pattern), f"{pattern!r} in {session.waiting()}")
    keep_for(OUTAGE_SECONDS, began)
    lasted = time.monotonic() - began
    used = (session.cpu_seconds() - cpu) / lasted
    woken = (session.wakeups() - wakeups) / lasted
    opened = (session.proxy.connections - connections) / lasted
    decided = session.decided()
    fault.off(session)
    healed = session.wait_for(
        lambda: session.decided() > decided, "the next experiment is decided", SOON_SECONDS
    )
    session.wait_for(lambda: not session.waiting(), "no service says that it waits")

    assert session.services() == services, "a service was started again"
    assert opened < MOST_CONNECTIONS, f"{opened:.0f} connections a second"
    if fault.waits is not None:
        assert used < MOST_CPU, f"{used:.2f} CPU-seconds a second while waiting"
        assert woken < MOST_WAKEUPS, f"{woken:.0f} wake-ups a second while waiting"
    return f"on {lasted:.1f} s, next decision {healed:.1f} s after, " + (
        f"CPU {used:.2f}, {woken:.0f} wake-ups/s, {opened:.0f} connections/s"
    )
