"""setup and prepare: the only use cases that install or fetch anything. Each is planned first."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from overnight.configuration import LOOP_FILE, ResolvedLoop, resolve_loop
from overnight.configuration.interpreter import find_python
from overnight.configuration.plain_file import read_plain
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.ledger.lock import hold
from overnight.ledger.stamp import utc_label
from overnight.sessions.locate import sessions_beside
from overnight.sessions.sources import MAX_FILE_BYTES
from overnight.snapshots.root import prepare_root

RUNNING, DONE, FAILED = "running", "done", "failed"
STAMP, LOCK = "prepare.json", "prepare.lock"
EVALUATOR = "prepare.py"
_SEQ_LEN = re.compile(r"^(MAX_SEQ_LEN\s*(?::\s*int\s*)?=\s*)([0-9_]+)", re.M)
#: Locks of tools that we don't drive -> the command that a person runs.
_OTHERS = {
    "poetry.lock": "poetry install",
    "pdm.lock": "pdm install",
    "environment.yml": "conda env create -f environment.yml, then activate it",
    "Pipfile.lock": "pipenv install",
}
#: Without one of these `setup` has nothing to go by.
REQUIREMENTS = ("uv.lock", *_OTHERS, "requirements.txt", "pyproject.toml")
_UV_INSTALL = "curl -LsSf https://astral.sh/uv/install.sh | sh"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command that will be run in the repository, and what it is for."""

    argv: tuple[str, ...]
    why: str
    cwd: Path | None = None  #: None: the repository


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be done, to be said before anything is."""

    root: Path
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What the last `prepare` of a repository did."""

    state: str  #: running (or killed while it was), done, failed
    argv: tuple[str, ...]
    at: str  #: UTC, when it began


def plan_setup(root: Path, environ: Mapping[str, str]) -> Plan:
    """How the repository's own lock or requirements become an environment.

    Raises:
        UsageError: uv is needed and missing, or another tool owns the lock; names the command.
    """
    path = environ.get("PATH", os.defpath)
    if (root / "uv.lock").exists():
        uv = shutil.which("uv", path=path)
        if uv is None:
            raise UsageError(f"uv.lock, but no uv on the PATH: install it ({_UV_INSTALL})")
        argv = (uv, "sync", "--frozen")
        return Plan(root=root, steps=(Step(argv=argv, why="the environment of uv.lock"),))
    other = next((name for name in _OTHERS if (root / name).exists()), None)
    if other is not None and not (root / ".venv").exists():
        raise UsageError(f"{other} belongs to another tool: run `{_OTHERS[other]}` yourself")
    wanted = next((n for n in ("requirements.txt", "pyproject.toml") if (root / n).exists()), None)
    if wanted is None:
        return Plan(root=root, steps=(), notes=("no lock and no requirements: nothing to install",))
    python = root / ".venv" / "bin" / "python"
    steps = []
    if not python.exists():
        base = shutil.which("python3", path=path) or sys.executable
        steps.append(Step(argv=(base, "-m", "venv", str(root / ".venv")), why="an environment"))
    source = ("-r", wanted) if wanted.endswith(".txt") else ("-e", ".")
    pip = (str(python), "-m", "pip", "install", "--disable-pip-version-check", *source)
    steps.append(Step(argv=pip, why=f"what {wanted} names"))
    return Plan(root=root, steps=tuple(steps))


def plan_prepare(root: Path, argv: tuple[str, ...], environ: Mapping[str, str]) -> Plan:
    """The command that fetches and prepares the data, with the repository's own interpreter."""
    words = list(argv)
    if words[:2] == ["uv", "run"]:
        words = words[2:]
        words = ["python", *words] if words[:1] and words[0].endswith(".py") else words
    if words and re.fullmatch(r"python(?:3(?:\.\d+)?)?", words[0]):
        words[0] = str(find_python(root, _python(root, environ), environ)[0])
    step = Step(argv=tuple(words), why="trusted, with network, once")
    return Plan(root=root, steps=(step,))


def carry_out(plan: Plan, environ: Mapping[str, str], before: Callable[[Step], None]) -> int:
    """Run the steps until one fails; its exit code. Their output goes where ours goes.

    *before* is told of each step.

    Raises:
        UsageError: a program can't be started.
    """
    for step in plan.steps:
        before(step)
        try:
            done = subprocess.run(
                step.argv, cwd=step.cwd or plan.root, env=dict(environ), stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(), check=False,
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"{step.argv[0]}: {error.strerror}") from error
        if done.returncode != 0:
            return done.returncode
    return 0


def is_due(loop: ResolvedLoop) -> bool:
    """Is there a `prepare:` that did not end well yet, or whose data went away since?"""
    if loop.config.prepare is None:
        return False
    stamp = read_stamp(loop.session_root)
    missing = any(not Path(read).exists() for read in loop.config.reads)
    return missing or stamp is None or stamp.state != DONE


def carry_out_prepare(
    plan: Plan,
    session_root: Path,
    environ: Mapping[str, str],
    before: Callable[[Step], None],
    name: str = STAMP,
) -> int:
    """`carry_out`, by one process at a time, with a stamp *name* that says how it ended.

    Raises:
        SessionHeldError: another `prepare` of this repository runs; names its pid.
        UsageError, InfrastructureError: the folder for the stamp can't be written.
    """
    prepare_root(session_root, plan.root)
    lock = hold(
        session_root / LOCK,
        lambda pid: f"`overnight prepare` runs already in {plan.root} (pid {pid}): wait for it",
    )
    try:
        stamp = Stamp(state=RUNNING, argv=plan.steps[0].argv, at=utc_label())
        write_stamp(session_root, stamp, name)
        code = carry_out(plan, environ, before)
        state = DONE if code == 0 else FAILED
        write_stamp(session_root, Stamp(state=state, argv=stamp.argv, at=stamp.at), name)
        return code
    finally:
        os.close(lock)


def read_stamp(session_root: Path, name: str = STAMP) -> Stamp | None:
    """What the last `prepare` left; None when it left nothing that can be read."""
    try:
        value = json.loads((session_root / name).read_text("utf-8"))
        return Stamp(
            state=str(value["state"]),
            argv=tuple(map(str, value["argv"])),
            at=str(value["at"])[:40],
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_stamp(session_root: Path, stamp: Stamp, name: str = STAMP) -> None:
    """Put *stamp* there whole. Raises InfrastructureError."""
    text = json.dumps({"state": stamp.state, "argv": list(stamp.argv), "at": stamp.at})
    _replace(session_root / name, text + "\n")


def set_seq_len(root: Path, length: int, environ: Mapping[str, str]) -> str:
    """Set MAX_SEQ_LEN in prepare.py. What was done, in one line.

    Raises:
        UsageError: a session exists, and its results could not be compared any more; or there is
            no such constant.
    """
    path = root / EVALUATOR
    sessions = sessions_beside(_session_root(root, environ))
    if sessions:
        raise UsageError(
            f"MAX_SEQ_LEN is fixed for session {sessions[0].tag}: results of another value can't "
            f"be compared; for a new comparison track edit {EVALUATOR} and run with --tag NAME"
        )
    data = read_plain(path, MAX_FILE_BYTES)
    try:
        text = data.decode("utf-8") if data is not None else None
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise UsageError(f"--seq-len: no {EVALUATOR} to read in {root}")
    match = _SEQ_LEN.search(text)
    if match is None:
        raise UsageError(f"--seq-len: {EVALUATOR} has no line MAX_SEQ_LEN = NUMBER")
    line = text.count("\n", 0, match.start()) + 1
    if int(match[2]) == length:
        return f"{EVALUATOR}:{line} MAX_SEQ_LEN is {length} already"
    _replace(path, f"{text[: match.start(2)]}{length}{text[match.end(2) :]}")
    return f"{EVALUATOR}:{line} MAX_SEQ_LEN {match[2]} -> {length}; fixed once a session exists"


def _session_root(root: Path, environ: Mapping[str, str]) -> Path:
    loop = loaded(root, environ)
    return loop.session_root if loop is not None else root / "sandbox"


def loaded(root: Path, environ: Mapping[str, str]) -> ResolvedLoop | None:
    """The bindings, where there are any. Raises ConfigError."""
    if not (root / LOOP_FILE).exists():
        return None
    return resolve_loop(root, flags={}, environ=environ)


def _python(root: Path, environ: Mapping[str, str]) -> str:
    loop = loaded(root, environ)
    return loop.config.python if loop is not None else "auto"


def _replace(path: Path, text: str) -> None:
    """*text* in place of *path*, with its mode, whole or not at all. Raises InfrastructureError."""
    temporary = path.with_name(f".overnight-{secrets.token_hex(6)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise InfrastructureError(f"{path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
