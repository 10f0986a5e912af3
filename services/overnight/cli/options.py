"""Options that many verbs share, and the session that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from overnight.sessions.locate import Found

Tag = Annotated[
    str | None, typer.Argument(help="which session; without it the one that lies there")
]
Dir = Annotated[
    Path, typer.Option("--dir", help="the session's folder, or a repository that holds one")
]
AsJson = Annotated[bool, typer.Option("--json", help="for scripts")]
Which = Annotated[str, typer.Argument(metavar="ID", help="an experiment's number, or: best")]

HERE = Path()


def session(directory: Path, tag: str | None) -> Found:
    """The session that --dir and TAG mean. Raises UsageError when there is none."""
    from overnight.sessions.locate import find_session

    return find_session(directory, tag)
