"""Faults of processes: killed or stopped from outside, one, two at once, or the whole tree."""

from __future__ import annotations

import random
import time

import psutil

from overnight.sessions.torture.leftovers import Seen, processes
from overnight.sessions.torture.victim import SERVICES, MissedError, Victim

SHORTEST_STOP_SECONDS, LONGEST_STOP_SECONDS = 0.1, 6.0  #: the longest outlasts a lease
DYING_SECONDS = 10.0  #: for a whole tree, after its supervisor


def kill_runner(victim: Victim, rng: random.Random) -> str:
    """SIGKILL; most likely while a candidate runs in it."""
    return _kill(victim, rng.choice(("r0", "r1")))


def kill_recorder(victim: Victim, rng: random.Random) -> str:
    """SIGKILL, perhaps in the middle of a row."""
    return _kill(victim, "recorder")


def kill_orchestrator(victim: Victim, rng: random.Random) -> str:
    """SIGKILL."""
    return _kill(victim, "orchestrator")


def kill_redis(victim: Victim, rng: random.Random) -> str:
    """SIGKILL; it keeps nothing."""
    return _kill(victim, "redis")


def kill_two(victim: Victim, rng: random.Random) -> str:
    """Two services at the same moment."""
    one, other = rng.sample(SERVICES, 2)
    first, second = victim.service(one), victim.service(other)
    _end(victim, one, first)
    _end(victim, other, second)
    return f"SIGKILL {one} and {other}"


def kill_supervisor(victim: Victim, rng: random.Random) -> str:
    """And the same command again: at once, or once nothing of it is left."""
    at_once = rng.random() < 0.5
    victim.service("supervisor")
    victim.kill()
    if not at_once:
        wait_until_dead(victim)
    victim.start()
    return f"SIGKILL supervisor, again {'at once' if at_once else 'when all was dead'}"


def stop_service(victim: Victim, rng: random.Random) -> str:
    """SIGSTOP, and SIGCONT after a while."""
    return _stop(victim, rng, rng.choice(SERVICES))


def stop_supervisor(victim: Victim, rng: random.Random) -> str:
    """SIGSTOP for the supervisor alone: nobody restarts what dies meanwhile."""
    return _stop(victim, rng, "supervisor")


def stop_two(victim: Victim, rng: random.Random) -> str:
    """Two services stand still at once, for different times."""
    one, other = rng.sample(SERVICES, 2)
    return f"{_stop(victim, rng, one)}; {_stop(victim, rng, other)}"


def wait_until_dead(victim: Victim) -> None:
    """Until nothing of a killed tree is left; it is a problem when that takes too long.

    What we have stopped goes on when it is due: in its first milliseconds a service is not tied to
    its supervisor yet, and ends by itself only when it may run.
    """
    seen = Seen(marks=victim.marks)
    until = time.monotonic() + DYING_SECONDS
    while left := list(processes(victim.folder, seen)):
        if time.monotonic() > until:
            victim.problems.append(f"outlived their supervisor by {DYING_SECONDS:g} s: {left}")
            return
        victim.do_what_is_due()
        time.sleep(0.05)


def _kill(victim: Victim, name: str) -> str:
    _end(victim, name, victim.service(name))
    return f"SIGKILL {name}"


def _end(victim: Victim, name: str, process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess as error:
        raise MissedError(f"{name} is down") from error
    victim.quiet.discard(name)


def _stop(victim: Victim, rng: random.Random, name: str) -> str:
    process = victim.service(name)
    ratio = LONGEST_STOP_SECONDS / SHORTEST_STOP_SECONDS
    seconds = SHORTEST_STOP_SECONDS * ratio ** rng.random()  # short ones as often as long ones
    try:
        process.suspend()
    except psutil.NoSuchProcess as error:
        raise MissedError(f"{name} is down") from error
    victim.quiet.add(name)

    def go_on() -> None:
        victim.quiet.discard(name)
        try:
            process.resume()
        except psutil.NoSuchProcess:
            return

    victim.later(seconds, go_on)
    return f"SIGSTOP {name} for {seconds:.1f} s"
