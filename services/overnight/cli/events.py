"""`run --json`: one event an output line; the last line is the status object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from overnight.cli.output import Outlet, as_json
from overnight.cli.view import Head, Ready
from overnight.contracts.rows import Row, SessionClosed
from overnight.contracts.status import RowKind
from overnight.ledger.approvals import awaiting
from overnight.ledger.fold import SessionState
from overnight.sessions.view import status_object


class JsonView:
    """As `view.View`. Call from one thread."""

    def __init__(self) -> None:
        self._out = Outlet()
        self._head: Head | None = None
        self._endpoints: dict[str, str] = {}
        self._asked: set[int] = set()

    def opened(self, head: Head) -> None:
        """The first line."""
        self._head = head
        self._line(
            event="opened",
            tag=head.tag,
            resumed=head.resumed,
            session_dir=str(head.files.root),
            runners=head.runners,
        )
        for note in head.notes:
            self._line(event="note", text=note)
        if head.estimate is not None:
            self._line(event="estimate", **asdict(head.estimate))

    def ready(self, ready: Ready) -> None:
        """Once."""
        self._endpoints = dict(ready.endpoints)
        self._line(event="ready", isolation=ready.isolation, endpoints=self._endpoints)

    def tick(self, state: SessionState) -> None:
        """Ideas that wait for approval, each once a start."""
        for experiment in awaiting(state):
            if experiment.id not in self._asked:
                self._asked.add(experiment.id)
                hypothesis = experiment.proposed.hypothesis
                self._line(event="approval", id=experiment.id, hypothesis=hypothesis)

    def row(self, row: Row, state: SessionState) -> None:
        """The row's own fields; with a decision also what it is about."""
        more: dict[str, Any] = {}
        if row.kind is RowKind.DECISION:
            experiment = state.experiments[row.body["id"]]
            more = {
                "metric": experiment.final.metric if experiment.final else None,
                "hypothesis": experiment.proposed.hypothesis,
            }
        self._line(**{**row.body, **more, "event": row.kind.value, "seq": row.seq, "ts": row.ts})

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """restarted, waiting, stopping, killed, error."""
        self._line(event=name, **fields)

    def ended(self, state: SessionState, closed: SessionClosed | None, failed: bool) -> None:
        """The last line."""
        head = self._head
        assert head is not None
        if self._out.dropped:
            self._out.write_last(as_json({"event": "dropped", "lines": self._out.dropped}) + "\n")
        last = status_object(head.files, head.tag, state, self._endpoints)
        self._out.write_last(as_json(last) + "\n")

    def close(self) -> None:
        """Wait until the reader has all."""
        self._out.close()

    def _line(self, **fields: Any) -> None:
        event = {"event": fields.pop("event")} if "event" in fields else {}
        self._out.write(as_json({**event, **fields}) + "\n")
