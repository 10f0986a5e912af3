"""Where the repository of a session lies now, also when it or the session was moved."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from overnight.configuration import LOOP_FILE
from overnight.contracts import wire
from overnight.contracts.errors import UsageError, WireError
from overnight.contracts.rows import Opening, SessionOpened
from overnight.ledger.files import SessionFiles


def repository_of(files: SessionFiles, opened: SessionOpened, here: Path) -> Path:
    """The user's folder that the session is of.

    Sought where --dir names it (*here*), around the session's folder, where it was at the last
    run. It is known by its bindings or by its editable files.

    Raises:
        UsageError: it is in none of these places.
    """
    editable = opened.config.get("editable_files")
    names = [name for name in editable if isinstance(name, str)] if editable else []
    for folder in (here, *_around(files.root, opened), *_last(files)):
        there = (folder / LOOP_FILE).is_file() or any((folder / name).is_file() for name in names)
        if there and folder != files.root and not folder.is_relative_to(files.root):
            return folder
    raise UsageError(
        f"the repository of {files.root} is not where it was: name it by --repo DIR, or take the "
        "files by --to DIR"
    )


def _around(root: Path, opened: SessionOpened) -> list[Path]:
    """As many folders up as sandbox_root has parts, where it lies in the repository."""
    named = opened.config.get("sandbox_root")
    if not isinstance(named, str) or os.path.isabs(named):
        return []
    parts = PurePosixPath(os.path.normpath(named)).parts
    if not parts or ".." in parts or len(parts) > len(root.parents):
        return []
    return [root.parents[len(parts) - 1]]


def _last(files: SessionFiles) -> list[Path]:
    """Where it was at the last run, which only this host knows."""
    try:
        opening = wire.decode(Opening, files.opening.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, WireError):
        return []
    return [Path(opening.repo)]
