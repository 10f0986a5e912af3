"""Drives the real command line: a toy repository, private folders, plain pipes or a terminal."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from overnight.cli.__main__ import main

SERVICES = Path(__file__).parents[2] / "services"

TRAIN = """\
import time
LR = 0.1
time.sleep(SLEEP)
print("---")
print(f"val_bpb: {abs(LR - 0.5) + 1:.6f}")
print("peak_vram_mb: 512.0")
"""
LOOP = """\
metric: val_bpb
run_cmd: python train.py
editable_files: train.py
budget: 20
pools: {default: {runners: 1}}
"""


def make_repo(folder: Path, *, sleep: float = 0.2, train: str = TRAIN, loop: str = LOOP) -> Path:
    """A repository outside git whose training takes *sleep* seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(train.replace("SLEEP", str(sleep)))
    (folder / "loop.run.yaml").write_text(loop)
    return folder


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """One JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """`overnight` with an environment of its own, below *base*."""

    def __init__(self, base: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("OVERNIGHT_")}
        for name in ("REDIS_URL", "VIRTUAL_ENV", "CONDA_PREFIX"):
            kept.pop(name, None)
        self.env = {
            **kept,
            "PYTHONPATH": str(SERVICES),
            "OVERNIGHT_STATE": str(base / "state"),
            "OVERNIGHT_DEVICE_LOCKS": str(base / "locks"),
            "OVERNIGHT_ORCHESTRATOR_POLL_SECONDS": "0.1",
        }

    def argv(self, *words: object) -> list[str]:
        """The command's words."""
        return [sys.executable, "-m", "overnight.cli", *map(str, words)]

    def __call__(self, *words: object, cwd: Path | None = None, seconds: float = 60.0) -> Done:
        """Run it to its end."""
        ran = subprocess.run(
            self.argv(*words),
            cwd=cwd,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Done(ran.returncode, ran.stdout, ran.stderr)

    def inside(self, *words: object) -> Done:
        """The same in this process: fast, for verbs that only read or refuse."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, self.env, clear=True),
        ):
            code = main([str(word) for word in words])
        return Done(code, out.getvalue(), err.getvalue())

    def start(self, *words: object, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start it; the caller ends it (`Popen` as context manager, or `finish`)."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=cwd,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )


def finish(process: subprocess.Popen[str], seconds: float = 60.0) -> Done:
    """Its output and code; killed when it takes too long."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Done(process.returncode, out, err)


def until(process: subprocess.Popen[str], **wanted: object) -> list[dict[str, Any]]:
    """Read its JSON lines up to the first one with these fields."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if wanted.items() <= seen[-1].items():
            return seen
    words = process.stderr.read() if process.stderr else ""
    raise AssertionError(f"no line with {wanted}: {seen[-3:]}; {words}")


@contextlib.contextmanager
def on_a_terminal(cli: Cli, *words: object) -> Iterator[tuple[int, int]]:
    """(pid, fd of the terminal's other end) of the command on a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, cli.argv(*words), {**cli.env, "TERM": "xterm-256color"})
    try:
        yield pid, terminal
    finally:
        with contextlib.suppress(OSError):
            os.close(terminal)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def read_terminal(terminal: int, until_text: str | None = None, seconds: float = 60.0) -> str:
    """What appears until that text, or until the program ends."""
    seen = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if not ready:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
        if until_text is not None and until_text in seen.decode(errors="replace"):
            break
    else:
        raise AssertionError(f"not in {seconds} s: {until_text!r}; seen {seen[-2000:]!r}")
    return seen.decode(errors="replace")


def exit_code(pid: int, seconds: float = 60.0) -> int:
    """Wait for a child that is not ours through `subprocess`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    raise AssertionError(f"{pid} still runs after {seconds} s")


def processes_with(mark: str) -> list[str]:
    """Command lines of living processes that hold *mark*."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if mark in line and state != "Z":
                found.append(f"{entry.name} {line}")
    return found


def wait_for_none(mark: str, seconds: float) -> list[str]:
    """What still lives with *mark* after so long; returns early when nothing does."""
    deadline = time.monotonic() + seconds
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def fingerprint(folder: Path) -> dict[str, str]:
    """Every path below with what it is and holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder"
    return found
