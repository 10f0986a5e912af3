"""once: one experiment of the tree as it lies, told and forgotten."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from overnight.cli import options, output, places
from overnight.cli.options import HERE, AsJson

if TYPE_CHECKING:
    from overnight.contracts.loop import Constraint
    from overnight.sessions.once import Once, Start

SHOWN_LINES = 20  #: of a log; `--json` has all 50
LINE_CHARS = 400
INTERRUPTED = 130
TOLD = "wanted_network"  #: a flag that the verdict's own words say better


def once(
    repo: options.Repo = HERE,
    budget: options.Budget = None,
    executor: options.Executor = None,
    gate: options.Gate = None,
    seed: options.Seed = None,
    as_json: AsJson = False,
) -> None:
    """Run the tree as it lies one time, as a session would."""
    from overnight.configuration import process_environ
    from overnight.sessions.demo import track_of
    from overnight.sessions.once import Wanted, run_once

    wanted = Wanted(
        repo=repo,
        flags={
            "budget": budget,
            "gate": gate,
            "seed": seed,
            "pools.default.executor": executor,
        },
        environ=process_environ(),
        track=track_of(repo),
    )
    try:
        done = run_once(wanted, lambda start: None if as_json else _started(start))
    except KeyboardInterrupt as error:
        output.fail("interrupted: nothing runs any more, nothing was kept")
        raise typer.Exit(INTERRUPTED) from error
    if as_json:
        output.emit(_as_json(done))
    else:
        _report(done, repo)
    raise typer.Exit(0 if done.good else 1)


def _started(start: Start) -> None:
    from overnight.cli import words

    network = "no network" if start.network == "none" else f"network: {start.network}"
    for line in start.left_out[:5]:
        output.say(f"  left out  {output.safe(line)}")
    output.say(
        f"runs `{output.safe(shlex.join(start.argv))}` for at most "
        f"{words.duration(start.wall_seconds)}   sandbox: {start.isolation}, {network}"
    )


def _report(done: Once, repo: Path) -> None:
    from overnight.cli import words

    result = done.result
    facts = [
        ("metric", _metric(done)),
        ("memory", _memory(result.peak_vram_mb)),
    ]
    for constraint in done.config.constraints:
        facts.append(("bound", _bound(constraint, result.measures.get(constraint.name))))
    if done.config.guard is not None:
        facts.append(("guard", _guard(done)))
    facts.append(("time", _time(done)))
    flags = [flag.replace("_", " ") for flag in result.flags if flag != TOLD]
    if flags:
        facts.append(("flags", ", ".join(flags)))
    facts.append(("verdict", _verdict(done)))
    for label, fact in facts:
        for line in words.fold(f"  {label:<9} {fact}", output.width()):
            output.say(line)
    if not done.good and done.log_tail:
        shown = done.log_tail.split("\n")[-SHOWN_LINES:]
        output.say(f"  its last {len(shown)} lines:" if len(shown) > 1 else "  its last line:")
        for line in shown:
            output.say(f"    | {line[:LINE_CHARS].rstrip()}")  # terminal-safe already
    if done.good:
        command = "overnight run" + ("" if repo == HERE else f" {shlex.quote(str(repo))}")
        output.say(places.as_called(f"next: {command}"))


def _metric(done: Once) -> str:
    from overnight.cli import words

    metric, value = done.config.metric, done.result.metric
    told = "none" if value is None else words.number(value)
    return f"{metric.name} {told}   ({metric.direction.value})"


def _memory(peak_mb: float | None) -> str:
    return "no peak_vram_mb line" if peak_mb is None else f"{peak_mb / 1024:.1f} GB of video memory"


def _bound(constraint: Constraint, value: float | None) -> str:
    told = f"{constraint.name} {'was not printed' if value is None else f'{value:g}'}"
    limits = [f"at least {constraint.min:g}"] if constraint.min is not None else []
    limits += [f"at most {constraint.max:g}"] if constraint.max is not None else []
    return f"{told}   ({' and '.join(limits)})"


def _guard(done: Once) -> str:
    command = output.safe(shlex.join(done.config.guard or ()), 80)
    return f"{done.result.guard or 'not run'}   ({command})"


def _time(done: Once) -> str:
    from overnight.cli import words

    result = done.result
    told = f"{words.duration(result.runtime_s)} of {words.duration(result.deadline_s)}"
    cpu = "" if result.cpu_s is None else f"   {words.duration(result.cpu_s)} of CPU"
    rest = sum(result.timings.values()) - result.timings.get("run", 0.0)
    return f"{told}{cpu}   {words.duration(rest)} around it"


def _verdict(done: Once) -> str:
    if done.good:
        return "good: a session could begin with it; nothing was kept"
    reason = f":{done.decision.reason}" if done.decision.reason else ""
    why = f"   {output.safe(done.why, 500)}" if done.why else ""
    return f"{done.decision.verdict.value}{reason}{why}"


def _as_json(done: Once) -> dict[str, Any]:
    """The fields that `results` has, and what only this verb knows."""
    from overnight.contracts import wire

    plain = wire.dump(done.result)
    for unknown in ("id", "attempt", "sender", "v", "at", "runner", "log_tail"):
        plain.pop(unknown, None)
    return {
        **plain,
        "good": done.good,
        "verdict": done.decision.verdict.value,
        "verdict_reason": done.decision.reason,
        "why": done.why,
        "metric_name": done.config.metric.name,
        "direction": done.config.metric.direction.value,
        "constraints": [wire.dump(one) for one in done.config.constraints],
        "log_tail": done.log_tail,
    }
