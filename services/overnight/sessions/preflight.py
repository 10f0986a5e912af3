"""What can be said of a repository before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from overnight.contracts.errors import UsageError
from overnight.contracts.loop import LoopConfig
from overnight.plugins import EXECUTORS, PROPOSERS, available, load


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
    """The proposer and the executors exist. Their modules are not imported.

    Raises:
        ConfigError: one does not; names those that do.
    """
    wanted = [(PROPOSERS, config.proposer.name)]
    wanted += [(EXECUTORS, pool.executor) for pool in config.pools.values()]
    for group, name in wanted:
        if name not in available(group):
            load(group, name)  # says what is wrong
