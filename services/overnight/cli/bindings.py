"""init: finds a repository's bindings, shows what each rests on, writes loop.run.yaml."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overnight.cli import options, output, places
from overnight.cli.options import HERE, AsJson

if TYPE_CHECKING:
    from pathlib import Path

    from overnight.sessions.bindings import Initialised
    from overnight.sessions.inference import Finding, Inferred

_LABELS = {
    "metric.name": "metric",
    "metric.direction": "better",
    "metric.source": "read from",
    "run_cmd": "command",
    "editable_files": "edits",
    "constraints": "bounds",
    "pass_env": "passes",
    "startup_grace": "grace",
}
_BETTER = {"minimize": "lower", "maximize": "higher"}
_WIDTH = 34  #: of a value's column
#: What a person is asked about one by one; the rest is shown.
_ASKED = (
    "metric.name", "metric.direction", "run_cmd", "editable_files", "gate", "budget", "reads",
)  # fmt: skip
_LISTS = ("editable_files", "reads")
_WORDS = {"lower": "minimize", "higher": "maximize", "min": "minimize", "max": "maximize"}


def init(
    repo: options.Repo = HERE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="ask nothing")] = False,
    force: Annotated[bool, typer.Option("--force", help="replace loop.run.yaml")] = False,
    metric: Annotated[str | None, typer.Option(help="name of the line that is optimised")] = None,
    direction: Annotated[str | None, typer.Option(help="minimize or maximize")] = None,
    run_cmd: Annotated[str | None, typer.Option(help="e.g. 'python train.py'")] = None,
    editable: Annotated[
        list[str] | None, typer.Option(help="a file that may change; may be given again")
    ] = None,
    reads: Annotated[
        list[str] | None, typer.Option(help="visible read-only; may be given again")
    ] = None,
    budget: options.Budget = None,
    gate: options.Gate = None,
    strategy: Annotated[
        str | None, typer.Option("--iter-strategy", help="snapshots or branches")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the bindings and write loop.run.yaml. Nothing else changes."""
    from overnight.configuration import process_environ
    from overnight.sessions.bindings import existing_folder, initialise, kept_bindings, write

    given = {
        "metric.name": metric,
        "metric.direction": direction and _parsed("metric.direction", direction),
        "run_cmd": run_cmd,
        "editable_files": editable or None,
        "reads": reads or None,
        "budget": budget,
        "gate": gate,
        "iter_strategy": strategy,
    }
    wanted = {key: value for key, value in given.items() if value is not None}
    environ = process_environ()
    asks = not yes and not as_json and output.is_terminal() and sys.stdin.isatty()
    kept = None if force or not asks else kept_bindings(repo, environ)
    if kept is not None:
        done = kept
    elif asks:
        root = existing_folder(repo)
        found = _propose(root, wanted, environ)
        if not typer.confirm("Write loop.run.yaml?", default=True):
            output.say("nothing was written")
            return
        done = write(root, found, environ, force=force)
    else:
        done = initialise(repo, wanted, environ, force=force)
    if as_json:
        output.emit(_as_json(done))
        return
    _report(done, shown=asks and kept is None, given_any=bool(wanted))
    _surroundings(done, environ)
    if asks and typer.confirm("Start now?"):
        from overnight.cli.running import Wish, carry_out

        raise typer.Exit(carry_out(Wish(repo=repo, flags={}, as_json=False)))
    command = "overnight run" + ("" if repo == HERE else f" {shlex.quote(str(repo))}")
    output.say(places.as_called(f"next: {command}"))


def _propose(root: Path, given: dict[str, Any], environ: Mapping[str, str]) -> Inferred:
    """Each binding in turn: Enter takes it, anything else replaces it. What nothing speaks for
    is asked for. Raises UsageError where no answer can help."""
    found = _inferred(root, given, environ)
    if found.kind:
        output.say(output.safe(found.kind))
    output.say("each in turn: Enter accepts it, anything else takes its place")
    for key in _ASKED:
        finding = found.findings()[key]
        if finding.evidence == "given":
            continue
        found = _asked(root, (key, finding), given, environ) or found
    for key, finding in found.findings().items():
        if key not in _ASKED:
            output.say(_row(key, finding))
    return found


def _asked(
    root: Path, proposed: tuple[str, Finding], given: dict[str, Any], environ: Mapping[str, str]
) -> Inferred | None:
    """What follows from a person's answer, None when the proposal is taken. An answer that would
    not load is asked for again at once: those before it are never lost."""
    from overnight.contracts.errors import UsageError
    from overnight.sessions.bindings import loadable

    key, finding = proposed
    text = _shown(key, finding.value)
    found = None
    while True:
        answer = typer.prompt(
            _row(key, finding), default=text, show_default=False, prompt_suffix="  > "
        ).strip()
        if answer == text:
            return None
        try:
            wanted = given | {key: _parsed(key, answer)}
            found = _inferred(root, wanted, environ)
            loadable(root, found, environ)
        except UsageError as error:
            # What is wrong elsewhere is not this answer's: it is told when all are given.
            if found is None or key in str(error):
                output.say(f"  !           {output.safe(str(error), 300)}")
                found = None
                continue
        given.update(wanted)
        return found


def _inferred(root: Path, given: dict[str, Any], environ: Mapping[str, str]) -> Inferred:
    from overnight.sessions.inference import UnknownBindingError, infer

    while True:
        try:
            return infer(root, given, environ)
        except UnknownBindingError as error:
            if error.key in given or error.key not in _ASKED:
                raise
            output.say(output.safe(str(error), 500))
            label = f"  {_label(error.key):<11}"
            answer = typer.prompt(label, default="", show_default=False, prompt_suffix=" > ")
            if not answer.strip():
                raise
            given[error.key] = _parsed(error.key, answer.strip())


def _parsed(key: str, answer: str) -> Any:
    from overnight.cli.numbers import amount
    from overnight.configuration import split_command

    if key in _LISTS:
        return [] if answer == "-" else shlex.split(answer)
    if key == "run_cmd":
        return list(split_command(answer))
    if key == "budget":
        return amount("budget")(answer)
    return _WORDS.get(answer.lower(), answer)


def _as_json(done: Initialised) -> dict[str, object]:
    """The bindings as they load, and what they rest on."""
    from overnight.contracts import wire

    return {
        **wire.dump(done.loop.config),
        "path": str(done.path),
        "written": done.written,
        "evidence": {key: finding.evidence for key, finding in done.findings.items()},
        "warnings": list(done.warnings),
    }


def _report(done: Initialised, *, shown: bool, given_any: bool) -> None:
    if not done.written:
        ignored = "; the flags given here were not used" if given_any else ""
        output.say(f"{done.path} is there already and loads{ignored} (--force writes it anew)")
        return
    if not shown:
        if done.kind:
            output.say(output.safe(done.kind))
        for key, finding in done.findings.items():
            output.say(_row(key, finding))
    frozen = " ".join(done.frozen)
    output.say(f"  {'frozen':<11} {'all else' if not frozen else f'all else: {frozen}'}")


def _surroundings(done: Initialised, environ: Mapping[str, str]) -> None:
    """What stands around the bindings: the user's own changes, and the five first checks."""
    from overnight.sessions.readiness import surroundings

    found, own = surroundings(done.loop, environ)
    output.say(f"  {'yours':<11} {output.safe(own, 300)}")
    for name, text in found.plain().items():
        output.say(f"  {name:<11} {output.safe(text, 300)}")
    for warning in done.warnings:
        output.say(places.as_called(f"  !           {output.safe(warning, 300)}"))
    if done.written:
        output.say(f"wrote {done.path} (nothing else changed)")


def _row(key: str, finding: Finding) -> str:
    text = output.safe(_shown(key, finding.value), 100)
    evidence = output.safe(finding.evidence, 100)
    if len(text) > _WIDTH:
        return f"  {_label(key):<11} {text}\n{'':<14}{'':<{_WIDTH}} {evidence}"
    return f"  {_label(key):<11} {text:<{_WIDTH}} {evidence}".rstrip()


def _label(key: str) -> str:
    return _LABELS.get(key, key)


def _shown(key: str, value: Any) -> str:
    """A binding's value as one reads, and types, it."""
    if key == "metric.direction":
        return _BETTER.get(str(value), str(value))
    if key == "constraints":
        return ", ".join(_constraint(one) for one in value)
    if key == "metric.source":
        return _source(value)
    if key in _LISTS:
        return " ".join(map(_plain, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(path: str) -> str:
    """As one types it: `~` stays what it is."""
    return shlex.quote(path) if re.search(r"[\s'\"\\]", path) else path


def _source(value: Any) -> str:
    if not isinstance(value, Mapping):
        return "a line NAME: NUMBER"
    if "regex" in value:
        return f"{value['take']} match of {value['regex']}"
    if "json" in value:
        return f"{value['key']} in {value['json']}"
    return shlex.join(map(str, value["command"]))


def _constraint(one: Mapping[str, Any]) -> str:
    bounds = [f">= {one['min']:g}"] if one.get("min") is not None else []
    bounds += [f"<= {one['max']:g}"] if one.get("max") is not None else []
    return f"{one['name']} {' and '.join(bounds)}"
