"""Which verbs there are. The modules of the verbs import what they need when they are called."""

from __future__ import annotations

import typer

from overnight.cli import services, session, steering, truth

HELP = "Runs research while you sleep: tries ideas under one budget, keeps only real gains."


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
    for verb in (
        session.run,
        session.status,
        steering.pause,
        steering.resume,
        steering.drain,
        steering.stop,
        truth.verify,
    ):
        app.command()(verb)
    for name in services.NAMES:
        app.command(name, help=f"The service itself; `overnight {name} --help`.")(_passed_through)
    return app


def _passed_through() -> None:
    """Never called: `main` hands services over before anything is parsed."""
