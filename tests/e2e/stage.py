"""A real session on stage: a toy repository and `overnight` as a process, in private folders.

All that belongs to it carries one mark, in its arguments or its environment, so that a checker
finds it from outside. Imports nothing of the services: it uses the command line alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from tests.e2e import procs

CGROUPS = Path("/sys/fs/cgroup")
RECORDS = Path(f"/tmp/overnight-locks-{os.geteuid()}")  #: the same for all sessions of a user

#: Four knobs for a proposer; how long it sleeps is frozen.
TRAIN = """\
import pace

LR = 0.1
WARMUP = 0.3
DECAY = 0.02
MOMENTUM = 0.8

pace.train()
gap = abs(LR - 0.05) + abs(WARMUP - 0.2) + abs(DECAY - 0.01) + abs(MOMENTUM - 0.9)
print("---")
print(f"val_bpb: {1 + gap:.9f}")
print("peak_vram_mb: 512.0")
"""
PACE = """\
import time

STEPS, STEP_SECONDS = 20, {step_seconds}


def train():
    for _ in range(STEPS):
        time.sleep(STEP_SECONDS)
"""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    output: str
    errors: str

    @property
    def last(self) -> dict[str, Any]:
        """The last line, as JSON."""
        value: dict[str, Any] = json.loads(self.output.splitlines()[-1])
        return value

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.output[-3000:]}\n{self.errors[-3000:]}"


@dataclass
class Play:
    """`overnight run` while it plays; its process is the supervisor."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def wait(self, seconds: float) -> Finished:
        """Until it has ended by itself."""
        code = self.process.wait(seconds)
        texts = (path.read_text(errors="replace") for path in (self.output, self.errors))
        return Finished(code, *texts)

    @property
    def over(self) -> bool:
        """Has it ended?"""
        return self.process.poll() is not None

    def kill(self) -> None:
        """SIGKILL for the supervisor, nothing else."""
        self.process.kill()
        self.process.wait()


@dataclass
class Stage:
    """One repository with its session."""

    folder: Path
    mark: str = field(default_factory=lambda: f"mark-{os.urandom(8).hex()}")
    environment: dict[str, str] = field(default_factory=dict)
    sandboxes: set[str] = field(default_factory=set)  #: names of their control groups, as seen
    entry: tuple[str, ...] = ("-m", "overnight.cli")  #: what Python runs for a verb
    _plays: int = 0

    @property
    def repo(self) -> Path:
        """The user's folder."""
        return self.folder / "repo"

    @property
    def root(self) -> Path:
        """The session's folder."""
        return self.repo / "sandbox"

    @property
    def locks(self) -> Path:
        """Device locks, this stage's own: it waits for no other session's processors."""
        return self.folder / "locks"

    def write(self, files: Mapping[str, str]) -> None:
        """Put files into the repository."""
        for name, text in files.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def bind(self, **keys: object) -> None:
        """Write loop.run.yaml: a toy's defaults, and *keys*."""
        bindings: dict[str, object] = {
            "metric": {"name": "val_bpb", "direction": "minimize", "source": "stdout_line"},
            "run_cmd": ["python", "train.py", self.mark],
            "editable_files": ["train.py"],
            "budget": 5,
            "deadline_seconds": 60,
            "proposer": {"name": "random"},
            "pools": {"default": {"runners": 2}},
            "gpus": 0,  # whoever tests on a machine with one would be refused two runners
            **keys,
        }
        self.write({"loop.run.yaml": yaml.safe_dump(bindings)})

    def toy(self, seconds: float = 0.1, **keys: object) -> None:
        """A repository whose training takes so long, bound."""
        self.write({"train.py": TRAIN, "pace.py": PACE.format(step_seconds=seconds / 20)})
        self.bind(**keys)

    def start(self, *words: str) -> Play:
        """Start a verb, most likely `run`, and let it run."""
        self._plays += 1
        output, errors = (self.folder / f"play{self._plays}.{end}" for end in ("out", "err"))
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                # Nothing of it outlives a test that is killed.
                ["setpriv", "--pdeathsig", "KILL", *self._argv(words)],
                env=self._env(), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
        Thread(target=self._watch_sandboxes, args=(process,), daemon=True).start()
        return Play(process, output, errors)

    def run(self, candidates: int, *words: str, seconds: float = 120) -> Finished:
        """A whole `overnight run` of the repository."""
        play = self.start("run", str(self.repo), "--max", str(candidates), "--json", *words)
        return play.wait(seconds)

    def ask(self, *words: str, seconds: float = 60) -> Finished:
        """A verb that answers at once."""
        done = subprocess.run(
            self._argv(words), env=self._env(), cwd=self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr)

    def stack(self) -> dict[str, Any] | None:
        """What stack.json says, None when it is not there or says nothing yet."""
        with contextlib.suppress(OSError, ValueError):
            value: dict[str, Any] = json.loads((self.root / "stack.json").read_text())
            return value
        return None

    def service(self, name: str) -> procs.Process | None:
        """A live child of the stack, surely ours."""
        stack = self.stack()
        pid = stack["children"].get(name) if stack else None
        process = procs.look(pid) if pid else None
        return process if process in self.alive() else None

    def alive(self) -> list[procs.Process]:
        """Every live process of the session, from the supervisor to the candidates."""
        # Redis writes its title, with the socket's path, over its environment.
        return procs.marked(self.mark, str(self.folder))

    def candidates(self) -> list[procs.Process]:
        """Live processes whose arguments are those of run_cmd: candidates and what holds them."""
        return [p for p in self.alive() if self.mark in p.argv]

    def training(self) -> list[procs.Process]:
        """Live candidates themselves, without what holds them."""
        return [p for p in self.candidates() if p.argv[1:3] == ["train.py", self.mark]]

    def check_nothing_is_left(self, seconds: float = 3.0) -> None:
        """No process, mount, control group, sandbox record or socket folder of the session."""
        procs.wait_until(lambda: not self.alive(), seconds, "no process is left", 0.1)
        mounts = Path("/proc/self/mountinfo").read_text()
        assert str(self.folder) not in mounts, "a mount is left"
        assert self._records() == [], "the executor still has records of sandboxes"
        assert [p.name for p in self.locks.iterdir() if not p.name.endswith(".lock")] == []
        state = self.folder / "state"
        assert not state.exists(), "a socket folder is left"
        assert self.sandboxes, "no sandbox was seen"
        procs.wait_until(lambda: not self._groups(), seconds, "no control group is left", 0.2)

    def close(self) -> None:
        """End what is left of it, and remove the folder."""
        for process in self.alive():
            process.kill()
        for group in self._groups():
            with contextlib.suppress(OSError):
                os.rmdir(group)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _watch_sandboxes(self, process: subprocess.Popen[bytes]) -> None:
        """Note every sandbox's name while there is a record of it: others have such groups too."""
        while process.returncode is None:
            self.sandboxes |= {p.stem.replace("sandbox-", "overnight-") for p in self._records()}
            time.sleep(0.02)

    def _records(self) -> list[Path]:
        """The executor's records of this session's sandboxes; they lie with those of others."""
        found = []
        for path in RECORDS.glob("sandbox-*.json"):
            with contextlib.suppress(OSError):
                if str(self.root) in path.read_text(errors="replace"):
                    found.append(path)
        return found

    def _groups(self) -> list[str]:
        """Control groups of this session's sandboxes."""
        return [
            os.path.join(folder, name)
            for folder, names, _ in os.walk(CGROUPS)
            for name in names
            if name in self.sandboxes
        ]

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, *self.entry, *words]

    def _env(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        passed = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
        if "PYTHONPATH" in os.environ:  # we start elsewhere
            places = os.environ["PYTHONPATH"].split(os.pathsep)
            passed["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, places))
        return {
            **passed,
            "HOME": str(home),
            "STAGE_MARK": self.mark,
            "OVERNIGHT_STATE": str(self.folder / "state"),
            "OVERNIGHT_DEVICE_LOCKS": str(self.locks),
            **self.environment,
        }


@pytest.fixture
def stage() -> Iterator[Stage]:
    """An empty stage in a short folder; whatever a test leaves there is ended and removed."""
    made = Stage(Path(tempfile.mkdtemp(prefix="ovs-")))
    made.repo.mkdir()
    yield made
    made.close()


def until(condition: Any, seconds: float, what: str, play: Play) -> float:
    """Like `procs.wait_until`, but ends at once when the play does."""
    began = time.monotonic()
    while not condition():
        assert not play.over, f"the run ended before: {what}\n{play.wait(1)}"
        assert time.monotonic() - began < seconds, f"after {seconds} s still not: {what}"
        time.sleep(0.02)
    return time.monotonic() - began
