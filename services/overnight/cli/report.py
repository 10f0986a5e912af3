"""report: what a session found, in four points; with --full all of it, as a page or a picture."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output, places
from overnight.cli.options import HERE, AsJson, Dir, Tag, session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overnight.sessions.report.entries import Facts
    from overnight.sessions.report.research import Research
    from overnight.sessions.report.text import Line

COLUMNS = 100  #: where nobody counts them
#: What the lines below the first of a long one stand under.
_BEGINNING = re.compile(r" *(?:(?:best|repeated|add|try) [a-z' ]{14,15}|[-*] |\d+ x |hardware   )?")


def report(
    tag: Tag = None,
    full: Annotated[bool, typer.Option("--full", help="and all that they rest on")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="as a page of its own")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="the curve as a picture")] = None,
    force: Annotated[bool, typer.Option("--force", help="replace FILE, whatever it is")] = False,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """What a session found, in four points.

    The best improvement, repeated failures, what to add to 'tried', what to try next.
    """
    from overnight.sessions.report import summary, text
    from overnight.sessions.report.gather import gather, summarise
    from overnight.sessions.report.save import save_all

    found = session(directory, tag)
    facts, state = gather(found)
    research = summarise(found, facts, state) if full or html is not None else None
    written = save_all(_files(facts, research, html, png), force=force)
    if as_json:
        told = summary.four_points(facts)
        if full and research is not None:
            told = summary.whole(facts, research)
        output.emit({**told, "written": [str(path) for path in written]})
        return
    lines = text.point_lines(facts)
    if full and research is not None:
        lines = text.full_lines(facts, research)
    _show(lines)
    for path in written:
        size = f"{path.stat().st_size / 1000:.0f} kB"
        output.say(f"wrote {output.safe(places.shown(path, Path.cwd()), 500)} ({size})")


def _files(
    facts: Facts, research: Research | None, html: Path | None, png: Path | None
) -> dict[Path, Callable[[], bytes]]:
    from overnight.sessions.report.curve import curve
    from overnight.sessions.report.page import page
    from overnight.sessions.report.png import png as drawn

    wanted: dict[Path, Callable[[], bytes]] = {}
    if png is not None:
        wanted[png.absolute()] = lambda: drawn(curve(facts))
    if html is not None and research is not None:
        wanted[html.absolute()] = lambda: page(facts, research).encode()
    return wanted


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
