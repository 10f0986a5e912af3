"""skills install: what teaches a coding agent to drive Overnight, put where it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overnight.cli import output, places
from overnight.cli.options import AsJson

skills = typer.Typer(help="For coding agents.", no_args_is_help=True)


@skills.callback()
def _group() -> None:
    """A group even while it has one verb."""


@skills.command()
def install(
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="folder of skills; default: .claude/skills where .claude is, else .agents/skills",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace files that were edited")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the skill to where a coding agent finds it: DIR/overnight/SKILL.md."""
    from overnight.sessions.skills import ENTRY, bundled_skill, default_place
    from overnight.sessions.skills import install as put

    here = Path.cwd()
    place = default_place(here) if to is None else here / to
    done = put(bundled_skill(), place, force=force)
    if as_json:
        output.emit(
            {
                "folder": str(done.folder),
                "written": list(done.written),
                "same": list(done.same),
            }
        )
        return
    folder = output.safe(places.shown(done.folder, here), 500)
    if not done.written:
        output.say(f"{folder} is up to date ({len(done.same)} files)")
        return
    for name in done.written:
        output.say(f"  wrote  {folder}/{name}")
    if done.same:
        output.say(f"  {len(done.same)} files were there as they are")
    output.say(
        f"agents that look in {output.safe(places.shown(place, here), 500)} find {ENTRY} now"
    )
