"""run, status, watch: a session started or taken up, how it stands, how it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import options, output
from overnight.cli.options import HERE, AsJson, Dir, Tag

if TYPE_CHECKING:
    from overnight.cli.running import Wish

Detach = Annotated[bool, typer.Option("--detach", help="in the background, as `overnight up`")]
Profiles = Annotated[
    Path | None, typer.Option(metavar="DIR", help="where the spawner looks up what it may run")
]
ReadyFd = Annotated[int | None, typer.Option("--ready-fd", hidden=True)]


def run(
    context: typer.Context,
    repo: options.Repo = HERE,
    tag: options.RunTag = None,
    source: options.From = None,
    maximum: options.Maximum = None,
    hours: options.Hours = None,
    description: options.Description = "",
    proposer: options.Proposer = None,
    runners: options.Runners = None,
    executor: options.Executor = None,
    budget: options.Budget = None,
    gate: options.Gate = None,
    seed: options.Seed = None,
    detach: Detach = False,
    ready_fd: ReadyFd = None,
    as_json: AsJson = False,
) -> None:
    """Start or resume a session and show it live. Ctrl-C stops and keeps all."""
    if detach:
        from overnight.cli.stack import start_detached

        raise typer.Exit(start_detached(repo, tag, _words(context, WORDS), as_json))
    from overnight.cli.running import carry_out

    raise typer.Exit(carry_out(_wish(context)))


def open_(
    context: typer.Context,
    repo: options.Repo = HERE,
    tag: options.RunTag = None,
    source: options.From = None,
    maximum: options.Maximum = None,
    hours: options.Hours = None,
    description: options.Description = "",
    proposer: options.Proposer = None,
    runners: options.Runners = None,
    budget: options.Budget = None,
    gate: options.Gate = None,
    seed: options.Seed = None,
    executor: options.Executor = None,
    profiles: Profiles = None,
    as_json: AsJson = False,
) -> None:
    """Open or resume a session for services started one by one."""
    from overnight.configuration import process_environ
    from overnight.ledger.stamp import local_day
    from overnight.sessions.demo import track_of
    from overnight.sessions.opening import Request
    from overnight.sessions.serving import open_for_services

    request = Request(
        repo=repo,
        flags=_flags(context),
        environ=process_environ(),
        track=track_of(repo),
        tag=tag or None,
        source=source,
        description=description,
        today=local_day(),
        services=True,
    )
    served = open_for_services(request, profiles)
    if as_json:
        output.emit(
            {
                "tag": served.tag,
                "session_dir": str(served.files.root),
                "resumed": served.resumed,
                "running": served.running,
                "notes": list(served.notes),
            }
        )
        return
    what = "runs already" if served.running else "goes on" if served.resumed else "is open"
    output.say(f"session {output.safe(served.tag)} {what}: {output.safe(str(served.files.root))}")
    for note in served.notes:
        output.say(f"  {output.safe(note)}")


def _flags(context: typer.Context) -> dict[str, object]:
    return {key: context.params.get(name) for name, (key, _) in FLAGS.items()}


def _wish(context: typer.Context) -> Wish:
    from overnight.cli.running import Wish
    from overnight.sessions.demo import track_of

    given: dict[str, object] = context.params
    repo = given["repo"]
    assert isinstance(repo, Path)
    tag, source, fd = given["tag"], given["source"], given["ready_fd"]
    return Wish(
        repo=repo,
        tag=tag if isinstance(tag, str) else None,
        source=source if isinstance(source, str) else None,
        words=tuple(_words(context, FLAGS)),
        track=track_of(repo),
        flags=_flags(context),
        description=str(given["description"] or ""),
        ready_fd=fd if isinstance(fd, int) else None,
        as_json=bool(given["as_json"]),
    )


#: Parameter -> the key that it sets, and its flag.
FLAGS = {
    "maximum": ("policy.limits.experiments", "--max"),
    "hours": ("policy.limits.hours", "--hours"),
    "proposer": ("proposer.name", "--proposer"),
    "runners": ("pools.default.runners", "--runners"),
    "executor": ("pools.default.executor", "--executor"),
    "budget": ("budget", "--budget"),
    "gate": ("gate", "--gate"),
    "seed": ("seed", "--seed"),
}
WORDS = (*FLAGS, "tag", "source", "description")


def _words(context: typer.Context, names: Iterable[str]) -> list[str]:
    """What was given of *names*, as words for another `run`."""
    found = []
    named = {name: flag for name, (_, flag) in FLAGS.items()}
    flags = {**named, "tag": "--tag", "source": "--from", "description": "--desc"}
    for name in names:
        value = context.params[name]
        if value not in (None, ""):
            found += [flags[name], str(value)]
    return found


def status(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """How a session stands."""
    from overnight.cli import words
    from overnight.cli.summary import status_lines
    from overnight.sessions.view import current_status

    now = current_status(options.session(directory, tag))
    if as_json:
        output.emit(now)
        return
    for line in status_lines(now, Path.cwd()):
        output.say("\n".join(words.fold(line, output.width())))


def watch(tag: Tag = None, directory: Dir = HERE, as_json: AsJson = False) -> None:
    """Follow a session that runs elsewhere. Ctrl-C ends the watching, never the session."""
    from overnight.cli.watching import follow

    raise typer.Exit(follow(options.session(directory, tag), as_json=as_json))
