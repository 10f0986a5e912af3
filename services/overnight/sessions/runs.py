"""runs: the sessions that lie in or beside a folder, each in a few facts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.contracts.errors import OvernightError, UsageError
from overnight.ledger.disk import used_bytes
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import RunState, SessionState
from overnight.ledger.identity import read_identity
from overnight.sessions.locate import read_state, roots_of
from overnight.sessions.stack import read_stack

MAX_SUBFOLDERS = 1000  #: looked into where a folder itself holds no session
STOPPED = "interrupted"  #: the ledger says that it runs, but nothing does


@dataclass(frozen=True, kw_only=True)
class Run:
    """One session of many. What can't be read has a problem and nothing else."""

    root: Path
    tag: str
    state: str
    metric: str | None = None
    best: float | None = None
    best_id: int | None = None
    baseline: float | None = None
    experiments: int = 0  #: without the baseline
    first: str = ""  #: UTC label of its first row
    last: str = ""  #: of its newest one
    size_bytes: int = 0
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """One object of `runs --json`."""
        best = None if self.best_id is None else {"id": self.best_id, "metric": self.best}
        return {
            "tag": self.tag,
            "state": self.state,
            "metric": self.metric,
            "best": best,
            "baseline": self.baseline,
            "experiments": self.experiments,
            "first": self.first or None,
            "last": self.last or None,
            "bytes": self.size_bytes,
            "session_dir": str(self.root),
            "problem": self.problem,
        }


def runs(directory: Path) -> list[Run]:
    """All sessions there, newest first. One that can't be read is told, and hides no other.

    Raises:
        UsageError: there is no such folder, or no session in it.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such folder")
    found = _here(directory)
    if not found:
        below = sorted(p for p in directory.iterdir() if p.is_dir() and not p.is_symlink())
        found = [root for folder in below[:MAX_SUBFOLDERS] for root in _here(folder)]
    if not found:
        raise UsageError(f"no session in {directory}: start one with `overnight run`")
    told = [_look(Path(os.path.normpath(root))) for root in dict.fromkeys(found)]
    return sorted(told, key=lambda run: (run.last, run.root.name), reverse=True)


def _here(directory: Path) -> list[Path]:
    return [root for named in roots_of(directory) for root in _beside(named)]


def _beside(root: Path) -> Iterator[Path]:
    """*root* and what other tags and failed sessions have beside it."""
    if not root.parent.is_dir():
        return
    for folder in sorted(root.parent.iterdir()):
        ours = folder == root or folder.name.startswith((f"{root.name}-", f"{root.name}.failed-"))
        files = SessionFiles(folder)
        if (
            ours
            and not folder.is_symlink()
            and (files.identity.is_file() or files.ledger.is_file())
        ):
            yield folder


def _look(root: Path) -> Run:
    files = SessionFiles(root)
    tag, size = root.name, used_bytes(root)
    try:
        tag = read_identity(files).tag
        state = read_state(files)
        return _told(files, tag, state, size)
    except OvernightError as error:
        return Run(root=root, tag=tag, state="unreadable", size_bytes=size, problem=str(error))


def _told(files: SessionFiles, tag: str, state: SessionState, size: int) -> Run:
    running = read_stack(files) is not None
    said = state.run_state.value
    if not running and state.run_state in (RunState.RUNNING, RunState.DRAINING, RunState.STOPPING):
        said = STOPPED
    best = state.incumbent
    return Run(
        root=files.root,
        tag=tag,
        state=said,
        metric=state.config.metric.name if state.config else None,
        best=state.metric_of(best),
        best_id=best,
        baseline=state.metric_of(1) if state.baseline else None,
        experiments=max(0, len(state.experiments) - 1),
        first=state.first_ts,
        last=state.last_ts,
        size_bytes=size,
    )
