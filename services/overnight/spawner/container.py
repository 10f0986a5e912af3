"""One container and its folders on the host, from the first byte of its tree to the last trace."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Collected
from overnight.contracts.spawning import Bounds, Ended, Lost, Profile, Usage
from overnight.executors import cgroups, cpu, records, survivors, trees
from overnight.executors.bubblewrap import freezes
from overnight.executors.collect import Choice, collect
from overnight.executors.diskwatch import DiskWatch, Quota
from overnight.executors.tree import Place, collapse, materialise
from overnight.spawner import shown
from overnight.spawner.engine import Engine, EngineDownError, Image
from overnight.spawner.flags import LABEL, Plan, container
from overnight.spawner.gate import OUTSIDE, ending, exit_word
from overnight.spawner.line import Line
from overnight.spawner.masks import lay_out

log = structlog.get_logger()

NAME = "docker"  #: of the executor, in errors
SANDBOX = "sandbox"  #: label: the spawner's own name of it
MANY_MOUNTS = 200  #: single frozen files before whole folders are frozen instead
MAX_MOUNTS = 2000
EMPTY_SECONDS = 10.0  #: for the kernel to end what was killed
FROZEN_SECONDS = 1.0  #: after which we ask whether somebody paused it


@dataclass
class Tally:
    """Since this process began. A number may be off by one while two threads add to it."""

    created: int = 0
    removed: int = 0
    refused: int = 0
    engine_up: int = 1
    unanswered: float | None = None  #: monotonic: when the engine last went away in a create


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was asked for, checked."""

    profile: Profile
    bounds: Bounds
    devices: tuple[str, ...]
    labels: Mapping[str, str]  #: the spawner's own and the runner's
    image: Image
    seccomp: str
    closed: Path  #: the folder that nobody may enter
    cgroup_root: Path
    roots: tuple[str, ...] = ()  #: what it shows lies below one of these; (): no such rule


class Container:
    """Used by one thread: its connection's."""

    def __init__(
        self,
        engine: Engine,
        order: Order,
        place: Place,
        slot: records.UserSlot | None,
        tally: Tally,
    ) -> None:
        self._tally = tally
        self._engine = engine
        self._order = order
        self._place = place
        self._slot = slot
        self._id: str | None = None
        self._filled = False
        self._unanswered = False  #: the engine never said whether it made one
        self._pid = self._handle = -1
        self._namespace = (0, 0)
        self._namespace_held = -1
        self._line: Line | None = None
        self._meter: cpu.CpuMeter | None = None
        self._group: cgroups.Group | None = None
        self._disk: DiskWatch | None = None
        self._frozen: tuple[str, ...] = ()
        self._opened_at: float | None = None
        self._due = math.inf  #: by the spawner's own timer, which nobody inside can stop
        self._ended_at: float | None = None
        self._oom = False
        self._killed = False
        self._over = ""
        self._paused = False  #: from outside: its time says nothing
        self._cpu_seconds = 0.0

    @property
    def image(self) -> str:
        """Its id."""
        return self._order.image.id

    @property
    def cpu_source(self) -> str:
        """Who counts its CPU."""
        return "proc" if self._meter is None else self._meter.source

    def launch(self, tree: Path, digest: str, frozen: Sequence[str]) -> tuple[int, int, int]:
        """Fill its folders, make it, and bring the command to its gate; stdout, stderr, and a

        handle of its first process.

        Raises SandboxUnavailableError; nothing of the container is left then.
        """
        if self._filled:
            # A candidate may live there, and what we write goes where its links lead.
            raise SandboxUnavailableError(NAME, "launch follows prepare, once")
        self._filled = True
        with _said("the snapshot could not be copied"):
            files = self._place.fill(tree)
            if trees.digest(self._place.work, sorted(files)) != digest:
                raise SandboxUnavailableError(NAME, "the snapshot changed while it was handed over")
        self._frozen = tuple(frozen)
        with _said("its pipes could not be made"):
            self._line = Line(self._place.scratch / "line")
        plan = self._plan(files, self._line)
        self._unanswered = True  # until it is: it may be made all the same
        try:
            self._id = self._engine.create(container(plan))
        except EngineDownError:
            self._tally.unanswered = time.monotonic()
            raise
        self._unanswered = False
        self._tally.created += 1
        try:
            self._pid = self._engine.start(self._id)
            self._adopt()
            shown.check(self._pid, self._order.profile, self._order.roots)
        except BaseException:
            self._remove_container()
            raise
        return self._line.stdout, self._line.stderr, self._handle

    def give(self) -> None:
        """The runner has its own copies of the reading ends."""
        if self._line is not None:
            self._line.give()

    def open(self, timer_seconds: float) -> None:
        """Let the command run."""
        if self._line is None or self._handle < 0 or self._opened_at is not None:
            raise SandboxUnavailableError(NAME, "open follows launch, once")
        if self._ended_at is not None:
            raise SandboxUnavailableError(NAME, "the container ended before it was opened")
        bounds = self._order.bounds
        self._disk = DiskWatch(
            self._place.scratch, Quota(bounds.disk_bytes, bounds.disk_files),
            self._members, self._too_much,
        )  # fmt: skip
        self._disk.__enter__()
        self._opened_at = time.monotonic()
        self._due = self._opened_at + timer_seconds
        self._line.say(f"{timer_seconds:.3f}\n".encode())

    def signs(self) -> tuple[tuple[int, ...], float | None]:
        """Descriptors to wait for, and how long at most, before `attend`."""
        if self._ended_at is not None or self._handle < 0:
            return (), None
        code = -1 if self._line is None else self._line.code
        left = None if math.isinf(self._due) else max(0.0, self._due - time.monotonic())
        return (self._handle, code) if code >= 0 else (self._handle,), left

    def attend(self) -> None:
        """Its first process is gone, its command is over, or its time: do what follows."""
        if _is_readable(self._handle, 0):
            self.has_ended()
        elif time.monotonic() >= self._due:
            self._due = math.inf
            self.kill()
        elif self._line is not None and self._line.code >= 0 and _is_readable(self._line.code, 0):
            self._line.say(exit_word(self._line.told()))

    def has_ended(self) -> None:
        """Its first process is gone, and so all others: note it while the kernel still counts."""
        if self._ended_at is None:
            self._ended_at = time.monotonic()
            self._count()
            if self._line is not None:
                self._line.end()

    def usage(self) -> Usage:
        """Now."""
        if self._ended_at is None:
            self._count()
            if self._line is not None and self._opened_at is not None:
                self._line.remind()
        resident = cpu.resident_bytes(self._members()) if self._ended_at is None else 0
        return Usage(cpu_seconds=self._cpu_seconds, resident_bytes=resident, over=self._over)

    def kill(self) -> None:
        """SIGKILL of its first process: the kernel then kills all others in it.

        One that has ended already was not ended by us, and `ended` says who did it.
        """
        if self._handle < 0:
            self._killed = True
            if self._id is not None:
                self._engine.kill(self._id)
            return
        self._signal()
        if self._id is not None and not _is_readable(self._handle, FROZEN_SECONDS):
            self._paused = self._engine.free(self._id) or self._paused

    def ended(self) -> Ended | Lost:
        """How it ended, once it has."""
        if self._id is None:
            raise SandboxUnavailableError(NAME, "it never ran")
        self._wait_empty()
        self.has_ended()
        alive = len(survivors.alive_in_namespace(self._namespace))
        try:
            stopped = self._engine.stopped(self._id, self._pid)
        except SandboxUnavailableError as error:
            return self._as_lost(error.reason, alive)
        if self._paused:
            lost = self._as_lost("the container was paused from outside", alive)
            return lost.model_copy(update={"stood_still": True})
        oom = stopped.oom or self._oom
        if stopped.exit_code == OUTSIDE and not self._killed and not oom:
            return self._as_lost("the container was killed from outside", alive)
        exit_code, number = ending(stopped.exit_code)
        opened, end = self._opened_at, self._ended_at
        return Ended(
            exit_code=exit_code, signal=number, oom=oom, survivors=alive, over=self._over,
            own_seconds=None if opened is None or end is None else end - opened,
            cpu_seconds=self._cpu_seconds,
        )  # fmt: skip

    def collect(self, what: str, into: Path) -> tuple[Collected, ...]:
        """Copy what it left in /out, or of its working directory what the profile keeps."""
        limit = self._order.bounds.out_bytes
        with _said("what the command left could not be taken"):
            if what == "out":
                return collect(self._place.out, into, limit)
            choice = Choice(self._order.profile.keep, self._frozen)
            return collect(self._place.work, into, limit, choice)

    def close(self) -> str | None:
        """Remove every trace; why something stayed, None if nothing did. Idempotent."""
        problem = self._remove_container()
        try:
            self._place.remove()
        except OSError as error:
            problem = problem or f"{self._place.scratch}: {error.strerror}"
        if problem is not None:
            log.error("sandbox_not_removed", scratch=str(self._place.scratch), reason=problem)
        elif self._slot is not None:
            self._slot.release()
            self._slot = None
        return problem

    # -- inside ---------------------------------------------------------------------------------

    def _plan(self, files: list[str], line: Line) -> Plan:
        order, place = self._order, self._place
        user = os.geteuid() if place.owner is None else place.owner
        names = collapse(self._frozen, files, MANY_MOUNTS)
        if len(names) > MAX_MOUNTS:
            raise SandboxUnavailableError(NAME, f"{len(names)} frozen files: freeze folders")
        with _said("what is frozen could not be laid out"):
            sources = materialise(place.work, names, order.profile.reads)
            passwd, group = place.scratch / "passwd", place.scratch / "group"
            passwd.write_text(
                "root:x:0:0:root:/nonexistent:/bin/false\n"
                f"overnight:x:{user}:{user}::/tmp/home:/bin/sh\n"
            )
            group.write_text(f"root:x:0:\novernight:x:{user}:\n")
            for file in (passwd, group):
                file.chmod(0o644)
            masks = lay_out(place.scratch, order.closed, order.profile.reads)
        return Plan(
            profile=order.profile, bounds=order.bounds, image=order.image.id,
            image_env=order.image.env, user=user, work=str(place.work), out=str(place.out),
            masks=masks, line=str(line.folder), passwd=str(passwd), group=str(group),
            frozen=freezes(str(place.work), sources), labels=order.labels,
            devices=order.devices, seccomp=order.seccomp,
        )  # fmt: skip

    def _adopt(self) -> None:
        """Handles of its first process, before the command runs."""
        try:
            self._handle = os.pidfd_open(self._pid)
            place = Path(f"/proc/{self._pid}/cgroup").read_text()
            # Held open, the number can't be given to another namespace while we compare.
            self._namespace_held = os.open(f"/proc/{self._pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            self._namespace = survivors.namespace_of(self._pid)
        except OSError as error:
            reason = "the spawner does not see the container's processes: run it on the engine's "
            raise SandboxUnavailableError(
                NAME, reason + "host, or in a container with `pid: host`"
            ) from error
        self._group = cgroups.of(self._pid, self._order.cgroup_root) if place else None
        if self._group is not None and self._group.cpu_seconds() is not None:
            self._meter = cpu.CgroupMeter(self._group)
        else:
            self._meter = cpu.ProcMeter(self._members)

    def _members(self) -> list[int]:
        return survivors.descendants(self._pid) if self._pid > 0 else []

    def _count(self) -> None:
        if self._meter is not None:
            self._cpu_seconds = self._meter.read()
        if self._group is not None and self._group.oom_kills():
            self._oom = True

    def _too_much(self, over: str) -> None:
        """From the disk watch's thread."""
        self._over = over
        self._signal()

    def _signal(self) -> None:
        if _is_readable(self._handle, 0):
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _as_lost(self, why: str, alive: int) -> Lost:
        return Lost(lost=why, survivors=alive, cpu_seconds=self._cpu_seconds)

    def _wait_empty(self) -> bool:
        return self._handle < 0 or _is_readable(self._handle, EMPTY_SECONDS)

    def _remove_container(self) -> str | None:
        """The container, and all that this process holds of it; why it stays, if it does."""
        empty = True
        if self._id is not None:
            self.kill()
            empty = self._wait_empty()
        if self._disk is not None:
            self._disk.__exit__()
            self._disk = None
        try:
            if self._unanswered:
                self._find()
            if self._id is not None:
                self._engine.remove(self._id)
                self._tally.removed += 1
        except SandboxUnavailableError as error:
            return f"a container can't be removed: {error.reason}"
        if self._line is not None:
            self._line.close()
            self._line = None
        for descriptor in (self._handle, self._namespace_held):
            if descriptor >= 0:
                os.close(descriptor)
        self._handle = self._namespace_held = -1
        self._id = None
        return None if empty else "processes of a container can't be ended"

    def _find(self) -> None:
        """The engine was asked to make it, and went away before it answered."""
        name = f"{LABEL}{SANDBOX}"
        found = self._engine.labelled({name: self._order.labels[SANDBOX]})
        self._id = next(iter(found), None)
        self._unanswered = False


def _is_readable(handle: int, seconds: float) -> bool:
    """Of a process: has it ended?"""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxUnavailableError(NAME, f"{what}: {error.strerror or error}") from error
