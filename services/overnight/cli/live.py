"""The live view: a line for each decided experiment, one status line at the bottom of a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.text import Text

from overnight.cli import output, words
from overnight.cli.summary import status_lines
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import Row, SessionClosed
from overnight.contracts.status import RowKind
from overnight.ledger.chain import body_of
from overnight.ledger.fold import SessionState
from overnight.sessions.opening import Opened
from overnight.sessions.supervisor import Supervisor
from overnight.sessions.view import status_object


class LiveView:
    """As `running.View`."""

    def __init__(self, header: tuple[str, ...] = ()) -> None:
        self._header = header
        self._out = output.Outlet()
        self._console = output.console(self._out)
        self._session: Opened | None = None

    def opened(self, session: Opened) -> None:
        self._session = session
        self._say(f"session {session.tag} in {session.files.root}")
        self._say(words.heading(session.config.metric.name))

    def tick(self, supervisor: Supervisor) -> None:
        pass

    def row(self, row: Row, state: SessionState) -> None:
        if row.kind is RowKind.DECISION:
            decision = body_of(row)
            assert isinstance(decision, Decision)
            left, right = words.row(state, state.experiments[decision.id], decision)
            self._say(Text(left).append(right, words.style(decision.verdict)))

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        self._say(f"  !     {name} {dict(fields)}")

    def ended(self, supervisor: Supervisor, closed: SessionClosed | None) -> None:
        session = self._session
        assert session is not None
        status = status_object(session.files, session.tag, supervisor.state, {})
        for line in status_lines(status):
            self._say(line)

    def failed(self, supervisor: Supervisor, message: str) -> None:
        self.ended(supervisor, None)

    def close(self) -> None:
        self._out.close()

    def _say(self, text: Text | str) -> None:
        self._console.print(text, soft_wrap=True)
