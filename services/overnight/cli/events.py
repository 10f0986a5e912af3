"""`run --json`: one event an output line; the last line is the status object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overnight.cli.output import Outlet, as_json
from overnight.contracts.rows import Row, SessionClosed
from overnight.ledger.fold import SessionState
from overnight.sessions.opening import Opened
from overnight.sessions.supervisor import Supervisor
from overnight.sessions.view import status_object


class JsonView:
    """As `running.View`."""

    def __init__(self) -> None:
        self._out = Outlet()
        self._session: Opened | None = None
        self._said_ready = False

    def opened(self, session: Opened) -> None:
        """The first line."""
        self._session = session
        self._line(
            event="opened",
            tag=session.tag,
            resumed=session.resumed,
            session_dir=str(session.files.root),
            runners=session.opening.runners,
        )
        for note in session.notes:
            self._line(event="note", text=note)

    def tick(self, supervisor: Supervisor) -> None:
        """Says once that all services work."""
        if supervisor.ready and not self._said_ready:
            self._said_ready = True
            self._line(
                event="ready", isolation=supervisor.isolation, endpoints=supervisor.endpoints
            )

    def row(self, row: Row, state: SessionState) -> None:
        """The row's own fields."""
        self._line(event=row.kind.value, seq=row.seq, ts=row.ts, **row.body)

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """restarted, stopping, killed."""
        self._line(event=name, **fields)

    def ended(self, supervisor: Supervisor, closed: SessionClosed | None) -> None:
        """The last line."""
        session = self._session
        assert session is not None  # noqa: S101 - opened came first
        endpoints = supervisor.endpoints
        self._line(**status_object(session.files, session.tag, supervisor.state, endpoints))

    def failed(self, supervisor: Supervisor, message: str) -> None:
        """The reason, then the last line as ever."""
        self._line(event="error", message=message)
        self.ended(supervisor, None)

    def close(self) -> None:
        """Until the reader has all."""
        self._out.close()

    def _line(self, **fields: Any) -> None:
        self._out.write(as_json(fields) + "\n")
