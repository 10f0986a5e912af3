"""deadletter: what was given up, parked or refused; have it tried anew, or let it go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output, places
from overnight.cli.options import HERE, AsJson, Dir, Tag, session

if TYPE_CHECKING:
    from overnight.sessions.deadletter import Letter

WHY_CHARS = 400

Ref = Annotated[str, typer.Argument(metavar="REF", help="as `deadletter list` names it")]
Why = Annotated[str, typer.Option("--why", help="kept in the ledger")]

deadletter = typer.Typer(
    help="What nobody tries again by itself: list, requeue or drop it.",
    no_args_is_help=True,
)


@deadletter.command("list")
def list_letters(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """What lies there. Jobs are known only while a stack runs."""
    from overnight.cli import words
    from overnight.cli.services import quiet
    from overnight.sessions.deadletter import letters

    quiet()
    found = session(directory, tag)
    listed = letters(found)
    if as_json:
        output.emit([letter.as_json() for letter in listed])
        return
    if not listed:
        output.say("the dead letter is empty")
        return
    width = max(len(letter.ref) for letter in listed)
    output.say(f"  {'ref':<{width}}  {'what':<26}  {'since (UTC)':<19}  why")
    for letter in listed:
        since = output.safe(letter.since[:19].replace("T", " "))
        why = output.safe(letter.why, WHY_CHARS)
        line = f"  {letter.ref:<{width}}  {_what(letter):<26}  {since:<19}  {why}"
        for part in words.fold(line, output.width()):
            output.say(part)
    where = places.dir_option(found.files.root, Path.cwd())
    verbs = (f"overnight deadletter {verb} REF{where}" for verb in ("requeue", "drop"))
    output.say(places.as_called(f"next: {' or '.join(verbs)}"))


@deadletter.command()
def requeue(
    ref: Ref, tag: Tag = None, directory: Dir = HERE, why: Why = "", as_json: AsJson = False
) -> None:
    """Try it anew. An experiment gets fresh attempts, a readable job is pushed again."""
    from overnight.cli.services import quiet
    from overnight.sessions.deadletter import requeue as try_anew

    quiet()
    _said(try_anew(session(directory, tag), ref, why), "requeued", as_json)


@deadletter.command()
def drop(
    ref: Ref, tag: Tag = None, directory: Dir = HERE, why: Why = "", as_json: AsJson = False
) -> None:
    """Take it out of the list. An experiment keeps its verdict, a result lies in quarantine/."""
    from overnight.cli.services import quiet
    from overnight.sessions.deadletter import drop as let_go

    quiet()
    _said(let_go(session(directory, tag), ref, why), "dropped", as_json)


def _said(letter: Letter, done: str, as_json: bool) -> None:
    if as_json:
        output.emit({**letter.as_json(), "done": done})
    else:
        output.say(f"{_what(letter)}: {done}")


def _what(letter: Letter) -> str:
    if letter.experiment is None:
        return f"unreadable {letter.kind}"
    if letter.kind == "experiment":
        return f"experiment {letter.experiment}, {letter.attempt} attempts"
    return f"{letter.kind} of {letter.experiment}, attempt {letter.attempt}"
