"""Reading a ledger while somebody writes it: whole checked rows, in order, each once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from overnight.contracts.errors import LedgerError
from overnight.contracts.rows import GENESIS, Row
from overnight.ledger.chain import MAX_LINE_BYTES, BrokenRowError, from_line

_CHUNK_BYTES = 1024 * 1024


class LedgerTail:
    """Follows one ledger.jsonl. An unterminated last line is left for the next poll."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._seq = 0
        self._prev = GENESIS
        self._session: str | None = None

    def poll(self) -> list[Row]:
        """All rows that have come since the last poll; none when there is no file yet.

        Raises:
            LedgerError: a terminated line is not the row that should stand there.
        """
        return list(self.rows())

    def rows(self) -> Iterator[Row]:
        """As `poll`, a piece of the file at a time: for a long ledger. Take them all."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while data := file.read(_CHUNK_BYTES):
                    yield from self._take(data)
        except FileNotFoundError:
            return

    def _take(self, data: bytes) -> list[Row]:
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise LedgerError(f"{self._path}: line {self._seq + 1} is too long")
        return [self._check(line) for line in lines]

    def _check(self, line: bytes) -> Row:
        try:
            row = from_line(line, seq=self._seq + 1, prev=self._prev, session=self._session)
        except BrokenRowError as error:
            raise LedgerError(
                f"{self._path}: line {self._seq + 1}: {error}; run `overnight ledger repair`"
            ) from error
        self._seq, self._prev, self._session = row.seq, row.hash, row.session
        return row
