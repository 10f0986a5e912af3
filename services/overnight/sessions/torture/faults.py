"""The catalogue: every fault with how often it comes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from overnight.sessions.torture import file_faults, messages, processes, redis_faults
from overnight.sessions.torture.victim import Victim


@dataclass(frozen=True)
class Fault:
    """One kind of fault."""

    name: str
    weight: float  #: how often, beside the others
    strike: Callable[[Victim, random.Random], str]  #: does it and says what; raises MissedError


FAULTS = (
    Fault("kill runner", 9, processes.kill_runner),
    Fault("kill recorder", 6, processes.kill_recorder),
    Fault("kill orchestrator", 6, processes.kill_orchestrator),
    Fault("kill Redis", 6, processes.kill_redis),
    Fault("kill two", 4, processes.kill_two),
    Fault("kill supervisor", 3, processes.kill_supervisor),
    Fault("stop service", 12, processes.stop_service),
    Fault("stop two", 4, processes.stop_two),
    Fault("stop supervisor", 2, processes.stop_supervisor),
    Fault("flush Redis", 6, redis_faults.flush),
    Fault("pause Redis", 5, redis_faults.pause),
    Fault("drop connections", 6, redis_faults.drop_connections),
    Fault("fill Redis", 3, redis_faults.fill),
    Fault("read-only Redis", 3, redis_faults.make_read_only),
    Fault("drop keys", 5, redis_faults.drop_keys),
    Fault("push twice", 7, redis_faults.push_twice),
    Fault("plant job", 7, redis_faults.plant_job),
    Fault("garbage message", 6, messages.send_garbage),
    Fault("forged message", 8, messages.send_forgery),
    Fault("late result", 5, messages.send_late_result),
    Fault("message again", 5, messages.send_again),
    Fault("torn ledger", 2, file_faults.tear_ledger),
    Fault("stale files", 2, file_faults.leave_files),
    Fault("torn export", 3, file_faults.tear_export),
    Fault("edited export", 3, file_faults.edit_export),
    Fault("deleted export", 3, file_faults.delete_export),
    Fault("pause session", 3, file_faults.pause_session),
)


def draw(rng: random.Random) -> Fault:
    """The next fault."""
    return rng.choices(FAULTS, [fault.weight for fault in FAULTS])[0]
