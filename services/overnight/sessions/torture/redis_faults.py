"""Faults of Redis: it forgets, stalls, hangs up, is full or read-only, and its queue lies."""

from __future__ import annotations

import random
from functools import partial

from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, text_of
from overnight.sessions.torture.victim import MissedError, Victim

#: What unpickling of this would do is `touch CANARY`.
_PICKLE = b"cos\nsystem\n(S'touch %s'\ntR."
_TINY_BYTES = 1024**2  #: less than an empty server uses
_NOBODY = ("127.0.0.1", 1)  #: a master that nobody reaches


def flush(victim: Victim, rng: random.Random) -> str:
    """FLUSHALL: queue, leases, acks and messages under way are gone."""
    _do(victim, "FLUSHALL")
    return "FLUSHALL"


def pause(victim: Victim, rng: random.Random) -> str:
    """CLIENT PAUSE: connections stand, answers don't come."""
    seconds, what = rng.uniform(0.1, 4.0), rng.choice(("ALL", "WRITE"))
    _do(victim, "CLIENT", "PAUSE", int(seconds * 1000), what)
    victim.quiet.add("paused")
    victim.later(seconds, partial(victim.quiet.discard, "paused"))
    return f"CLIENT PAUSE {what} for {seconds:.1f} s"


def drop_connections(victim: Victim, rng: random.Random) -> str:
    """CLIENT KILL for everybody."""
    _do(victim, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return "CLIENT KILL of all connections"


def fill(victim: Victim, rng: random.Random) -> str:
    """Out of memory: every write is refused."""
    seconds = rng.uniform(0.3, 2.0)
    _do(victim, "CONFIG", "SET", "maxmemory", _TINY_BYTES)
    victim.later(seconds, partial(_do, victim, "CONFIG", "SET", "maxmemory", 0))
    return f"maxmemory 1 MiB for {seconds:.1f} s"


def make_read_only(victim: Victim, rng: random.Random) -> str:
    """A replica without its master: reads are answered, writes refused."""
    seconds = rng.uniform(0.3, 2.0)
    _do(victim, "REPLICAOF", *_NOBODY)
    victim.later(seconds, partial(_do, victim, "REPLICAOF", "NO", "ONE"))
    return f"a read-only replica for {seconds:.1f} s"


def drop_keys(victim: Victim, rng: random.Random) -> str:
    """Some keys, as if they had been evicted: a job, a lease, an ack, a beat."""
    client = victim.redis()
    with edge("dropping keys"), client:
        names = sorted(text_of(raw) for raw in client.keys("*"))
        chosen = rng.sample(names, min(len(names), rng.randint(1, 5)))
        if not chosen:
            raise MissedError("Redis is empty")
        client.delete(*chosen)
    return f"{len(chosen)} keys dropped"


def push_twice(victim: Victim, rng: random.Random) -> str:
    """An attempt that is or was in the queue stands there (again), up to three times."""
    client, queue = victim.redis(), _queue(victim)
    with edge("pushing a job twice"), client:
        waiting = [text_of(raw) for raw in client.lrange(queue, 0, -1)]
        known = [text_of(raw).removeprefix("rq:job:")
                 for raw in client.keys(f"rq:job:{victim.sid}-*")]  # fmt: skip
        jobs = sorted({*waiting, *known})
        if not jobs:
            raise MissedError("no job is known")
        job, times = rng.choice(jobs), rng.randint(1, 3)
        client.rpush(queue, *[job] * times)
    return f"job {job.partition('-')[2]} pushed {times} times more"


def plant_job(victim: Victim, rng: random.Random) -> str:
    """A job that would run code, were anything in it believed; or one of random bytes."""
    client, queue = victim.redis(), _queue(victim)
    pickle = _PICKLE % str(victim.canary).encode()
    kind, data = rng.choice((
        ("a pickle", pickle),
        ("os.system", b'["os.system", null, ["touch %s"], {}]' % str(victim.canary).encode()),
        ("random bytes", rng.randbytes(300)),
        ("an empty job", b""),
        ("no job", None),
    ))  # fmt: skip
    job = rng.choice((
        f"planted-{rng.randrange(10**6)}",
        keys.job_id(victim.sid, rng.randint(10**6, 2 * 10**6), 1),
        "../../etc/passwd\x1b[2J",
    ))  # fmt: skip
    with edge("planting a job"), client:
        if data is not None:
            client.hset(f"rq:job:{job}", mapping={"data": data, "timeout": b"-1"})
            client.hset(f"rq:job:{job}", "success_callback_name", "os.abort")
        client.lpush(queue, job)
    return f"{kind} planted in the queue"


def _queue(victim: Victim) -> str:
    return f"rq:queue:{keys.queue_name(f'default-{victim.sid}')}"


def _do(victim: Victim, *words: str | int) -> None:
    client = victim.redis()
    with edge(f"torture, {words[0]}"), client:
        client.execute_command(*words)  # type: ignore[no-untyped-call]
