"""What `once` measured of a repository, kept on this host until `program new` asks for it.

One figure, beside the services' own state and not in the repository. It counts as long as bindings
and tree are what they were; when it is gone, the tree is measured again.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from overnight.configuration import ResolvedLoop, config_digest, state_dir
from overnight.contracts import wire
from overnight.contracts.errors import OvernightError
from overnight.contracts.experiment import Digest, ExperimentResult
from overnight.sessions.report.save import save
from overnight.snapshots.manifest import Entry, content_digest, tree_digest
from overnight.snapshots.tree import scan

MAX_BYTES = 256 * 1024


class Measured(wire.Wire):
    """A good run of a tree as it lay."""

    v: Literal[1] = 1
    bindings: Digest
    result: ExperimentResult  #: scored; its tree_digest says what ran


def remember(environ: Mapping[str, str], loop: ResolvedLoop, result: ExperimentResult) -> None:
    """Keep *result*, in place of an earlier one. A host that can't costs a second run, no more."""
    measured = Measured(bindings=config_digest(loop.config), result=result)
    with contextlib.suppress(OSError, OvernightError):
        path = _path(environ, loop.repo)
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if _is_ours(path.parent):
            save(path, wire.encode(measured).encode())


def recall(environ: Mapping[str, str], loop: ResolvedLoop) -> ExperimentResult | None:
    """The result of the very tree that lies there now, None when nobody measured it."""
    with contextlib.suppress(OSError, OvernightError, UnicodeError):
        path = _path(environ, loop.repo)
        if not _is_ours(path.parent) or path.stat().st_size > MAX_BYTES:
            return None
        measured = wire.decode(Measured, path.read_text("utf-8"))
        same = measured.bindings == config_digest(loop.config)
        if same and measured.result.tree_digest == _tree(loop):
            return measured.result
    return None


def _path(environ: Mapping[str, str], repo: Path) -> Path:
    return state_dir(environ) / "once" / f"{wire.digest(str(repo))[:16]}.json"


def _is_ours(folder: Path) -> bool:
    """Nobody else can have put a figure there."""
    status = folder.lstat()
    private = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and private


def _tree(loop: ResolvedLoop) -> str:
    listing = scan(loop.repo, loop.session_root)
    return tree_digest(
        Entry(file.path, file.mode, content_digest(content)) for file, content in listing.contents()
    )
