"""What the supervision of a command needs from the walls around it, whatever they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from overnight.contracts.errors import SandboxUnavailableError
from overnight.executors.cpu import CpuMeter

NAME = "process"  #: of the executor, in errors
START_SECONDS = 20.0  #: to stand at the gate; a busy host takes milliseconds
SECOND_TIMER_SECONDS = 5.0  #: after the deadline, for a runner that is stopped


@dataclass(frozen=True)
class Ending:
    """How the command ended by itself; both None when it did not."""

    exit_code: int | None
    signal: int | None


class Cage(Protocol):
    """One command behind a gate. Built, launched, opened, killed or ended, closed."""

    isolation: str
    image: str | None  #: id of the image, where the walls are a container's

    def launch(self, snapshot_files: list[str]) -> None:
        """Set everything up; the command waits at the gate. Raises SandboxUnavailableError."""
        ...

    def streams(self) -> tuple[int, int]:
        """Descriptors of stdout and stderr."""
        ...

    def exits(self) -> tuple[int, ...]:
        """Descriptors that become readable at the end: empty when all have."""
        ...

    def meter(self) -> CpuMeter:
        """Counts from now on, when the command stands at the gate."""
        ...

    def open(self, wall_seconds: float) -> None:
        """Let the command run, with the second timer armed."""
        ...

    def kill(self) -> None:
        """SIGKILL everything inside. From any thread, idempotent, does not wait."""
        ...

    def ending(self) -> Ending:
        """After the end. Raises SandboxUnavailableError when it ended as nobody expected."""
        ...

    def own_seconds(self) -> float | None:
        """After the end: how long it ran by a clock inside; None when that one was killed too.

        That clock goes on while the host sleeps.
        """
        ...

    def members(self) -> list[int]:
        """Live processes inside, cheaply."""
        ...

    def resident_bytes(self) -> int:
        """Memory of all processes inside, cheaply; what they share counts for each."""
        ...

    def proportional_bytes(self) -> int:
        """The same with what they share counted once; slower."""
        ...

    def oom_kills(self) -> int:
        """Processes that the kernel killed in it for memory."""
        ...

    def limits_memory(self) -> bool:
        """Does the kernel itself hold the sandbox to its memory limit?"""
        ...

    def survivors(self) -> int:
        """Live processes counted from outside, thoroughly."""
        ...

    def close(self) -> bool:
        """Kill, reap and free everything; False if something stayed on the host."""
        ...


@contextmanager
def unavailable(what: str) -> Iterator[None]:
    """Turn a failed system call into the one error that callers know."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailableError(NAME, f"{what}: {error.strerror or error}") from error
