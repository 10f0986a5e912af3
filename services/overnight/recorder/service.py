"""The write path's end: a message is checked against the fold, put on the disk, then acked."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from overnight.contracts.rows import Ack, LedgerMessage, Row
from overnight.contracts.status import RowKind
from overnight.ledger.admission import Admit, Duplicate, Refuse, admit
from overnight.ledger.writer import LedgerWriter

log = structlog.get_logger()


class Recorder:
    """Turns messages into rows. Holds no Redis: the caller reads the inbox and sends the acks."""

    def __init__(self, writer: LedgerWriter, on_row: Callable[[Row], None]) -> None:
        self._writer = writer
        self._on_row = on_row

    def handle(self, message: LedgerMessage) -> Ack:
        """Record one message and say what became of it.

        Raises:
            InfrastructureError: the disk refused. The message must stay in the inbox.
        """
        row = self._writer.settle()
        if row is not None:
            self._on_row(row)
        verdict = admit(self._writer.state, message)
        if isinstance(verdict, Duplicate):
            return Ack(seq=verdict.seq)
        if isinstance(verdict, Refuse):
            log.warning("message_refused", key=message.key, reason=verdict.reason)
            return Ack(refused=True, reason=verdict.reason[:2000])
        return Ack(seq=self._append(message, verdict).seq)

    def _append(self, message: LedgerMessage, verdict: Admit) -> Row:
        row = self._writer.append(verdict.kind, message.key, verdict.body)
        if verdict.kind is RowKind.SUPERSEDED:
            log.info("result_superseded", key=message.key)
        self._on_row(row)
        return row
