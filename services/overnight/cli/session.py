"""run and status: a session started or taken up, and how it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overnight.cli import output
from overnight.cli.options import HERE, AsJson, Dir, Tag, session


def run(
    repo: Annotated[Path, typer.Argument(help="the repository")] = HERE,
    tag: Annotated[str | None, typer.Option(help="session's name; default: today's")] = None,
    maximum: Annotated[
        int | None, typer.Option("--max", min=0, help="ideas in total, without the baseline")
    ] = None,
    hours: Annotated[float | None, typer.Option(help="stop after so long")] = None,
    proposer: Annotated[str | None, typer.Option(help="search or random")] = None,
    runners: Annotated[int | None, typer.Option(help="at a time; default: one a CPU")] = None,
    budget: Annotated[float | None, typer.Option(help="of each experiment")] = None,
    gate: Annotated[str | None, typer.Option(help="time, cpu_time, epochs or steps")] = None,
    seed: Annotated[int | None, typer.Option(help="of proposer and candidates")] = None,
    as_json: AsJson = False,
) -> None:
    """Start or resume a session and show it live. Ctrl-C stops and keeps all."""
    from overnight.cli.running import Wish, carry_out

    flags = {
        "policy.limits.experiments": maximum,
        "policy.limits.hours": hours,
        "proposer.name": proposer,
        "pools.default.runners": runners,
        "budget": budget,
        "gate": gate,
        "seed": seed,
    }
    raise typer.Exit(carry_out(Wish(repo=repo, tag=tag, flags=flags, as_json=as_json)))


def status(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """How a session stands."""
    from overnight.cli.summary import status_lines
    from overnight.sessions.view import current_status

    found = session(directory, tag)
    now = current_status(found)
    if as_json:
        output.emit(now)
    else:
        output.show(*status_lines(now))
