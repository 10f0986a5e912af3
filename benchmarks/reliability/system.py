"""What a case can do to a system under test, and see of it from outside. One for each system."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

import redis
from tests.e2e.procs import Process

LONG_SECONDS = 8.0  #: of a training that outlives its killed worker also on a busy machine
POLL_SECONDS = 0.05  #: each look reads the command lines of all processes


class System(ABC):
    """A queue of experiments: the script as it is, then the same with another LR.

    Use it as a context manager: nothing of it is left behind.
    """

    def __init__(self) -> None:
        self.wanted = 0
        self.long_seconds = LONG_SECONDS
        self.started: set[Process] = set()  #: training processes that were seen
        self.peak = 0  #: most of them at the same time

    def __enter__(self) -> System:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def write(self, train: str, nasty: str = "") -> None:
        """Put train.py and nasty.py into the user's folder."""

    @abstractmethod
    def open(self, wanted: int, *, workers: int = 1, deadline_seconds: float = 30.0) -> None:
        """Ask for so many experiments and start working."""

    @abstractmethod
    def trainings(self) -> list[Process]:
        """Live training scripts, without what they started and what holds them."""

    @abstractmethod
    def candidates(self) -> list[Process]:
        """Everything alive that belongs to a candidate."""

    @abstractmethod
    def experiment(self, training: Process) -> int | None:
        """Which experiment it is."""

    @abstractmethod
    def results(self) -> Counter[int]:
        """Experiment -> final results on record."""

    @abstractmethod
    def job_ids(self) -> list[str]:
        """rq ids of jobs that are in Redis or were."""

    @property
    @abstractmethod
    def queue_key(self) -> str:
        """The Redis list of waiting jobs."""

    @abstractmethod
    def client(self) -> redis.Redis:
        """A client of its Redis."""

    @abstractmethod
    def kill_worker(self) -> None:
        """SIGKILL for what runs the jobs."""

    @abstractmethod
    def kill_redis(self) -> None:
        """SIGKILL for Redis; where nobody starts it again, do so after a second."""

    @abstractmethod
    def kill_stack(self) -> None:
        """SIGKILL for every service."""

    @abstractmethod
    def start_again(self) -> None:
        """After kill_stack: as after a reboot."""

    @abstractmethod
    def plant(self, touch: str) -> None:
        """Put jobs into the queue that touch a file when somebody executes them."""

    @abstractmethod
    def hopeless(self) -> bool:
        """Has it nothing left to do, so that waiting longer is useless?"""

    @abstractmethod
    def close(self) -> None:
        """End all of it, whatever state it is in."""

    def note(self) -> str:
        """What it says of experiments without a result."""
        return ""

    def tend(self) -> None:
        """Called all the time: note what trains."""
        now = self.trainings()
        self.started |= set(now)
        self.peak = max(self.peak, len(now))

    def done(self) -> bool:
        """Has each experiment a result?"""
        results = self.results()
        return all(results[id] for id in range(1, self.wanted + 1))

    def until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Poll; did it come true in time?"""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > seconds:
                return False
            self.tend()
            time.sleep(POLL_SECONDS)
        return True

    def pause(self, seconds: float) -> None:
        """Let it go on for a while."""
        self.until(lambda: False, seconds)
