"""What can be said of a repository before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from overnight.contracts.errors import UsageError


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
