"""up and down: a session in the background, without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from overnight.cli import options, output, places
from overnight.cli.numbers import amount
from overnight.cli.options import HERE, AsJson, Dir, Tag, session


def up(
    repo: options.Repo = HERE,
    tag: options.RunTag = None,
    maximum: options.Maximum = None,
    as_json: AsJson = False,
) -> None:
    """Start or resume a session in the background. `watch` follows it."""
    words = [] if maximum is None else ["--max", str(maximum)]
    words += [] if tag is None else ["--tag", tag]
    raise typer.Exit(start_detached(repo, tag, words, as_json))


def start_detached(repo: Path, tag: str | None, words: Sequence[str], as_json: bool) -> int:
    """`run` in a process of its own. Returns the exit code."""
    from overnight.cli.services import quiet
    from overnight.sessions.detached import start
    from overnight.sessions.view import current_status

    quiet()
    argv = [sys.executable, "-m", "overnight.cli", "run", str(repo), *words]
    pid = start(argv)
    now = current_status(session(repo, tag))
    if as_json:
        output.emit(now)
    elif pid is None:
        output.say(f"session {now['tag']}: nothing left to do ({output.safe(now['why'] or '')})")
    else:
        output.say(f"session {now['tag']} runs in the background (pid {pid})")
        for name, url in sorted(now["endpoints"].items()):
            output.say(f"  {name:<9} {url}")
        where = places.dir_option(Path(now["session_dir"]), Path.cwd())
        verbs = (f"overnight {verb}{where}" for verb in ("watch", "status", "down"))
        output.say(places.as_called(f"next: {', '.join(verbs)}"))
    return 0


def down(
    tag: Tag = None,
    directory: Dir = HERE,
    timeout: Annotated[
        float,
        typer.Option(
            parser=amount("--timeout", or_zero=True),
            metavar="SECONDS",
            help="until it is ended by signals",
        ),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """End a session's services. What runs is cancelled and runs again on `up`."""
    from overnight.cli.services import quiet
    from overnight.sessions.detached import down as end

    quiet()
    found = session(directory, tag)
    ran = end(found, timeout)
    if as_json:
        output.emit({"tag": found.tag, "was_running": ran})
    else:
        output.say(f"session {found.tag}: {'down' if ran else 'nothing was running'}")
