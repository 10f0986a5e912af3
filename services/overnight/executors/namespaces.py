"""A sandbox made of Linux namespaces: starts bubblewrap, holds it at the gate, ends it for sure."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import resource
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Limits
from overnight.executors import cgroups, cpu, seccomp, survivors
from overnight.executors.bubblewrap import (
    HOSTNAME,
    Descriptors,
    Layout,
    Tools,
    chain,
    freezes,
    options,
)
from overnight.executors.cage import (
    NAME,
    SECOND_TIMER_SECONDS,
    START_SECONDS,
    Ending,
    unavailable,
)
from overnight.executors.lifeguard import Lifeguard
from overnight.executors.tree import collapse, materialise

MANY_MOUNTS = 200  #: single frozen files before whole folders are frozen instead
MAX_MOUNTS = 2000  #: what bubblewrap takes, and half a second
NPROC_PER_NAMESPACE = (5, 14)  #: kernels before it count a user's processes on the whole host
#: Joins the control groups as itself, then becomes bubblewrap.
ENTER = 'while [ "$1" != -- ]; do { echo 0 >"$1"; } 2>/dev/null || :; shift; done; shift; exec "$@"'
REAP_SECONDS = 10.0
REMAINS = 64 * 1024  #: of bubblewrap's own messages


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is known of a sandbox before its snapshot is there."""

    tools: Tools
    layout: Layout  #: without what is frozen
    frozen: tuple[str, ...]
    command: tuple[str, ...]
    limits: Limits
    token: str
    cgroup_root: Path
    cgroup_own: str
    guard: Lifeguard


class NamespaceCage:
    """One bubblewrap process and all inside it."""

    isolation = "namespaces"
    image: str | None = None

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None
        self._gate: socket.socket | None = None
        self._open: list[int] = []  #: descriptors to close at the end
        self._status = self._outer = self._first = self._pid = -1
        self._streams = (-1, -1)
        self._namespace = (0, 0)
        self._group: cgroups.Group | None = None
        self._perf: cpu.PerfMeter | None = None

    def launch(self, snapshot_files: list[str]) -> None:
        """Set everything up; the command waits at the gate. Raises SandboxUnavailableError."""
        with unavailable("the sandbox did not start"):
            layout = self._with_frozen(snapshot_files)
            self._group = cgroups.create(
                f"overnight-{self._plan.token}", self._plan.limits,
                self._plan.cgroup_root, self._plan.cgroup_own,
            )  # fmt: skip
            block = self._spawn(layout)
            try:
                self._adopt(self._read_child())
            finally:
                os.close(block)  # lets its first process go on
            self._wait_at_gate()

    def streams(self) -> tuple[int, int]:
        """Descriptors of stdout and stderr."""
        return self._streams

    def exits(self) -> tuple[int, ...]:
        """Bubblewrap itself, and the first process inside: the kernel ends that one last."""
        return self._outer, self._first

    def meter(self) -> cpu.CpuMeter:
        """The best that this host has; counts from now on."""
        if self._group is not None and self._group.cpu_seconds() is not None:
            return cpu.CgroupMeter(self._group)
        if self._perf is not None:
            self._perf.restart()
            return self._perf
        return cpu.ProcMeter(self.members)

    def open(self, wall_seconds: float) -> None:
        """Let the command run, with the second timer armed."""
        if self._gate is None:
            raise RuntimeError("open before launch")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # killed before
            self._gate.sendall(f"{wall_seconds + SECOND_TIMER_SECONDS:.3f}\n".encode())

    def kill(self) -> None:
        """SIGKILL the namespace's first process: the kernel then kills all others in it."""
        for descriptor in (self._first, self._outer):
            if descriptor >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            if descriptor == self._first >= 0:
                return  # bubblewrap itself then tells how it ended

    def ending(self) -> Ending:
        """After the end. A code above 128 is read as a signal, as every shell writes it."""
        codes = [line["exit-code"] for line in self._status_lines() if "exit-code" in line]
        if not codes:
            raise SandboxUnavailableError(NAME, "the sandbox was killed from outside")
        code = int(codes[-1])
        if 128 < code < 128 + signal.NSIG:
            return Ending(exit_code=None, signal=code - 128)
        return Ending(exit_code=code, signal=None)

    def own_seconds(self) -> float | None:
        """After the end: how long it ran by a clock inside; None when that one was killed too."""
        if self._gate is None:
            return None
        self._gate.setblocking(False)
        try:
            # Peeked at: it may be asked again.
            began, ended = self._gate.recv(100, socket.MSG_PEEK).split()
            return float(ended) - float(began)
        except (OSError, ValueError):
            return None

    def members(self) -> list[int]:
        """Live processes inside, cheaply."""
        pids = self._group.pids() if self._group is not None else []
        return pids or survivors.descendants(self._pid)

    def resident_bytes(self) -> int:
        """Of all members."""
        return cpu.resident_bytes(self.members())

    def proportional_bytes(self) -> int:
        """Of all members."""
        return cpu.proportional_bytes(self.members())

    def oom_kills(self) -> int:
        """Processes that the kernel killed in it for memory."""
        return self._group.oom_kills() if self._group is not None else 0

    def limits_memory(self) -> bool:
        """Does the kernel itself hold the sandbox to its memory limit?"""
        return self._group is not None and self._group.limits_memory()

    def survivors(self) -> int:
        """Live processes of its PID namespace, from /proc of the host."""
        return len(survivors.alive_in_namespace(self._namespace))

    def close(self) -> bool:
        """Kill, reap and free everything; False if something stayed on the host."""
        gone = self._reap()
        if self._gate is not None:
            self._gate.close()
        if self._perf is not None:
            self._perf.close()
            self._perf = None
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
        self._status = self._outer = self._first = -1
        removed = self._group is None or self._group.remove()
        self._group = None
        return gone and removed

    def _with_frozen(self, snapshot_files: list[str]) -> Layout:
        layout = self._plan.layout
        frozen = collapse(self._plan.frozen, snapshot_files, MANY_MOUNTS)
        if len(frozen) > MAX_MOUNTS:
            raise SandboxUnavailableError(NAME, f"{len(frozen)} frozen files: freeze folders")
        sources = materialise(Path(layout.work), frozen, layout.reads)
        return replace(layout, frozen=freezes(layout.work, sources))

    def _spawn(self, layout: Layout) -> int:
        """Start bubblewrap; the descriptor that holds it before its first fork."""
        self._status, status = os.pipe()
        hold, block = os.pipe()
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        self._streams = (out, err)
        self._open += [self._status, out, err]
        self._gate, stdin = socket.socketpair()
        passed = [status, hold]
        try:
            with _files(layout, passed) as fds:
                arguments = _memory_file(b"".join(o.encode() + b"\0" for o in options(layout, fds)))
                passed.append(arguments)
                enter = self._enter()
                inner = chain(layout, self._plan.tools, self._plan.token, self._plan.command)
                self._process = subprocess.Popen(
                    [*enter, self._plan.tools.bwrap, "--args", str(arguments), "--", *inner],
                    env={},  # the candidate may read the environment of PID 1
                    stdin=stdin.fileno(), stdout=stdout, stderr=stderr,
                    pass_fds=passed, cwd="/", process_group=self._plan.guard.group(),
                )  # fmt: skip
        except OSError:
            os.close(block)
            raise
        finally:
            stdin.close()
            for descriptor in (*passed, stdout, stderr):
                os.close(descriptor)
        self._outer = os.pidfd_open(self._process.pid)
        self._open.append(self._outer)
        return block

    def _enter(self) -> tuple[str, ...]:
        entrances = self._group.entrances() if self._group is not None else ()
        return ("/bin/sh", "-c", ENTER, "sh", *entrances, "--") if entrances else ()

    def _read_child(self) -> int:
        """The namespace's first process, as soon as bubblewrap tells."""
        text = b""
        until = time.monotonic() + START_SECONDS
        while b"\n" not in text:
            ready, _, _ = select.select([self._status], [], [], max(0, until - time.monotonic()))
            piece = os.read(self._status, 4096) if ready else b""
            if not piece:
                raise self._failed()
            text += piece
        return int(json.loads(text.splitlines()[0])["child-pid"])

    def _adopt(self, pid: int) -> None:
        """Limits, counting and handles, while it has no child yet."""
        self._pid = pid
        self._first = os.pidfd_open(pid)
        self._open.append(self._first)
        # Held open, the number can't be given to another namespace while we compare.
        self._open.append(os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC))
        self._namespace = survivors.namespace_of(pid)
        limits = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: self._plan.limits.file_bytes,
            resource.RLIMIT_NOFILE: self._plan.limits.open_files,
        }
        if self._plan.layout.uid is not None or _kernel() >= NPROC_PER_NAMESPACE:
            limits[resource.RLIMIT_NPROC] = self._plan.limits.pids
        for what, wanted in limits.items():
            _, hardest = resource.prlimit(pid, what)
            value = wanted if hardest == resource.RLIM_INFINITY else min(wanted, hardest)
            resource.prlimit(pid, what, (value, value))
        if self._group is not None:
            try:
                self._group.add(pid)
            except OSError:
                self._group.remove()
                self._group = None
        if self._group is None:
            self._perf = cpu.open_perf(pid)

    def _wait_at_gate(self) -> None:
        """Until the shell inside says that all mounts stand."""
        answer = b""
        if self._gate is not None:
            self._gate.settimeout(START_SECONDS)
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                answer = self._gate.recv(1)
        if answer != b"\n":
            raise self._failed()

    def _failed(self) -> SandboxUnavailableError:
        self._reap()
        text = os.read(self._streams[1], REMAINS).decode(errors="replace")
        lines = text.strip().splitlines() or ["bubblewrap ended without a word"]
        return SandboxUnavailableError(NAME, f"the sandbox did not start: {lines[-1][:500]}")

    def _reap(self) -> bool:
        if self._process is None:
            return True
        self.kill()
        try:
            self._process.wait(timeout=REAP_SECONDS if self._first >= 0 else 0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._first < 0:
            return True
        poll = select.poll()
        poll.register(self._first, select.POLLIN)
        return bool(poll.poll(REAP_SECONDS * 1000))

    def _status_lines(self) -> list[dict[str, int]]:
        text = b""
        while piece := os.read(self._status, 4096):
            text += piece
        return [json.loads(line) for line in text.splitlines() if line.strip()]


@contextmanager
def _files(layout: Layout, passed: list[int]) -> Iterator[Descriptors]:
    """What bubblewrap reads instead of files; *passed* owns the descriptors from here on."""
    user = os.geteuid() if layout.uid is None else layout.uid
    group = os.getegid() if layout.uid is None else layout.uid
    status, block = passed

    def data(text: bytes) -> int:
        passed.append(_memory_file(text))
        return passed[-1]

    rules = seccomp.program(platform.machine())
    yield Descriptors(
        status=status,
        block=block,
        seccomp=None if rules is None else data(rules),
        passwd=data(
            b"root:x:0:0:root:/nonexistent:/bin/false\n"
            + f"overnight:x:{user}:{group}::/tmp/home:/bin/sh\n".encode()
        ),
        group=data(f"root:x:0:\novernight:x:{group}:\n".encode()),
        hosts=data(f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n".encode()),
    )


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("overnight")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _kernel() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def probe(plan: Plan) -> str | None:
    """Can this host do it at all? None, or why not in one line."""
    cage = NamespaceCage(plan)
    try:
        cage.launch([])
        cage.open(START_SECONDS)
        poll = select.poll()
        poll.register(cage.exits()[0], select.POLLIN)
        poll.poll(START_SECONDS * 1000)
        ending = cage.ending()
    except SandboxUnavailableError as error:
        return error.reason
    finally:
        cage.close()
    return None if ending.exit_code == 0 else f"a trial ended with {ending}"
