"""prompt setup, iteration, summary, contract: what to tell a coding agent, from the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from overnight.cli import output
from overnight.cli.options import HERE, AsJson, Dir, Tag

if TYPE_CHECKING:
    from pathlib import Path

    from overnight.sessions.agreement import Brief

prompt = typer.Typer(
    help="Prompts for a coding agent, from this session's state.", no_args_is_help=True
)


@prompt.command()
def setup(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """What an agent begins with. Question, metric, rules, when to stop; needs no session."""
    from overnight.sessions.prompts import setup as render

    _show("setup", render, tag, directory, as_json)


@prompt.command()
def iteration(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """One more round. How it stands, what was tried, the last result, five tasks."""
    from overnight.sessions.prompts import iteration as render

    _show("iteration", render, tag, directory, as_json)


@prompt.command()
def summary(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """Asks what was learned, in five parts. From the experiments of a session."""
    from overnight.sessions.prompts import summary as render

    _show("summary", render, tag, directory, as_json)


@prompt.command()
def contract(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """Who does what, and when to stop, in one paragraph."""
    from overnight.sessions.prompts import contract as render

    _show("contract", render, tag, directory, as_json)


def _show(
    kind: str,
    render: Callable[[Brief], str],
    tag: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    from overnight.configuration import process_environ
    from overnight.contracts.untrusted import strip_terminal
    from overnight.sessions.briefs import brief_of

    brief = brief_of(directory.absolute(), tag, process_environ())
    text = strip_terminal(render(brief))
    if as_json:
        output.emit({"prompt": kind, "tag": brief.tag, "text": text})
    else:
        output.write(text)
