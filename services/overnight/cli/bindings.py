"""init: finds a repository's bindings, shows what each rests on, writes loop.run.yaml."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli import options, output, places
from overnight.cli.options import HERE, AsJson

if TYPE_CHECKING:
    from overnight.sessions.bindings import Initialised

_LABELS = {
    "metric.name": "metric",
    "metric.direction": "better",
    "run_cmd": "command",
    "editable_files": "edits",
    "budget": "budget",
    "reads": "reads",
}


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
    from overnight.sessions.bindings import initialise

    given = {
        "metric.name": metric,
        "metric.direction": direction,
        "run_cmd": run_cmd,
        "editable_files": editable or None,
        "reads": reads or None,
        "budget": budget,
        "gate": gate,
        "iter_strategy": strategy,
    }
    wanted = {key: value for key, value in given.items() if value is not None}
    done = initialise(repo, wanted, process_environ(), force=force)
    if as_json:
        output.emit(_as_json(done))
        return
    _report(done, given_any=bool(wanted))
    if not yes and output.is_terminal() and sys.stdin.isatty() and typer.confirm("Start now?"):
        from overnight.cli.running import Wish, carry_out

        raise typer.Exit(carry_out(Wish(repo=repo, flags={}, as_json=False)))
    command = "overnight run" + ("" if repo == HERE else f" {shlex.quote(str(repo))}")
    output.say(places.as_called(f"next: {command}"))


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


def _report(done: Initialised, *, given_any: bool) -> None:
    if not done.written:
        ignored = "; the flags given here were not used" if given_any else ""
        output.say(f"{done.path} is there already and loads{ignored} (--force writes it anew)")
        return
    for key, finding in done.findings.items():
        value = finding.value
        text = " ".join(map(str, value)) if isinstance(value, list) else f"{value}"
        text = f"{text:g}" if isinstance(value, float) and not text else text
        label = _LABELS.get(key, key)
        output.say(
            f"  {label:<9} {output.safe(text or '-', 60):<32} {output.safe(finding.evidence)}"
        )
    for warning in done.warnings:
        output.say(f"  !         {output.safe(warning)}")
    output.say(f"wrote {done.path} (nothing else changed)")
