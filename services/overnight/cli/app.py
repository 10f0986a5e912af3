"""Which verbs there are. The modules of the verbs import what they need when they are called."""

from __future__ import annotations

import typer

from overnight import __version__
from overnight.cli import (
    bench,
    bindings,
    deadletter,
    demo,
    disk,
    experiment,
    home,
    once,
    output,
    program,
    prompt,
    readiness,
    report,
    services,
    session,
    skills,
    stack,
    steering,
    truth,
)

HELP = "Runs research while you sleep: tries ideas under one budget, keeps only real gains."
VERBS = (
    demo.demo,
    bindings.init,
    readiness.doctor,
    readiness.setup,
    readiness.prepare,
    once.once,
    session.run,
    session.open_,
    session.status,
    session.watch,
    experiment.results,
    experiment.show,
    experiment.diff,
    experiment.log,
    experiment.wait,
    report.report,
    home.apply,
    home.weights,
    disk.runs,
    disk.clean,
    disk.migrate,
    steering.pause,
    steering.resume,
    steering.drain,
    steering.stop,
    steering.steer,
    steering.approve,
    steering.reject,
    stack.up,
    stack.down,
    truth.verify,
)


def build() -> typer.Typer:
    """The command line."""
    app = typer.Typer(
        name="overnight",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(help=HELP)(_main)
    for verb in VERBS:
        app.command(verb.__name__.rstrip("_"))(verb)
    app.add_typer(truth.ledger, name="ledger")
    app.add_typer(deadletter.deadletter, name="deadletter")
    app.add_typer(bench.bench, name="bench")
    app.add_typer(program.program, name="program")
    app.add_typer(prompt.prompt, name="prompt")
    app.add_typer(skills.skills, name="skills")
    for name in services.NAMES:
        app.command(name, help=f"The service itself: `overnight {name} --help`.")(_passed_through)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        output.say(f"overnight {__version__}")
        raise typer.Exit


def _main(
    version: bool = typer.Option(False, "--version", callback=_say_version, is_eager=True),
) -> None:
    """Without a verb there is nothing to do."""


def _passed_through() -> None:
    """Never called: `main` hands services over before anything is parsed."""
