"""Opens a session, runs it to its end and reports; what `run` and `demo` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Protocol

from overnight import telemetry
from overnight.cli.events import JsonView
from overnight.cli.live import LiveView
from overnight.configuration import process_environ
from overnight.contracts.errors import OvernightError
from overnight.contracts.rows import Row, SessionClosed
from overnight.ledger.fold import SessionState
from overnight.sessions.opening import Opened, Request, open_session
from overnight.sessions.supervisor import Supervisor, Watcher

KILLED = 130


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the command line asks for."""

    repo: Path
    flags: Mapping[str, object]
    as_json: bool
    tag: str | None = None
    track: Path | None = None
    header: tuple[str, ...] = field(default=())  #: of the demo


class View(Protocol):
    """Where a run is shown."""

    def opened(self, session: Opened) -> None:
        """It is ours; nothing runs yet."""

    def tick(self, supervisor: Supervisor) -> None:
        """Called often."""

    def row(self, row: Row, state: SessionState) -> None:
        """A new row is folded."""

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """The supervisor did something."""

    def ended(self, supervisor: Supervisor, closed: SessionClosed | None) -> None:
        """Everything is down. None: it was killed."""

    def failed(self, supervisor: Supervisor, message: str) -> None:
        """It can't go on."""

    def close(self) -> None:
        """All that was said is out."""


def carry_out(wish: Wish) -> int:
    """Run it. Returns the exit code; errors before the start are raised."""
    environ = process_environ()
    opened = open_session(
        Request(
            repo=wish.repo,
            flags=wish.flags,
            environ=environ,
            track=wish.track,
            tag=wish.tag,
            today=date.today(),  # noqa: DTZ011 - a tag is the user's own day
        )
    )
    try:
        opened.files.service_logs.mkdir(exist_ok=True)
        telemetry.configure("supervisor", to=opened.files.service_logs / "supervisor.log")
        view: View = JsonView() if wish.as_json else LiveView(wish.header)
        try:
            return _supervise(opened, view, environ)
        finally:
            view.close()
    finally:
        opened.release()


def _supervise(opened: Opened, view: View, environ: Mapping[str, str]) -> int:
    supervisor = Supervisor(
        opened,
        Watcher(on_row=view.row, on_event=view.event, on_tick=lambda _: view.tick(supervisor)),
        environ,
    )
    view.opened(opened)
    try:
        closed = supervisor.run()
    except OvernightError as error:
        view.failed(supervisor, str(error))
        raise
    view.ended(supervisor, closed)
    if closed is None:
        return KILLED
    return 1 if closed.outcome == "baseline_failed" else 0
