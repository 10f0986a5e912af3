"""Which Python runs candidates and why, and the command that prepares the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.configuration.interpreter import find_python, shown_python
from overnight.contracts.errors import UsageError
from overnight.sessions.inference.finding import Finding
from overnight.sessions.inference.training import Training
from overnight.sessions.sources import Repository, Script

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "requirements.txt", "environment.yml", "setup.py")
_AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """The binding `python:` and what it means now."""

    binding: Finding
    path: Path | None  #: None: there is none yet
    warning: str | None


def find_interpreter(
    repo: Repository, training: Training, given: Mapping[str, Any], environ: Mapping[str, str]
) -> Interpreter:
    """The interpreter that the run will take. Nothing is resolved, installed or started."""
    if given.get("python"):
        return Interpreter(binding=Finding.given(given["python"]), path=None, warning=None)
    inside = _inside(repo, training)
    if inside is not None:
        return Interpreter(
            binding=Finding(value=inside, evidence="the environment of that folder"),
            path=repo.root / inside, warning=None,
        )  # fmt: skip
    lock = next((name for name in LOCKS if (repo.root / name).exists()), None)
    try:
        python, origin = find_python(repo.root, _AUTO, environ)
    except UsageError as error:
        evidence = f"none yet: {lock} but no environment" if lock else "none that can be run"
        return Interpreter(
            binding=Finding(value=_AUTO, evidence=evidence), path=None, warning=str(error)
        )
    evidence = f"{shown_python(python, repo.root)}: {origin}"
    if lock == "uv.lock" and origin.endswith(".venv"):
        evidence += " of uv.lock; nothing is resolved at run time"
    warning = None
    if origin == "Overnight's own" and lock is not None:
        warning = (
            f"{lock} but no environment: Overnight's own Python runs candidates; "
            "`overnight setup` makes one"
        )
    return Interpreter(
        binding=Finding(value=_AUTO, evidence=evidence), path=python, warning=warning
    )


def _inside(repo: Repository, training: Training) -> str | None:
    """A folder of a monorepo with an environment of its own."""
    if not training.folder or (repo.root / ".venv").exists():
        return None
    own = f"{training.folder}/.venv/bin/python"
    return own if (repo.root / own).exists() else None


def _is_data(file: str) -> bool:
    return file.startswith(("data/", "datasets/")) and file.endswith(".py")


def find_prepare(
    repo: Repository, given: Mapping[str, Any], script: Script | None = None
) -> Finding | None:
    """The command that fetches the data, where a README shows it; else prepare.py.

    *script*, the one that trains, prepares nothing.
    """
    if given.get("prepare"):
        return Finding.given(list(given["prepare"]))
    for command in repo.commands():
        words = list(command.words)
        words = words[2:] if words[:2] == ["uv", "run"] else words
        words = words[1:] if words and words[0].startswith("python") else words
        file = words[0].removeprefix("./") if words else ""
        stem = file.rpartition("/")[2]
        prepares = stem.startswith(("prepare", "download", "preprocess")) or _is_data(file)
        if prepares and repo.script(file) is not None and not command.folder:
            words = ["python", file, *words[1:]]
            return Finding(value=words, evidence=f"{command.place}; {_ONCE}")
    named = repo.script("prepare.py")
    if named is not None and "__main__" in named.text and named is not script:
        return Finding(value=["python", "prepare.py"], evidence=f"prepare.py by its name; {_ONCE}")
    return None


_ONCE = "once, by `overnight prepare`"
