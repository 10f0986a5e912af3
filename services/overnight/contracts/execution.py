"""The executor seam: one command in one single-use sandbox that always leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Exit(StrEnum):
    """Why the sandbox ended, as seen from outside."""

    EXITED = "exited"  #: the command ended by itself (exit_code or signal says how)
    DEADLINE_WALL = "deadline_wall"  #: we killed it: wall-clock deadline on our monotonic clock
    DEADLINE_CPU = "deadline_cpu"  #: we killed it: CPU-seconds of the whole sandbox
    OOM = "oom"  #: the kernel killed something in it for memory (cgroup oom_kill counted)
    DISK = "disk"  #: we killed it: its files took more than it may have
    KILLED = "killed"  #: we killed it for another reason (cancel, lost lease, shutdown)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one sandbox may use. Bytes are ints, None means no limit of ours."""

    memory_bytes: int | None = None
    pids: int = 512
    tmp_bytes: int = 2 * 1024**3  #: size of /tmp and of /dev/shm, each
    file_bytes: int = 4 * 1024**3  #: largest single file
    disk_bytes: int | None = 20 * 1024**3  #: all files in its folders together, while it runs
    disk_files: int | None = 1_000_000  #: how many there may be
    out_bytes: int = 2 * 1024**3  #: total that `collect` takes from /out, and `take` each
    open_files: int = 4096
    log_head_bytes: int = 1024**2  #: run.log keeps this much of the start ...
    log_tail_bytes: int = 8 * 1024**2  #: ... and this much of the end


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """All that an executor needs to know before the snapshot is there."""

    sandbox_id: str  #: unique: "<sid>-<id>-<attempt>"
    labels: Mapping[str, str]  #: how `reconcile` finds leftovers of a dead runner
    command: tuple[str, ...]  #: argv; run with the snapshot as its working directory
    env: Mapping[str, str]  #: the whole environment beside HOME, PATH, TMPDIR
    frozen: tuple[str, ...]  #: relative paths (files or folders) that must be read-only
    reads: tuple[Path, ...]  #: host paths visible read-only at the same place
    interpreter: Path | None  #: the user's Python; its prefixes become visible read-only
    scratch: Path  #: private folder on the host for this sandbox; the executor makes and removes it
    log_path: Path  #: where run.log goes
    network: str = "none"  #: "none" or "host"
    keep: tuple[str, ...] = ()  #: what `take` takes of the working directory: relative paths of
    #: files or folders, or "." for all of it; never what is frozen
    devices: tuple[str, ...] = ()  #: device UUIDs granted
    image: str | None = None  #: for containers; None: the executor's own
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """When the sandbox is killed, counted from the moment the command starts. Seconds."""

    wall_seconds: float
    cpu_seconds: float | None = None  #: CPU of all its processes together; None: not limited


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What happened, measured from outside. Seconds are on the runner's monotonic clock."""

    exit: Exit
    exit_code: int | None  #: of the command; None when it was killed by a signal or by us
    signal: int | None  #: the signal that ended the command by itself, if one did
    wall_seconds: float  #: to its own end, also where the runner was stopped and saw it late
    cpu_seconds: float | None
    cpu_source: str | None  #: "cgroup", "perf" or "proc"
    cpu_share: float | None  #: cpu_seconds / wall_seconds
    kill_latency_seconds: float | None  #: from the deadline (or kill request) to an empty sandbox
    survivors: int  #: processes still alive after the kill, counted from outside; 0 is right
    max_rss_bytes: int | None
    isolation: str  #: "container", "namespaces" or "none"
    log_bytes: int  #: written by the command, before truncation
    log_truncated: bool
    start_seconds: float  #: from start() to the command running
    stalled_seconds: float = 0.0  #: nobody watched for so long: the runner was stopped
    image: str | None = None  #: id of the image that it ran in
    over: str = ""  #: with Exit.DISK: what it took, in words
    asleep_seconds: float = 0.0  #: the host slept for so long, which no duration counts


@dataclass(frozen=True, kw_only=True)
class Collected:
    """One regular file taken from a sandbox after it was dead."""

    path: str  #: relative to the destination
    size_bytes: int


@dataclass(frozen=True)
class Stuck:
    """A dead runner's sandbox that could not be ended."""

    labels: Mapping[str, str]
    reason: str  #: one line
    pids: tuple[int, ...] = ()  #: what of it lives


@dataclass(frozen=True)
class Swept:
    """What was found of sandboxes that carry some labels."""

    ended: int = 0  #: leftovers of dead runners, gone now
    held: int = 0  #: sandboxes whose owner lives; left alone
    stuck: tuple[Stuck, ...] = ()


OutputSink = Callable[[str, bytes], None]  #: ("stdout" | "stderr", chunk), in order of arrival


class Sandbox(Protocol):
    """A single-use sandbox. Call start once, wait once, collect any time after, destroy always."""

    def start(self, snapshot: Path) -> None:
        """Start the command in a private writable copy of *snapshot*.

        Call from the thread that will outlive the sandbox (the kill-on-parent-death is per
        thread).

        Raises:
            SandboxUnavailableError: it could not start; nothing is left running.
        """
        ...

    def wait(self, deadline: Deadline, on_output: OutputSink) -> Execution:
        """Block until the command ended or was killed *and* the sandbox is empty.

        Raises:
            SandboxUnavailableError: the sandbox was lost; the job may be retried.
        """
        ...

    def kill(self) -> None:
        """End it now, from any thread; `wait` then returns Exit.KILLED. Idempotent."""
        ...

    def collect(self, into: Path) -> tuple[Collected, ...]:
        """Copy what the command left in /out: regular files only, no links, within limits."""
        ...

    def take(self, into: Path) -> tuple[Collected, ...]:
        """The same for what stands at `keep` in its working directory, under the same paths."""
        ...

    def destroy(self) -> None:
        """Remove every trace on the host except run.log. Idempotent."""
        ...


class Executor(Protocol):
    """Prepares sandboxes. Reached by entry-point name in the group `overnight.executors`."""

    name: str

    @property
    def isolation(self) -> str:
        """What its sandboxes give here: "container", "namespaces" or "none"."""
        ...

    def prepare(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox that may stand by until `start`. Raises SandboxUnavailableError."""
        ...

    def reconcile(self, labels: Mapping[str, str]) -> Swept:
        """End all leftovers of dead owners that carry *labels*; {}: all on this host."""
        ...
