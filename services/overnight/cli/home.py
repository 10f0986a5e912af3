"""apply, weights: what a session found, brought to the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import output
from overnight.cli.options import HERE, AsJson, Dir, OfTag, session

if TYPE_CHECKING:
    from overnight.ledger.fold import ExperimentState
    from overnight.sessions.applying import Applied

Best = Annotated[str, typer.Argument(metavar="ID", help="an experiment's number, or: best")]
Onto = Annotated[
    str | None,
    typer.Option(metavar="BRANCH", help="commit on top of it; default: a new overnight/<tag>"),
]
Squash = Annotated[bool, typer.Option("--squash", help="one commit instead of one a change")]
ToFolder = Annotated[
    Path | None, typer.Option("--to", metavar="DIR", help="files and a patch, instead of commits")
]
OtherRepo = Annotated[
    Path | None,
    typer.Option("--repo", metavar="DIR", help="where it was moved elsewhere"),
]


def apply(
    which: Best = "best",
    tag: OfTag = None,
    onto: Onto = None,
    squash: Squash = False,
    to: ToFolder = None,
    repo: OtherRepo = None,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """Bring the best home: a branch, one commit a kept change. Your checkout stays as it is."""
    from overnight.cli.places import as_called
    from overnight.configuration import process_environ
    from overnight.contracts.errors import UsageError
    from overnight.sessions.applying import Wish
    from overnight.sessions.applying import apply as bring
    from overnight.sessions.weights import left_by

    if to is not None and (onto is not None or squash):
        raise UsageError("--to DIR writes files, not commits: leave out --onto and --squash")
    wish = Wish(
        which=which,
        repo=None if repo is None else repo.absolute(),
        here=directory.absolute(),
        onto=onto,
        squash=squash,
        to=None if to is None else to.absolute(),
    )
    found = session(directory, tag)
    done = bring(found, wish, process_environ())
    if as_json:
        output.emit(done.as_json())
    elif done.to is not None:
        _say_files(done)
    else:
        _say_branch(done)
    if as_json:
        return
    for note in done.notes:
        output.say(f"  note      {output.safe(note, 500)}")
    if left_by(found.files, done.id):
        output.say(as_called(f"  weights   overnight weights {done.id} --to FILE"))
    _say_next(done)


def _say_files(done: Applied) -> None:
    from overnight.cli.places import shown
    from overnight.snapshots.patches import PATCH_NAME

    assert done.to is not None
    names = ", ".join((*done.files, PATCH_NAME))
    place = shown(done.to, Path.cwd())
    output.say(f"{output.safe(place)}: {output.safe(names, 500)}; nothing else was written")
    for experiment in done.changes:
        output.say(f"  {experiment.id:03d}       {_idea(experiment)}")


def _say_branch(done: Applied) -> None:
    branch, count = output.safe(done.branch or "", 250), len(done.commits)
    if not count:
        output.say(f"nothing to do: what {branch} stands on has all of it already")
        return
    commits = "1 commit" if count == 1 else f"{count} commits"
    verb = "created" if done.made else "moved on"
    files = output.safe(", ".join(done.files), 200)
    output.say(f"branch {branch} {verb}: {commits} ({files})")
    changes = {experiment.id: experiment for experiment in done.changes}
    for commit, ids in done.commits:
        for number in ids:
            output.say(f"  {commit[:9]} {number:03d} {_idea(changes[number])}")
    if done.skipped:
        there = ", ".join(f"{number:03d}" for number in done.skipped)
        output.say(f"  there     {there}: on the branch already")
    output.say("  yours     checkout, index and stash are as they were")


def _idea(experiment: ExperimentState) -> str:
    from overnight.cli import words

    metric = experiment.final.metric if experiment.final else None
    number = "" if metric is None else f"  {words.number(metric)}"
    return f"{output.safe(experiment.proposed.hypothesis, 90)}{number}"


def _say_next(done: Applied) -> None:
    import shlex

    from overnight.cli.places import shown
    from overnight.snapshots.patches import PATCH_NAME

    here = Path.cwd()
    if done.to is not None:
        place = shlex.quote(str(done.to / PATCH_NAME))
        output.say(f"next: patch -p1 --dry-run < {output.safe(place, 500)}")
    elif done.commits and done.repo is not None and done.branch is not None:
        where = "" if done.repo == here else f" -C {shlex.quote(shown(done.repo, here))}"
        branch = shlex.quote(done.branch)
        output.say(output.safe(f"next: git{where} diff HEAD...{branch}", 500))
        output.say("      " + output.safe(f"git{where} merge {branch}", 500))


def weights(
    which: Best = "best",
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="where to, a file or a folder")
    ] = HERE,
    tag: OfTag = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="NAME", help="of several that it left")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="over a file that is there")] = False,
    directory: Dir = HERE,
    as_json: AsJson = False,
) -> None:
    """Copy the weights that an experiment left in $OVERNIGHT_OUT."""
    from overnight.cli.places import shown
    from overnight.cli.words import size
    from overnight.sessions.experiments import find_experiment
    from overnight.sessions.locate import read_state
    from overnight.sessions.weights import save

    found = session(directory, tag)
    experiment = find_experiment(read_state(found.files), which)
    saved = save(found.files, experiment, to.absolute(), wanted=file, force=force)
    if as_json:
        output.emit(
            {
                "tag": found.tag,
                "id": saved.id,
                "file": saved.file.path,
                "bytes": saved.file.size_bytes,
                "to": str(saved.to),
            }
        )
        return
    name, large = output.safe(saved.file.path), size(saved.file.size_bytes)
    place = output.safe(shown(saved.to, Path.cwd()), 500)
    output.say(f"{place}: {name} of experiment {saved.id}, {large}")
