"""runs, clean, migrate: which sessions there are, what of one can go, one of an older version."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output
from overnight.cli.options import HERE, AsJson, Dir, OfTag, Tag, session

if TYPE_CHECKING:
    from overnight.ledger.disk import Kind, Leftover
    from overnight.sessions.cleaning import Cleaned
    from overnight.sessions.runs import Run

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a repository, or a folder of some")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would go, remove nothing")]
Everything = Annotated[bool, typer.Option("--all", help="the quarantine too")]


def runs(directory: Folder = HERE, as_json: AsJson = False) -> None:
    """All sessions beside each other, newest first."""
    from overnight.sessions.runs import runs as find

    found = find(directory.absolute())
    if as_json:
        output.emit([run.as_json() for run in found])
        return
    from rich.text import Text

    wide = max(3, *(len(output.safe(run.tag, 24)) for run in found))
    head = f"  {'tag':<{wide}}  {'state':<11}  {'best':>9}  {'baseline':>9}  {'tried':>5}"
    lines: list[Text | str] = [Text(f"{head}  {'size':>7}  {'last (UTC)':<16}  where", "bold")]
    for run in found:
        lines.append(_line(run, wide))
        if run.problem is not None:
            lines.append("       " + output.safe(run.problem, 300))
    output.show(*lines)


def _line(run: Run, wide: int) -> str:
    from overnight.cli.places import shown
    from overnight.cli.words import number, size

    tag, place = output.safe(run.tag, 24), output.safe(shown(run.root, Path.cwd()), 300)
    last = output.safe(run.last[:16].replace("T", " "), 16)
    start = f"  {tag:<{wide}}  {run.state:<11}"
    end = f"  {size(run.size_bytes):>7}  {last:<16}  {place}"
    if run.problem is not None:
        return f"{start}  {'-':>9}  {'-':>9}  {'-':>5}{end}"
    return f"{start}  {number(run.best):>9}  {number(run.baseline):>9}  {run.experiments:>5}{end}"


def clean(
    tag: Tag = None,
    dry_run: DryRun = False,
    everything: Everything = False,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """Free disk space; nothing that was tried is lost."""
    from overnight.sessions.cleaning import clean as remove

    done = remove(session(directory, tag), dry_run=dry_run, everything=everything)
    if as_json:
        output.emit(done.as_json())
    else:
        _say(done)
    if done.failed:
        raise typer.Exit(3)


def _say(done: Cleaned) -> None:
    from overnight.cli.words import size
    from overnight.ledger.disk import Kind

    running = " (running: only what it does not work with)" if done.live else ""
    output.say(f"session {output.safe(done.tag)}{running}")
    for kind in Kind:
        items = [item for item in done.gone if item.kind is kind]
        if items:
            output.say(f"  {kind.value:<11} {_told(kind, items)}")
    kept = sum(item.size_bytes for item in done.kept)
    if done.kept:
        output.say(f"  kept        {_count(done.kept, 'thing')} in quarantine, {size(kept)}: --all")
    for why in done.failed:
        output.say(f"  stays       {output.safe(why, 500)}")
    if not done.gone:
        output.say("nothing to remove")
    elif done.dry_run:
        output.say(f"would free {size(done.freed_bytes)}; leave out --dry-run to do it")
    else:
        output.say(f"freed {size(done.freed_bytes)}; no row, commit, branch or export was touched")


def _told(kind: Kind, items: list[Leftover]) -> str:
    from overnight.cli.words import size
    from overnight.ledger.disk import Kind

    total = size(sum(item.size_bytes for item in items))
    words = {
        Kind.WEIGHTS: f"of {_count(items, 'experiment')} that did not lead to the best",
        Kind.LOGS: f"{_count(items, 'long or old log')}, their ends stay",
        Kind.TREES: f"{_count(items, 'folder')} of exported code, made again when needed",
        Kind.SLOTS: f"{_count(items, 'runner')} with nothing undelivered",
        Kind.UNFINISHED: f"{_count(items, 'thing')} that a killed process left",
        Kind.FAILED: f"{_count(items, 'session')} whose baseline failed",
        Kind.QUARANTINE: f"{_count(items, 'thing')} that had been set aside",
    }
    return f"{total:>7}  {words[kind]}"


def _count(items: Sized, one: str) -> str:
    return f"{len(items)} {one}" + ("" if len(items) == 1 else "s")


def migrate(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="the session's folder, or its repository")
    ] = HERE,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="default: beside the original")
    ] = None,
    tag: OfTag = None,
    as_json: AsJson = False,
) -> None:
    """Copy an older version's session into one of this version."""
    import shlex

    from overnight.cli.places import as_called, shown
    from overnight.sessions.migration import migrate as copy

    found = session(directory, tag)
    done = copy(found.files, None if to is None else to.absolute())
    if as_json:
        output.emit(
            {
                "tag": done.tag,
                "session_dir": str(done.root),
                "from": str(found.files.root),
                "version": done.version,
                "rows": done.rows,
                "experiments": done.experiments,
            }
        )
        return
    here = Path.cwd()
    place, old = (output.safe(shown(p, here), 300) for p in (done.root, found.files.root))
    output.say(f"session {done.tag} in {place}: {done.rows} rows, {done.experiments} experiments")
    output.say(f"  {old} (version {done.version}) is as it was")
    if to is None:
        repo = done.root.parent
        named = "" if repo == here else f" {shlex.quote(shown(repo, here))}"
        output.say(output.safe(as_called(f"next: overnight run{named} --tag {done.tag}"), 500))
