"""What can be said of a repository before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from overnight.configuration import ResolvedLoop
from overnight.configuration.plain_file import read_plain
from overnight.contracts.errors import UsageError
from overnight.contracts.loop import LoopConfig
from overnight.plugins import EXECUTORS, PROPOSERS, available, load
from overnight.sessions.preparing import DONE, read_stamp
from overnight.snapshots.manifest import content_digest
from overnight.snapshots.store import SnapshotStore

LARGE_BYTES = 4 * 1024**2  #: data, not code: not read again


def check_sources(repo: Path, editable: Sequence[str]) -> None:
    """The editable Python files parse.

    Raises:
        UsageError: names file, line and problem.
    """
    for path in editable:
        if not path.endswith(".py"):
            continue
        try:
            ast.parse((repo / path).read_bytes(), filename=path)
        except SyntaxError as error:
            where = f"{path}:{error.lineno or 1}"
            raise UsageError(f"{where}: syntax error ({error.msg}): fix it first") from error
        except ValueError as error:
            raise UsageError(f"{path}: not Python source ({error}): fix it first") from error


def check_plugins(config: LoopConfig) -> None:
    """The proposer and the executors exist, and the proposer takes its options.

    Raises:
        ConfigError: one does not exist (names those that do), or an option is wrong.
    """
    wanted = [(PROPOSERS, config.proposer.name)]
    wanted += [(EXECUTORS, pool.executor) for pool in config.pools.values()]
    for group, name in wanted:
        if name not in available(group):
            load(group, name)  # says what is wrong
    if config.proposer.options:
        load(PROPOSERS, config.proposer.name)(dict(config.proposer.options))


def check_prepared(loop: ResolvedLoop) -> None:
    """What `prepare:` makes is there, and whole.

    Raises:
        UsageError: something is missing, or the last `overnight prepare` did not end well; names
            the one command.
    """
    prepare = loop.config.prepare
    if prepare is None:
        return
    command = f"run `overnight prepare` first ({' '.join(prepare)})"
    missing = next((read for read in loop.config.reads if not Path(read).exists()), None)
    if missing is not None:
        raise UsageError(f"data is missing, {missing}: {command}")
    stamp = read_stamp(loop.session_root)
    if stamp is not None and stamp.state != DONE:
        raise UsageError(f"the last `overnight prepare` ({stamp.at}) did not end well: {command}")


def changed_since(store: SnapshotStore, commit: str, repo: Path) -> tuple[str, ...]:
    """The small files of the session's base that are another in *repo* now, by name.

    A session keeps its base; whoever goes on with one should know that newer edits are not in it.
    """
    changed = []
    for entry in store.entries(commit):
        place = repo / entry.path
        data = read_plain(place, LARGE_BYTES)
        if data is None:
            same = place.is_file() and place.stat().st_size > LARGE_BYTES
        else:
            same = content_digest(data) == entry.sha256
        if not same:
            changed.append(entry.path)
    return tuple(changed)
