"""What walls cost: how long until a command's first line, and from there until nothing is left."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.execution import Deadline, Execution, Executor, Exit, SandboxSpec
from overnight.plugins import EXECUTORS, load
from overnight.sessions.engine import facts
from overnight.sessions.spawning import executor_options

COMMAND = ("/bin/sh", "-c", "echo up")  #: what it does takes no time, so that the walls' is seen
DEADLINE_SECONDS = 60.0
BARE, PROCESS, CONTAINER = "bare process", "sandboxed process", "container"


@dataclass(frozen=True)
class Sample:
    """One start."""

    start_seconds: float  #: from the wish to the first line
    gone_seconds: float  #: from there, which is its end, to all traces removed


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of walls: medians, seconds."""

    name: str
    isolation: str
    start_seconds: float
    gone_seconds: float
    total_seconds: float
    ratio: float  #: of the totals, to a bare process


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All kinds, taken in turn so that they share the machine's mood."""

    pairs: int
    rows: tuple[Row, ...]
    image: str | None  #: id of what the containers were of
    missing: str | None  #: why there is no row of containers


Start = Callable[[], Sample]


def compare(
    pairs: int,
    environ: Mapping[str, str],
    image: str | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Each kind *pairs* times, after one round that is not counted.

    image: what containers are of; None: what the spawner is set to.
    tell: called with the number of rounds done.

    Raises:
        InfrastructureError: a sandbox of this host can't be had at all, or is lost.
    """
    with tempfile.TemporaryDirectory(prefix="overnight-startup-") as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "tree").mkdir()
        options = stack.enter_context(executor_options("process", folder, (), environ))
        process = _Walls(load(EXECUTORS, "process")(options), folder, None)
        starts: dict[str, Start] = {BARE: bare, PROCESS: process.sample}
        isolations = {BARE: "none", PROCESS: process.executor.isolation}
        missing, container = None, None
        try:
            facts(environ)
            options = stack.enter_context(executor_options("docker", folder, (), environ))
            container = _Walls(load(EXECUTORS, "docker")(options), folder, image)
            container.sample()
        except InfrastructureError as error:
            missing = str(error)
        else:
            starts[CONTAINER], isolations[CONTAINER] = container.sample, "container"
        found: dict[str, list[Sample]] = {kind: [] for kind in starts}
        for done in range(pairs + 1):
            for kind, start in starts.items():
                sample = start()
                if done:
                    found[kind].append(sample)
            tell(done)
        seen = None if container is None else container.image
    return Comparison(pairs=pairs, rows=_rows(found, isolations), image=seen, missing=missing)


def bare() -> Sample:
    """Without any walls."""
    began = time.monotonic()
    with subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # it is a pipe
        process.stdout.readline()
        first = time.monotonic()
    return Sample(first - began, time.monotonic() - first)


@dataclass
class _Walls:
    """An executor, and where its sandboxes lie."""

    executor: Executor
    folder: Path
    asked: str | None
    image: str | None = None  #: id, once one was seen
    _count: int = 0

    def sample(self) -> Sample:
        """One sandbox, from the wish to its removal."""
        self._count += 1
        home = self.folder / f"{self.executor.name}-{self._count}"
        home.mkdir()
        spec = SandboxSpec(
            sandbox_id=f"startup-{self._count}", labels={"bench": "startup"}, command=COMMAND,
            env={}, frozen=(), reads=(), interpreter=None, scratch=home / "sandbox",
            log_path=home / "run.log", image=self.asked,
        )  # fmt: skip
        lines: list[float] = []
        began = time.monotonic()
        sandbox = self.executor.prepare(spec)
        try:
            sandbox.start(self.folder / "tree")
            deadline = Deadline(wall_seconds=DEADLINE_SECONDS)
            ended = sandbox.wait(deadline, partial(_note, lines))
        finally:
            sandbox.destroy()
        gone = time.monotonic()
        self._check(ended, lines, spec.log_path)
        return Sample(lines[0] - began, gone - lines[0])

    def _check(self, ended: Execution, lines: list[float], log: Path) -> None:
        if not lines or ended.exit is not Exit.EXITED or ended.exit_code != 0:
            said = log.read_text(errors="replace")[-200:].strip()
            how = f"{ended.exit.value}, exit code {ended.exit_code}"
            raise InfrastructureError(f"{COMMAND[-1]!r} ended with {how}: {said or 'no output'}")
        self.image = ended.image


def _note(lines: list[float], stream: str, chunk: bytes) -> None:
    lines.append(time.monotonic())


def _rows(found: Mapping[str, list[Sample]], isolations: Mapping[str, str]) -> tuple[Row, ...]:
    medians = {
        kind: (
            statistics.median(sample.start_seconds for sample in samples),
            statistics.median(sample.gone_seconds for sample in samples),
            statistics.median(s.start_seconds + s.gone_seconds for s in samples),
        )
        for kind, samples in found.items()
    }
    bare_seconds = medians[BARE][2]
    return tuple(
        Row(
            name=kind,
            isolation=isolations[kind],
            start_seconds=start,
            gone_seconds=gone,
            total_seconds=total,
            ratio=total / bare_seconds,
        )
        for kind, (start, gone, total) in medians.items()
    )
