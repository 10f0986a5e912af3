"""demo: the whole system on the bundled track, live."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overnight.cli.numbers import amount, whole
from overnight.cli.options import AsJson, Executor, Gate, Runners, Seed
from overnight.ledger.stamp import local_day

if TYPE_CHECKING:
    from overnight.cli.view import Head, Ready
    from overnight.sessions.opening import Opened

IDEAS = 16
AT_A_TIME = 2
STEPS = 300.0  #: what the track's recorded baseline was measured with
START_UP_SECONDS = 6.0  #: beside the budget: imports, evaluation, the sandbox, the services


def demo(
    experiments: Annotated[
        int,
        typer.Option(
            parser=whole("--experiments", 0), metavar="N", help="ideas, beside the baseline"
        ),
    ] = IDEAS,
    budget: Annotated[
        float | None,
        typer.Option(parser=amount("--budget"), metavar="N", help="of each, as the gate counts"),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="default: a new folder below ./demo")
    ] = None,
    gate: Gate = None,
    seed: Seed = None,
    runners: Runners = None,
    executor: Executor = None,
    as_json: AsJson = False,
) -> None:
    """Make a tiny language model better. Here, in a few minutes."""
    from overnight.cli.running import Wish, carry_out
    from overnight.contracts.loop import CONTAINERS
    from overnight.sessions.demo import check_can_train, prepare_demo

    contained = executor in CONTAINERS  # the image has what it trains with
    torch = None if contained else check_can_train()
    if gate == "steps" and budget is None:
        budget = STEPS  # the track's own number counts CPU-seconds
    settings = {"gate": gate, "budget": budget, "seed": seed}
    here = Path.cwd()
    made = prepare_demo(
        directory,
        settings,
        here=here,
        today=local_day(),
    )
    flags = {
        **({} if made.new else settings),
        "policy.limits.experiments": experiments,
        "pools.default.runners": runners or min(AT_A_TIME, os.cpu_count() or 1),
        "pools.default.executor": executor,
        "python": None if contained else sys.executable,
    }

    again = [] if experiments == IDEAS else ["--experiments", str(experiments)]
    again += [] if runners is None else ["--runners", str(runners)]
    again += [] if executor is None else ["--executor", executor]

    def dress(opened: Opened, head: Head) -> Head:
        return _dress(opened, _with_next(opened, head, again), torch)

    wish = Wish(repo=made.repo, track=made.track, flags=flags, as_json=as_json, dress=dress)
    raise typer.Exit(carry_out(wish))


def _with_next(opened: Opened, head: Head, words: list[str]) -> Head:
    """What to do after a demo: go on with it, mend it, or take one's own repository."""
    import shlex
    from dataclasses import replace

    from overnight.cli import places
    from overnight.cli.running import was_ended_early
    from overnight.contracts.rows import SessionClosed

    where = places.shown(Path(opened.opening.repo), head.here)
    again = shlex.join(["overnight", "demo", "--dir", where, *words])

    def following(closed: SessionClosed | None) -> str:
        if was_ended_early(closed):
            return f"next: {again}  goes on"
        if closed is not None and closed.outcome == "baseline_failed":
            return head.following(closed)
        return places.as_called(
            "next: your own repo  ->  cd YOUR_REPO && overnight init && overnight run",
            elsewhere=True,
        )

    return replace(head, following=following)


def _dress(opened: Opened, head: Head, torch: str | None) -> Head:
    """The demo's four steps. *torch*: its version; None: the image's."""
    from dataclasses import replace

    from overnight.cli import places, words
    from overnight.configuration import process_environ, redis_source
    from overnight.contracts.status import Gate as Counted

    config = opened.config
    runners = opened.opening.runners
    where = places.shown(Path(opened.opening.repo), head.here)
    redis = redis_source(process_environ()).origin
    unit = {Counted.CPU_TIME: "CPU-seconds", Counted.TIME: "s"}.get(config.gate, config.gate.value)
    ideas = config.policy.limits.experiments or 0
    about = ""
    if config.gate is Counted.CPU_TIME:
        each = config.budget + START_UP_SECONDS
        about = f"; about {words.duration(each + each * ideas / runners)}"

    def ready_lines(ready: Ready) -> tuple[str, ...]:
        at_a_time = "runner" if runners == 1 else "runners"
        return (
            f"[2/4] {redis}, orchestrator, {runners} {at_a_time}, recorder up in "
            f"{ready.seconds:.1f} s   {ready.sandbox}",
            f"[3/4] track tiny_lm in {where}: {config.budget:g} {unit} an experiment, "
            f"{runners} at a time{about}. Ctrl-C stops and keeps all.",
        )

    resumed = f"; goes on in {where}" if head.resumed else ""
    return replace(
        head,
        lines=(f"[1/4] {_trains_with(torch)} ok{resumed}",),
        ready_lines=ready_lines,
        done_prefix="[4/4] ",
    )


def _trains_with(torch: str | None) -> str:
    if torch is None:
        return "python and torch of the image"
    return f"python {platform.python_version()}, torch {torch}"
