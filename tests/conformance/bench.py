"""What the executors' suites share: a bench that builds sandboxes, and the suites' own eyes.

The eyes read /proc and the file system themselves: they never ask the code under test.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overnight.contracts.execution import (
    Deadline,
    Execution,
    Executor,
    OutputSink,
    Sandbox,
    SandboxSpec,
)

LABELS = {"session": "conformance", "slot": "bench"}


@dataclass
class Run:
    """What one command did, seen by the caller."""

    execution: Execution
    chunks: list[tuple[str, bytes]]
    log: bytes

    def text(self, stream: str | None = None) -> str:
        """What came on one stream, or on both."""
        wanted = [chunk for name, chunk in self.chunks if stream in (None, name)]
        return b"".join(wanted).decode(errors="replace")


@dataclass
class Box:
    """One sandbox with the values it was made from."""

    sandbox: Sandbox
    spec: SandboxSpec
    answers: list[Execution] = field(default_factory=list)

    def wait(
        self, wall: float = 20.0, cpu: float | None = None, sink: OutputSink | None = None
    ) -> Run:
        """Run to the end."""
        chunks: list[tuple[str, bytes]] = []

        def keep(name: str, chunk: bytes) -> None:
            if sum(len(c) for _, c in chunks[-4:]) < 1_000_000:
                chunks.append((name, chunk))
            del chunks[:-200]
            if sink is not None:
                sink(name, chunk)

        execution = self.sandbox.wait(Deadline(wall_seconds=wall, cpu_seconds=cpu), keep)
        self.answers.append(execution)
        return Run(execution, chunks, self.spec.log_path.read_bytes())


@dataclass
class Bench:
    """Builds sandboxes below one folder, and removes them whatever happens."""

    executor: Executor
    root: Path
    python: Path = field(default_factory=lambda: Path(sys.executable))
    mark: str = field(default_factory=lambda: f"mark-{os.urandom(8).hex()}")
    boxes: list[Box] = field(default_factory=list)  #: all that were started
    _count: int = 0

    def snapshot(self, files: dict[str, str]) -> Path:
        """A tree as a snapshot would export it."""
        self._count += 1
        tree = self.root / f"snapshot-{self._count}"
        tree.mkdir()
        for name, text in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        return tree

    def spec(self, command: tuple[str, ...], **changes: Any) -> SandboxSpec:
        """A specification with the suite's defaults."""
        self._count += 1
        values: dict[str, Any] = {
            "sandbox_id": f"conformance-{self._count}",
            "labels": LABELS,
            "command": command,
            "env": {},
            "frozen": (),
            "reads": (),
            "interpreter": self.python,
            "scratch": self.root / f"scratch-{self._count}",
            "log_path": self.root / f"logs-{self._count}" / "run.log",
        }
        return SandboxSpec(**{**values, **changes})

    @contextlib.contextmanager
    def box(
        self, code: str, *arguments: str, files: dict[str, str] | None = None, **changes: Any
    ) -> Iterator[Box]:
        """A started sandbox whose train.py is *code*; its last argument is the bench's mark."""
        tree = self.snapshot({"train.py": code, **(files or {})})
        spec = self.spec(("python", "train.py", *arguments, self.mark), **changes)
        sandbox = self.executor.prepare(spec)
        try:
            sandbox.start(tree)
            self.boxes.append(Box(sandbox, spec))
            yield self.boxes[-1]
        finally:
            sandbox.destroy()

    def run(
        self, code: str, *arguments: str, wall: float = 20.0, cpu: float | None = None, **more: Any
    ) -> Run:
        """Run *code* to its end."""
        with self.box(code, *arguments, **more) as box:
            return box.wait(wall, cpu)


def alive(marker: str) -> list[int]:
    """Live processes that carry *marker* in arguments or environment, read from /proc."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = b""
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    words += Path(f"/proc/{entry}/{name}").read_bytes()
            state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
            if marker.encode() in words and state not in "ZX":
                found.append(int(entry))
    return found


def status(pid: int) -> dict[str, str]:
    """/proc/<pid>/status as seen from this host."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def until(what: Callable[[], bool], seconds: float) -> bool:
    """Does it become true in time?"""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def digest(tree: Path) -> str:
    """Of all names, modes and contents below *tree*."""
    total = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        total.update(f"{path.relative_to(tree)} {path.lstat().st_mode:o}\n".encode() + content)
    return total.hexdigest()


def traces(root: Path) -> set[str]:
    """All that sandboxes may leave below *root* but logs and locks: folders, files, mounts."""
    found = {str(path) for path in root.rglob("*") if path.suffix != ".lock"}
    found = {name for name in found if "/logs-" not in name and "/snapshot-" not in name}
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return found | {line for line in mounts if str(root) in line}


def groups(marker: str) -> set[Path]:
    """The control groups made for the processes that carry *marker*, while they live."""
    found = set()
    for pid in alive(marker):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                if "overnight-" in path:
                    found.add(Path("/sys/fs/cgroup") / controllers / path.lstrip("/"))
    return found


class Listener:
    """A service of the host that no candidate may reach: counts who connects."""

    def __init__(self, family: int, address: Any) -> None:
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.bind(address)
        self._socket.listen()
        self.address = self._socket.getsockname()
        self.visits = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.visits += 1
                connection.close()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=5)
