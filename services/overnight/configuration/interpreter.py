"""Finds the user's own Python and turns run_cmd into a program that can be started.

Resolved once a session: nothing is installed, synchronised or fetched, also not by uv.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts.errors import UsageError
from overnight.contracts.loop import LoopConfig

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?\Z")
#: Options of `uv run` that change nothing when the environment is used as it is.
UV_FLAGS = frozenset(
    {"--no-sync", "--offline", "--frozen", "--locked", "--quiet", "-q", "--active", "--no-progress"}
)

OWN = "Overnight's own"  #: why: nothing else was found
IMAGES = "the image's own"  #: why: a container has the programs of its image


@dataclass(frozen=True, kw_only=True)
class ResolvedCommand:
    """What a runner starts."""

    python: Path | None  #: the interpreter; its prefixes must be visible in the sandbox.
    #: None: the image's own
    argv: tuple[str, ...]  #: argv[0] is absolute, relative to the candidate's tree, or with an
    #: image a program on its PATH
    origin: str  #: why this interpreter


def resolve_command(repo: Path, config: LoopConfig, environ: Mapping[str, str]) -> ResolvedCommand:
    """The interpreter and the arguments of *config*'s run_cmd.

    Raises:
        UsageError: no such program, a broken environment, or uv without one.
    """
    words = without_uv(config.run_cmd)
    if config.in_container and config.python == "auto":
        return ResolvedCommand(python=None, argv=words, origin=IMAGES)
    python, origin = find_python(repo, config.python, environ)
    program = words[0]
    if _PYTHON.match(program):
        argv = (str(python), *words[1:])
    elif "/" in program:
        # What a container has only its engine can see.
        if os.path.isabs(program) and not (config.in_container or os.access(program, os.X_OK)):
            raise UsageError(f"run_cmd: {program} is no program that can be run")
        argv = words
    else:
        found = _beside(program, python)
        if found is None and not config.in_container:
            found = _on_path(program, python, environ)
        argv = (found or program, *words[1:])
    return ResolvedCommand(python=python, argv=argv, origin=origin)


def resolve_python(repo: Path, config: LoopConfig, environ: Mapping[str, str]) -> Path:
    """The interpreter alone. Raises UsageError like `resolve_command`."""
    return find_python(repo, config.python, environ)[0]


def find_python(repo: Path, wanted: str, environ: Mapping[str, str]) -> tuple[Path, str]:
    """The interpreter that the binding `python: wanted` means, and why it is that one.

    Raises:
        UsageError: it can't be run; or the repository is locked and has no environment yet.
    """
    if wanted != "auto":
        path = repo / Path(wanted)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise UsageError(f"python: {wanted} is no program that can be run")
        return path, "python:"
    own = repo / (environ.get("UV_PROJECT_ENVIRONMENT") or ".venv")
    for folder, why in _environments(repo, own, environ):
        found = _in_environment(folder)
        if found is not None:
            return found, why
    if (repo / "uv.lock").exists():
        raise UsageError(
            f"uv.lock, but {own} does not exist: run `overnight setup`, or run `uv sync` in "
            f"{repo}, or name another one under `python:` (candidates have no network)"
        )
    return Path(sys.executable), OWN


def _environments(repo: Path, own: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Where the user's environment may be, the likeliest first. One that is active because
    Overnight itself is installed there says nothing about the repository."""

    def active(name: str) -> Iterator[tuple[Path, str]]:
        folder = Path(environ.get(name) or sys.prefix)
        if os.path.realpath(folder) != os.path.realpath(sys.prefix):
            yield folder, name

    yield own, own.name
    yield from active("VIRTUAL_ENV")
    for above in _above(repo):
        yield above / ".venv", os.path.relpath(above / ".venv", repo)
    yield from active("CONDA_PREFIX")


def shown_python(python: Path, repo: Path) -> str:
    """*python* as one types it in the repository."""
    return str(python.relative_to(repo)) if python.is_relative_to(repo) else str(python)


def _above(repo: Path) -> list[Path]:
    """The folders above a part of a git repository, up to its root: where a workspace has its
    environment."""
    if (repo / ".git").exists():
        return []
    above: list[Path] = []
    for folder in repo.absolute().parents:
        above.append(folder)
        if (folder / ".git").exists():
            return above
    return []  # no repository: what lies above is none of ours


def _in_environment(folder: Path) -> Path | None:
    """The interpreter of a virtual environment. Its link is kept: it is how Python finds it."""
    python = folder / "bin" / "python"
    if not python.is_symlink() and not python.exists():
        return None
    if not os.access(python, os.X_OK):
        raise UsageError(f"{python} leads nowhere: recreate the environment {folder}")
    return python.absolute()


def without_uv(command: tuple[str, ...], key: str = "run_cmd") -> tuple[str, ...]:
    """`uv run [flags] X ...` as the command that uv would start in the environment as it is.

    Raises:
        UsageError: names *key*; another use of uv.
    """
    if command[0] != "uv":
        return command
    if command[1:2] != ("run",):
        raise UsageError(f"{key}: only `uv run COMMAND` of uv is understood")
    rest = list(command[2:])
    while rest and rest[0] in UV_FLAGS:
        rest.pop(0)
    if rest and rest[0] == "--":
        rest.pop(0)
    elif rest and rest[0] == "-m":
        return ("python", *rest)
    if not rest or rest[0].startswith("-"):
        shown = rest[0] if rest else "nothing to run"
        raise UsageError(f"{key}: uv run {shown}: not understood; write the command without uv")
    return ("python", *rest) if rest[0].endswith(".py") else tuple(rest)


def _beside(program: str, python: Path) -> str | None:
    """torchrun, accelerate ... of the same environment."""
    found = python.parent / program
    return str(found) if found.is_file() and os.access(found, os.X_OK) else None


def _on_path(program: str, python: Path, environ: Mapping[str, str]) -> str:
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    if found is None:
        raise UsageError(
            f"run_cmd: no program {program!r} beside {python} or on the PATH: "
            "install it or correct run_cmd"
        )
    return os.path.abspath(found)
