"""program new, check, next: a person's plan for a session, begun, checked, carried on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import options, output, places
from overnight.cli.options import HERE, AsJson

if TYPE_CHECKING:
    from overnight.sessions.once import Start
    from overnight.sessions.program.files import Place

program = typer.Typer(help="program.md: what a session may try.", no_args_is_help=True)

OfSession = Annotated[
    str | None, typer.Option("--tag", help="which session; default: the one here")
]


@program.command()
def new(
    repo: options.Repo = HERE,
    tag: OfSession = None,
    unmeasured: Annotated[
        bool, typer.Option("--unmeasured", help="leave the baseline open, run nothing")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write program.md from the measured baseline. Never over one that is there."""
    from overnight.sessions.program import files

    path = files.new(
        _place(repo, tag), lambda start: None if as_json else _started(start),
        measure=not unmeasured,
    )  # fmt: skip
    _, checked, _ = files.looked_at(_place(repo, tag))
    if as_json:
        output.emit({"path": str(path), "open": [{"line": n, "text": t} for n, t in checked.open]})
        return
    output.say(f"wrote {places.shown(path, Path.cwd())}")
    for line, text in checked.open:
        output.say(f"  {line:>4}  {output.safe(text, 100)}")
    argument = "" if repo == HERE else f" {shlex.quote(str(repo))}"
    output.say(places.as_called(f"next: fill in what says TODO, then  overnight run{argument}"))


@program.command()
def check(
    repo: options.Repo = HERE, tag: OfSession = None,
    file: Annotated[Path | None, typer.Option(help="another file than program.md")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Name what program.md lacks, with its lines. Exit 1 when something is missing."""
    from overnight.sessions.program import files

    path, checked, change = files.looked_at(_place(repo, tag), file and file.absolute())
    name = output.safe(path.name, 100)
    if as_json:
        output.emit(
            {
                "ok": checked.ok,
                "path": str(path),
                "gaps": [{"line": g.line, "part": g.part, "what": g.what} for g in checked.gaps],
                "open": [{"line": line, "text": text} for line, text in checked.open],
                "change": change,
            }
        )
    else:
        for gap in checked.gaps:
            output.say(places.as_called(f"{name}:{gap.line}: {gap.part}: {output.safe(gap.what)}"))
        for line, text in checked.open:
            output.say(f"{name}:{line}: still open: {output.safe(text, 100)}")
        if change:
            output.say(change)
        if checked.ok:
            left = f", {len(checked.open)} to fill in" if checked.open else ""
            output.say(f"{name} has all its parts{left}")
    if not checked.ok:
        raise typer.Exit(1)


@program.command("next")
def following(
    repo: options.Repo = HERE,
    tag: OfSession = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="default: program.next.md")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="also over one that was edited")] = False,
    as_json: AsJson = False,
) -> None:
    """Write program.next.md from the results, beside program.md."""
    from overnight.sessions.program import files

    path = files.write_next(_place(repo, tag), to and to.absolute(), force=force)
    if as_json:
        output.emit({"path": str(path)})
        return
    shown = output.safe(places.shown(path, Path.cwd()), 500)
    output.say(f"wrote {shown}: read it, change it, take it over as program.md")


def _place(repo: Path, tag: str | None) -> Place:
    from overnight.configuration import process_environ
    from overnight.sessions.program.files import Place

    return Place(repo=repo.absolute(), tag=tag, environ=process_environ())


def _started(start: Start) -> None:
    from overnight.cli import words

    command = output.safe(shlex.join(start.argv), 200)
    output.say(
        f"no session has a baseline yet: runs `{command}` once, for at most "
        f"{words.duration(start.wall_seconds)} (--unmeasured leaves it open)"
    )
