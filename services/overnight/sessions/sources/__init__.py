"""Reads what a repository says about itself: printed lines, constants, README commands.

Looks only; nothing of the repository is run or imported. What can't be read is passed over.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from overnight.configuration import LOOP_FILE
from overnight.configuration.plain_file import read_plain
from overnight.sessions.sources.code import script_of
from overnight.sessions.sources.facts import (
    Command,
    Constant,
    Kept,
    Place,
    Printed,
    Prose,
    Repository,
    Script,
    Text,
    Written,
)
from overnight.sessions.sources.keeping import kept_by_settings

__all__ = [
    "Command",
    "Constant",
    "Kept",
    "Place",
    "Printed",
    "Prose",
    "Repository",
    "Script",
    "Text",
    "Written",
    "read_repository",
]

MAX_FILE_BYTES = 1024 * 1024
MAX_FILES = 2000
MAX_DEPTH = 3
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "sandbox"})


def read_repository(root: Path) -> Repository:
    """Read *root*'s Python files, at most three folders deep, and its README and program.md."""
    scripts: list[Script] = []
    prose: list[Prose] = []
    shell: list[Prose] = []
    settings: list[Kept] = []
    names: set[str] = set()
    for path in _files(root, names):
        file = path.relative_to(root).as_posix()
        if path.suffix == ".py":
            scripts.append(script_of(file, _text(path)))
        elif path.suffix in (".yaml", ".yml"):
            settings += kept_by_settings(_text(path), file)
        elif path.suffix == ".sh":
            shell += _shell(file, _text(path))
        else:
            prose += _prose(file, _text(path))
    return Repository(
        root=root,
        scripts=tuple(scripts),
        prose=tuple(prose),
        shell=tuple(shell),
        settings=tuple(settings),
        entries=_entries(root),
        files=frozenset(names),
    )


def _files(root: Path, names: set[str]) -> Iterator[Path]:
    """Those that are read; *names* gets all that are seen."""
    seen = 0
    for folder, folders, files in os.walk(root):
        inside = Path(folder).relative_to(root)
        depth = len(inside.parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < MAX_DEPTH
            and not name.startswith(".")
            and name not in _SKIPPED
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = Path(folder) / name
            if len(names) < 10 * MAX_FILES:
                names.add((inside / name).as_posix())
            if _is_read(name, depth) and path.is_file() and not path.is_symlink():
                seen += 1
                if seen > MAX_FILES:
                    return
                yield path


def _is_read(name: str, depth: int) -> bool:
    is_prose = name.lower().startswith("readme") or (depth == 0 and name == "program.md")
    is_setting = name.endswith((".yaml", ".yml")) and name != LOOP_FILE
    return name.endswith(".py") or is_prose or is_setting or (depth == 0 and name.endswith(".sh"))


def _text(path: Path) -> str:
    return (read_plain(path, MAX_FILE_BYTES) or b"").decode("utf-8", "replace")


def _prose(file: str, text: str) -> list[Prose]:
    lines: list[Prose] = []
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        in_code = fenced or line.startswith(("    ", "\t"))
        lines.append(Prose(text=line, place=Place(file=file, line=number), in_code=in_code))
    return lines


def _shell(file: str, text: str) -> list[Prose]:
    return [
        Prose(text=line, place=Place(file=file, line=number), in_code=True)
        for number, line in enumerate(text.splitlines(), 1)
        if not line.lstrip().startswith("#")
    ]


def _entries(root: Path) -> dict[str, tuple[str, Place]]:
    """pyproject's [project.scripts]."""
    path = root / "pyproject.toml"
    text = _text(path)
    try:
        project = tomllib.loads(text).get("project", {})
        scripts = dict(project.get("scripts", {}))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}
    found = {}
    for name, target in scripts.items():
        lines = text.splitlines()
        line = next((n for n, one in enumerate(lines, 1) if one.strip().startswith(name)), 1)
        if isinstance(target, str) and ":" in target:
            found[name] = (target, Place(file=path.name, line=line))
    return found
