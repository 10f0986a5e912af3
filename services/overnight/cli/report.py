"""report: what a session found, in four points; with --full all of it, as a page or a picture."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output, places
from overnight.cli.options import HERE, AsJson, Dir, Tag, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overnight.sessions.report.text import Line

COLUMNS = 100  #: where nobody counts them
#: What the lines below the first of a long one stand under.
_BEGINNING = re.compile(r" *(?:(?:best|repeated|add|try) [a-z' ]{14,15}|[-*] |\d+ x |hardware   )?")


def report(
    tag: Tag = None,
    full: Annotated[bool, typer.Option("--full", help="and all that they rest on")] = False,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """The best improvement, repeated failures, what to add to 'tried', what to try next."""
    from overnight.sessions.report import summary, text
    from overnight.sessions.report.gather import gather, summarise

    found = session(directory, tag)
    facts, state = gather(found)
    research = summarise(found, facts, state) if full else None
    if as_json:
        told = summary.four_points(facts) if research is None else summary.whole(facts, research)
        output.emit(told)
        return
    _show(text.point_lines(facts) if research is None else text.full_lines(facts, research))


def _show(lines: Sequence[Line]) -> None:
    from rich.text import Text

    width = output.width() or COLUMNS
    output.show(
        *(
            Text(part, "bold" if line.title else "")
            for line in lines
            for part in _folded(places.as_called(line.text), width)
        )
    )


def _folded(line: str, width: int) -> list[str]:
    start = _BEGINNING.match(line)
    under = " " * min(len(start.group()) if start else 0, width // 2)
    return textwrap.wrap(line, width, subsequent_indent=under, break_on_hyphens=False) or [""]
