"""Options that many verbs share, and the session that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli.numbers import amount, whole

if TYPE_CHECKING:
    from overnight.sessions.locate import Found

Tag = Annotated[str | None, typer.Argument(help="which session; default: the one that lies there")]
Dir = Annotated[
    Path, typer.Option("--dir", help="the session's folder, or a repository that holds one")
]
OfTag = Annotated[str | None, typer.Option("--tag", help="which session; default: the one there")]
AsJson = Annotated[bool, typer.Option("--json", help="for scripts")]
Which = Annotated[str, typer.Argument(metavar="ID", help="an experiment's number, or: best")]
Repo = Annotated[Path, typer.Argument(help="the repository")]

#: Of a run. Each is None when it is not given, so that the files decide.
RunTag = Annotated[str | None, typer.Option("--tag", help="session's name; default: today's")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TAG[/ID]",
        help="begin a new --tag with the best of that session, or with its experiment ID",
    ),
]
Maximum = Annotated[
    int | None,
    typer.Option(
        "--max", parser=whole("--max", 0), metavar="N", help="ideas in total, without the baseline"
    ),
]
Hours = Annotated[
    float | None, typer.Option(parser=amount("--hours"), metavar="N", help="stop after so long")
]
Description = Annotated[str, typer.Option("--desc", help="your own words, shown by status")]
Proposer = Annotated[str | None, typer.Option(help="search, random or best_of_n")]
Runners = Annotated[
    int | None,
    typer.Option(parser=whole("--runners", 1), metavar="N", help="at a time; default: one a CPU"),
]
Executor = Annotated[
    str | None, typer.Option(metavar="NAME", help="process, or docker: a container each")
]
Budget = Annotated[
    float | None,
    typer.Option(
        parser=amount("--budget"), metavar="N", help="of each experiment, as the gate counts"
    ),
]
Gate = Annotated[str | None, typer.Option(help="time, cpu_time, epochs or steps")]
Seed = Annotated[
    int | None,
    typer.Option(parser=whole("--seed", 0), metavar="N", help="of proposer and candidates"),
]

HERE = Path()


def session(directory: Path, tag: str | None) -> Found:
    """The session that --dir and TAG mean. Raises UsageError when there is none."""
    from overnight.sessions.locate import find_session

    return find_session(directory.absolute(), tag)
