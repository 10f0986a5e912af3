"""Finding sessions: by directory, by tag, by the repository that one stands in."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from overnight.configuration import LOOP_FILE, load_yaml
from overnight.contracts.errors import ConfigError, LedgerError, UsageError
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.identity import read_identity
from overnight.ledger.reader import LedgerTail


@dataclass(frozen=True)
class Found:
    """One session on this host."""

    files: SessionFiles
    sid: str
    tag: str


def sessions_beside(root: Path) -> list[Found]:
    """The session in *root* and those of other tags beside it (`<root>-<tag>`), by folder name."""
    folders = [root, *sorted(root.parent.glob(f"{root.name}-*"))] if root.parent.is_dir() else []
    found = []
    for folder in folders:
        files = SessionFiles(folder)
        if files.identity.is_file():
            identity = read_identity(files)
            found.append(Found(files, identity.sid, identity.tag))
    return found


def find_session(directory: Path, tag: str | None = None) -> Found:
    """The session meant by --dir (a session's folder, or a repository's) and TAG.

    Raises:
        UsageError: there is none; names the fix.
        LedgerError: there is one whose session.json is gone.
    """
    others: list[str] = []
    for root in roots_of(directory):
        candidates = sessions_beside(root)
        others += [c.tag for c in candidates]
        if tag is not None:
            candidates = [c for c in candidates if c.tag == tag]
        else:
            candidates = [c for c in candidates if c.files.root == root] or candidates
        if candidates:
            return candidates[0]
    if others:
        tags = ", ".join(dict.fromkeys(others))
        raise UsageError(f"no session {tag!r} in {directory}: there is {tags}")
    for files in map(SessionFiles, roots_of(directory)):
        if files.ledger.is_file():
            raise LedgerError(
                f"{files.identity} is gone, the ledger is there: `overnight run` writes it again"
            )
    wanted = f"session {tag!r}" if tag else "session"
    raise UsageError(f"no {wanted} in {directory}: start one with `overnight run`, or give --dir")


def roots_of(directory: Path) -> list[Path]:
    """Where a session may lie: right there, where the bindings say, or in the default place."""
    roots = [directory]
    bindings = directory / LOOP_FILE
    if bindings.is_file():
        try:
            named = load_yaml(bindings, LOOP_FILE).get("sandbox_root")
        except ConfigError:
            named = None  # broken bindings are no reason not to look at results
        if isinstance(named, str):
            roots.append(Path(os.path.normpath(directory / named)))
    return [*roots, directory / "sandbox"]


def read_state(files: SessionFiles) -> SessionState:
    """The whole ledger folded. Raises LedgerError when a line of it is broken."""
    state = SessionState()
    with _uncollected():
        for row in LedgerTail(files.ledger).rows():
            state.apply(row)
    return state


@contextmanager
def _uncollected() -> Iterator[None]:
    """A fold only ever adds and makes no cycles: looking for some takes a quarter of the time.

    What was folded stays out of later looks, too.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
