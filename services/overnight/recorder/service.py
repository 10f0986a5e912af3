"""The write path's end: one message at a time, checked against the fold, on the disk, then acked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import WireError
from overnight.contracts.rows import Ack, LedgerMessage, Row
from overnight.contracts.status import RowKind
from overnight.ledger.admission import Admit, Duplicate, Refuse, admit
from overnight.ledger.writer import LedgerWriter

log = structlog.get_logger()


@dataclass(frozen=True)
class Answer:
    """What to acknowledge an inbox entry with. key is None when not even a key could be read."""

    key: str | None
    ack: Ack


class Recorder:
    """Turns messages into rows. Holds no Redis: the caller reads the inbox and sends the acks."""

    def __init__(self, writer: LedgerWriter, on_row: Callable[[Row], None]) -> None:
        self._writer = writer
        self._on_row = on_row

    def handle(self, text: str | None) -> Answer:
        """Record one message.

        Raises:
            InfrastructureError: the disk refused. The message must stay in the inbox.
        """
        try:
            message = wire.decode(LedgerMessage, text or "")
        except WireError as error:
            log.warning("message_undecodable", reason=str(error))
            return Answer(_readable_key(text), Ack(refused=True, reason=str(error)[:2000]))
        verdict = admit(self._writer.state, message)
        if isinstance(verdict, Duplicate):
            return Answer(message.key, Ack(seq=verdict.seq))
        if isinstance(verdict, Refuse):
            log.warning("message_refused", key=message.key, reason=verdict.reason)
            return Answer(message.key, Ack(refused=True, reason=verdict.reason[:2000]))
        return Answer(message.key, Ack(seq=self._append(message, verdict).seq))

    def _append(self, message: LedgerMessage, verdict: Admit) -> Row:
        row = self._writer.append(verdict.kind, message.key, verdict.body)
        if verdict.kind is RowKind.SUPERSEDED:
            log.info("result_superseded", key=message.key)
        self._on_row(row)
        return row


def _readable_key(text: str | None) -> str | None:
    """The key of a message that is otherwise wrong, so that its sender stops re-sending."""
    try:
        value = wire.loads(text or "")
    except WireError:
        return None
    key = value.get("key") if isinstance(value, dict) else None
    return key if isinstance(key, str) and 0 < len(key) <= 200 else None
