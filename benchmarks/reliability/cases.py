"""The cases. Each is written once, against `System`, and played to both."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import redis
from benchmarks.reliability import scripts
from benchmarks.reliability.outcome import Outcome
from benchmarks.reliability.plainrq import PlainRq
from benchmarks.reliability.system import System
from tests.e2e import procs

DEADLINE_SECONDS = 6.0  #: long enough for all children to be born on a busy machine
DEAD_SECONDS = 2.0  #: after the deadline or the kill, nothing may be alive
REST_SECONDS = 10.0  #: how long late results are waited for
BORN_SECONDS = 60.0  #: patience for something to begin
LATE_SECONDS = 8.0  #: a result that is not there so long after the deadline is not reported

PLAIN = "plain rq"

Play = Callable[[System, random.Random], Outcome]
Make = Callable[[], System]


@dataclass(frozen=True)
class Case:
    """One row of a table."""

    name: str
    title: str
    play: Play
    rq: Mapping[str, Make] = field(default_factory=lambda: {PLAIN: PlainRq})
    short: bool = True  #: part of the short form


class NotReachedError(Exception):
    """The moment that the case is about did not come."""


def _reach(system: System, condition: Callable[[], object], what: str) -> None:
    reached = False

    def look() -> bool:
        nonlocal reached
        reached = bool(condition())
        return reached or system.hopeless()

    system.until(look, BORN_SECONDS)
    if not reached:
        raise NotReachedError(f"{what} (over: {system.hopeless()})")


def _in_training(system: System, id: int, rng: random.Random, seconds: float) -> None:
    """At a random instant of this experiment's training, which takes so long."""
    _reach(
        system,
        lambda: any(system.experiment(p) == id for p in system.trainings()),
        f"experiment {id} trains",
    )
    system.pause(rng.uniform(0.1, 0.7) * seconds)


def _outcome(system: System, began: float, patience_seconds: float, left: int = 0) -> Outcome:
    """Wait for all results and then for rest: a second result may come late. And count.

    left: processes that outlived a kill; what is alive in the end counts too.
    """
    system.until(lambda: system.done() or system.hopeless(), patience_seconds)
    watched = time.monotonic() - began
    done = system.done()
    note = "" if done else system.note()
    system.until(system.hopeless, REST_SECONDS)
    system.pause(DEAD_SECONDS)
    counted = [system.results()[id] for id in range(1, system.wanted + 1)]
    return Outcome(
        wanted=system.wanted,
        once=counted.count(1),
        doubled=sum(count > 1 for count in counted),
        left=max(left, len(system.candidates())),
        trainings=len(system.started),
        seconds=watched if done else None,
        watched_seconds=watched,
        note=note,
    )


def child(name: str, system: System, rng: random.Random) -> Outcome:
    """A script whose children don't want to die, beyond its deadline."""
    program, births = scripts.CHILDREN[name]
    system.write(scripts.HOSTILE, program)
    system.open(2, deadline_seconds=DEADLINE_SECONDS)

    def born() -> list[procs.Process]:
        return [p for p in system.candidates() if p.argv[1:4] == ["-I", "-S", "-c"]]

    _reach(system, lambda: len(born()) == births, "the children are alive")
    trainings = [p for p in system.trainings() if system.experiment(p) == 2]
    if not trainings:
        raise NotReachedError("the script trains")
    deadline = trainings[0].started / os.sysconf("SC_CLK_TCK") + DEADLINE_SECONDS

    def late() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - deadline

    reported: float | None = None
    left: int | None = None
    while late() < LATE_SECONDS and (left is None or reported is None):
        system.tend()
        if reported is None and system.results()[2]:
            reported = late()
        if left is None and late() >= DEAD_SECONDS:
            left = len(system.candidates())
        time.sleep(0.02)
    results = system.results()
    return Outcome(
        once=int(results[2] == 1),
        doubled=int(results[2] > 1),
        left=left or 0,
        seconds=reported,
        watched_seconds=LATE_SECONDS,
        note="" if results[2] else system.note(),
    )


def worker_killed(system: System, rng: random.Random) -> Outcome:
    system.write(scripts.QUIET.format(seconds=system.long_seconds))
    system.open(3)
    _in_training(system, 2, rng, 2.5)
    victims = system.candidates()
    began = time.monotonic()
    system.kill_worker()
    system.pause(DEAD_SECONDS)
    left = sum(process.alive for process in victims)
    outcome = _outcome(system, began, 120.0, left)
    return _with_peak(outcome, system)


def stack_killed(system: System, rng: random.Random) -> Outcome:
    system.write(scripts.QUIET.format(seconds=system.long_seconds))
    system.open(4)
    _in_training(system, 2, rng, 2.5)
    victims = system.candidates()
    began = time.monotonic()
    system.kill_stack()
    time.sleep(DEAD_SECONDS)
    left = sum(process.alive for process in victims)
    system.start_again()
    return _with_peak(_outcome(system, began, 120.0, left), system)


def flush_in_training(system: System, rng: random.Random) -> Outcome:
    system.write(scripts.QUIET.format(seconds=1.5))
    system.open(6)
    _in_training(system, 2, rng, 1.5)
    began = time.monotonic()
    with system.client() as client:
        client.flushall()
    return _outcome(system, began, 60.0)


def flush_in_queue(system: System, rng: random.Random) -> Outcome:
    system.write(scripts.QUIET.format(seconds=1.5))
    system.open(6)
    flushed = False

    def flush_what_waits() -> bool:
        nonlocal flushed
        with contextlib.suppress(redis.RedisError), system.client() as client:
            if client.llen(system.queue_key):
                client.flushall()
                flushed = True
        return flushed

    _reach(system, flush_what_waits, "a job waits")
    return _outcome(system, time.monotonic(), 60.0)


def redis_killed(system: System, rng: random.Random) -> Outcome:
    system.write(scripts.QUIET.format(seconds=1.5))
    system.open(5)
    _in_training(system, 2, rng, 1.5)
    began = time.monotonic()
    system.kill_redis()
    return _with_peak(_outcome(system, began, 100.0), system)


def delivered_twice(system: System, rng: random.Random) -> Outcome:
    """Each job id stands in the queue a second time, and there are two workers."""
    system.write(scripts.QUIET.format(seconds=1.5))
    system.open(4, workers=2)
    repeated: set[str] = set()

    def repeat() -> bool:
        with contextlib.suppress(redis.RedisError), system.client() as client:
            for job in set(system.job_ids()) - repeated:
                if client.exists(f"rq:job:{job}"):
                    client.rpush(system.queue_key, job)
                    repeated.add(job)
        return system.done() or system.hopeless()

    _reach(system, system.trainings, "something trains")
    began = time.monotonic()
    system.until(repeat, BORN_SECONDS)
    if not repeated:
        raise NotReachedError("a job is delivered twice")
    return _outcome(system, began, 10.0)


def parricide(system: System, rng: random.Random) -> Outcome:
    """The script kills what started it, and then trains for ever."""
    system.write(scripts.HOSTILE, scripts.PARRICIDE)
    system.open(3, deadline_seconds=DEADLINE_SECONDS)
    _reach(system, lambda: system.results()[1], "the first experiment has its result")
    return _outcome(system, time.monotonic(), 40.0)


def worker_killed_each_time(system: System, rng: random.Random) -> Outcome:
    """Whenever experiment 2 trains, its worker dies: poison."""
    system.write(scripts.QUIET.format(seconds=4.0))
    system.open(4)
    kills = 0

    def strike() -> bool:
        nonlocal kills
        if any(system.experiment(p) == 2 and p not in struck for p in system.trainings()):
            struck.update(p for p in system.trainings())
            system.pause(rng.uniform(0.1, 1.0))
            system.kill_worker()
            kills += 1
        return system.done() or system.hopeless()

    struck: set[procs.Process] = set()
    _reach(system, lambda: system.results()[1], "the first experiment has its result")
    began = time.monotonic()
    system.until(strike, 90.0)
    outcome = _outcome(system, began, 0.0)
    return replace(outcome, note=f"{kills} kills" + (f", {outcome.note}" if outcome.note else ""))


def planted(system: System, rng: random.Random) -> Outcome:
    """A stranger with access to Redis puts code into the queue."""
    system.write(scripts.QUIET.format(seconds=1.0))
    system.open(3)
    _reach(system, lambda: system.trainings(), "something trains")
    touch = Path(f"/tmp/ov-planted-{os.urandom(8).hex()}")
    began = time.monotonic()
    try:
        system.plant(str(touch))
        outcome = _outcome(system, began, 30.0)
        system.pause(1.0)
        return replace(outcome, executed=touch.exists(), trainings=None)
    finally:
        touch.unlink(missing_ok=True)


def _with_peak(outcome: Outcome, system: System) -> Outcome:
    return replace(outcome, at_once=system.peak)


AOF = {
    "AOF": partial(PlainRq, persist=True),
    "no persistence": partial(PlainRq, persist=False),
}
WAYS = {
    "rq, subprocess.run(timeout)": partial(PlainRq, function="train"),
    "rq, own group and killpg": partial(PlainRq, function="train_in_group"),
}
CHILDREN: Sequence[Case] = [
    Case(f"child-{number}", name, partial(child, name), WAYS, short=name.startswith("all"))
    for number, name in enumerate(scripts.CHILDREN, start=1)
]
FAULTS: Sequence[Case] = [
    Case("worker", "SIGKILL of the worker while it trains (rq: the `rq worker` process)",
         worker_killed, {PLAIN: partial(PlainRq, horses=False)}),
    Case("worker-and-forks", "SIGKILL of the worker with its forks (rq: and its work horse)",
         worker_killed, {PLAIN: PlainRq}, short=False),
    Case("stack", "SIGKILL of all services and Redis while one trains, then a new start",
         stack_killed, AOF),
    Case("flush-training", "FLUSHALL while one trains and others wait", flush_in_training, AOF),
    Case("flush-queue", "FLUSHALL at once when a job waits", flush_in_queue, AOF, short=False),
    Case("redis", "SIGKILL of Redis while one trains, back after a second", redis_killed, AOF),
    Case("twice", "every job is delivered twice, to two workers", delivered_twice),
    Case("parricide", "a script that SIGKILLs the process that started it", parricide,
         short=False),
    Case("poison", "a job at which the worker dies each time", worker_killed_each_time,
         short=False),
    Case("planted", "`os.system` and a pickle put into the queue", planted,
         {"JSON": PlainRq, "pickle (rq's default)": partial(PlainRq, pickles=True)}),
]  # fmt: skip
ALL: Sequence[Case] = (*CHILDREN, *FAULTS)
