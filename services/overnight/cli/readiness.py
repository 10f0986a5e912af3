"""doctor looks; setup and prepare are the only verbs that install or fetch, saying what first."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import options, output, places
from overnight.cli.numbers import whole
from overnight.cli.options import HERE, AsJson

if TYPE_CHECKING:
    from overnight.sessions.preparing import Plan, Step
    from overnight.sessions.readiness import Check, Readiness

Yes = Annotated[bool, typer.Option("--yes", "-y", help="ask nothing")]
SeqLen = Annotated[
    int | None,
    typer.Option(
        "--seq-len",
        parser=whole("--seq-len", 1),
        metavar="N",
        help="MAX_SEQ_LEN in prepare.py, before the first session",
    ),
]
Agent = Annotated[str | None, typer.Option(help="a coding agent that must be there, e.g. claude")]


def doctor(repo: options.Repo = HERE, agent: Agent = None, as_json: AsJson = False) -> None:
    """Say whether all is ready, and what mends the rest."""
    from overnight.configuration import process_environ
    from overnight.sessions.readiness import examine

    found = examine(repo, process_environ(), agent=agent)
    if as_json:
        output.emit(found.plain())
    else:
        _report(found, repo)
    if not found.ok:
        raise typer.Exit(1)


def setup(
    repo: options.Repo = HERE, seq_len: SeqLen = None, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Make the environment that the repository's lock names."""
    from overnight.configuration import process_environ
    from overnight.sessions.bindings import existing_folder
    from overnight.sessions.preparing import carry_out, plan_setup, set_seq_len

    environ = process_environ()
    root = existing_folder(repo)
    if seq_len is not None:
        _note(set_seq_len(root, seq_len, environ), quiet=as_json)
    plan = plan_setup(root, environ)
    _ask(plan, yes=yes, quiet=as_json)
    code = carry_out(plan, environ, lambda step: _announce(step, quiet=as_json))
    if code == 0 and not as_json:
        _show_environment(root, repo, environ)
    _done("setup", plan, code, as_json=as_json, following=_after_setup(root, repo))


def prepare(
    repo: options.Repo = HERE,
    yes: Yes = False,
    data_only: Annotated[
        bool, typer.Option("--data", help="once: the data alone, where it is bound and not there")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch the data, and build the image, as the bindings say."""
    from overnight.configuration import process_environ
    from overnight.contracts.errors import UsageError
    from overnight.sessions import images
    from overnight.sessions.bindings import existing_folder
    from overnight.sessions.inference import prepare_command
    from overnight.sessions.inference.reads import unseen
    from overnight.sessions.preparing import Plan, carry_out_prepare, is_due, loaded, plan_prepare

    environ = process_environ()
    root = existing_folder(repo)
    loop = loaded(root, environ)
    bound = loop.config.prepare if loop is not None else None
    if data_only and (loop is None or not is_due(loop)):
        _done("prepare", Plan(root=root, steps=()), 0, as_json=as_json, following="overnight run")
        return
    argv = bound or prepare_command(root)
    image = images.plan_build(loop, environ) if loop is not None and not data_only else None
    data = plan_prepare(root, argv, environ) if argv is not None else None
    plans = [plan for plan in (image, data) if plan is not None]
    if not plans:
        raise UsageError(f"nothing to prepare: no `prepare:` and no prepare.py in {root}")
    plan = Plan(root=root, steps=tuple(step for one in plans for step in one.steps))
    _ask(plan, yes=yes, quiet=as_json)
    session_root = loop.session_root if loop is not None else root / "sandbox"

    def before(step: Step) -> None:
        _announce(step, quiet=as_json)

    code = 0
    if image is not None and loop is not None:
        code = images.build(image, loop, environ, before)
    if data is not None and code == 0:
        code = carry_out_prepare(data, session_root, environ, before)
    if code == 0 and loop is not None:
        for place, named in unseen(root, loop.config.reads, environ).items():
            _note(f"{named} names {place}: add it under `reads:`", quiet=as_json)
    following = "overnight run" if loop is not None else "overnight init"
    _done("prepare", plan, code, as_json=as_json, following=_with(following, repo))


def _show_environment(root: Path, repo: Path, environ: Mapping[str, str]) -> None:
    """The check after an installation: does everything that is imported resolve?"""
    from overnight.sessions.readiness import examine

    for check in examine(root, environ).checks:
        if check.name in ("interpreter", "command", "imports"):
            _row(check, repo)


def _row(check: Check, repo: Path) -> None:
    output.say(f"{check.status:<5} {check.name:<12} {output.safe(check.detail, 300)}")
    if check.fix:
        fix = _there(output.safe(check.fix, 300), repo)
        output.say(places.as_called(f"{'':<18} fix: {fix}"))


def _report(found: Readiness, repo: Path) -> None:
    for name, text in found.first.plain().items():
        output.say(f"  {name:<12} {output.safe(text, 160)}")
    output.say("")
    for check in found.checks:
        _row(check, repo)
    output.say("")
    failed = sum(check.status == "fail" for check in found.checks)
    if failed:
        output.say(f"not ready: {failed} to mend before a run")
    else:
        following = found.first.mode.partition(": ")[2].partition(" (")[0]
        output.say(places.as_called(f"ready   next: {_there(following, repo)}"))


def _there(text: str, repo: Path) -> str:
    """The commands in *text*, with the repository that was named here."""
    if repo == HERE:
        return text
    named = shlex.quote(str(repo))
    return re.sub(r"\bovernight (init|setup|prepare|run)\b(?!,)", rf"overnight \1 {named}", text)


def _ask(plan: Plan, *, yes: bool, quiet: bool) -> None:
    """Say what will be done; on a terminal, ask. Raises typer.Exit."""
    for note in plan.notes:
        _note(note, quiet=quiet)
    if not plan.steps:
        return
    _note(f"will run in {plan.root}:", quiet=quiet)
    for step in plan.steps:
        _note(f"  {shlex.join(step.argv)}   # {step.why}", quiet=quiet)
    asked = output.is_terminal() and sys.stdin.isatty() and not yes and not quiet
    if asked and not typer.confirm("Go on?", default=True):
        output.say("nothing was done")
        raise typer.Exit(0)


def _note(text: str, *, quiet: bool) -> None:
    if not quiet:
        indent = text[: len(text) - len(text.lstrip(" "))]
        output.say(f"{indent}{output.safe(text, 500)}")


def _announce(step: Step, *, quiet: bool) -> None:
    _note(f"$ {shlex.join(step.argv)}", quiet=quiet)


def _done(verb: str, plan: Plan, code: int, *, as_json: bool, following: str) -> None:
    if as_json:
        steps = [{"argv": list(step.argv), "why": step.why} for step in plan.steps]
        output.emit({"ok": code == 0, "verb": verb, "code": code, "steps": steps})
    elif code == 0:
        output.say(places.as_called(f"{verb} done   next: {following}"))
    else:
        output.fail(f"{verb}: that command ended with {code}: mend what it says, then try again")
    if code != 0:
        raise typer.Exit(1)


def _after_setup(root: Path, repo: Path) -> str:
    """One hint: data first, else bindings, else the baseline."""
    from overnight.configuration import LOOP_FILE

    if not (root / LOOP_FILE).exists():
        prepares = (root / "prepare.py").exists()
        return _with("overnight prepare" if prepares else "overnight init", repo)
    return f"{_with('overnight once', repo)}  (the baseline: metric and peak VRAM)"


def _with(command: str, repo: Path) -> str:
    return command if repo == HERE else f"{command} {shlex.quote(str(repo))}"
