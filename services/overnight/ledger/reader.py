"""Reading a ledger while somebody writes it: whole checked rows, in order, each once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts.errors import InfrastructureError, LedgerError
from overnight.contracts.rows import GENESIS, Row
from overnight.ledger.chain import MAX_LINE_BYTES, BrokenRowError, from_line
from overnight.ledger.plain import check_plain

_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class _Place:
    """After the last row that was taken."""

    offset: int = 0  #: of the first byte after it
    seq: int = 0
    prev: str = GENESIS
    session: str | None = None


class LedgerTail:
    """Follows one ledger.jsonl. An unterminated last line is left for the next poll."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = _Place()

    def poll(self) -> list[Row]:
        """All rows that have come since the last poll; none when there is no file yet.

        Raises:
            LedgerError: a terminated line is not the row that should stand there.
            InfrastructureError: the disk refused; nothing was taken.
        """
        before = self._place
        try:
            return list(self.rows())
        except InfrastructureError:
            self._place = before
            raise

    def rows(self) -> Iterator[Row]:
        """As `poll`, a piece of the file at a time: for a long ledger. Take them all."""
        check_plain(self._path)
        try:
            with self._path.open("rb") as file:
                file.seek(self._place.offset)
                rest = b""  # not kept for the next poll: a torn row may be taken back meanwhile
                while data := file.read(_CHUNK_BYTES):
                    *lines, rest = (rest + data).split(b"\n")
                    if len(rest) > MAX_LINE_BYTES:
                        raise LedgerError(
                            f"{self._path}: line {self._place.seq + len(lines) + 1} is too long;"
                            " run `overnight ledger repair`"
                        )
                    for line in lines:
                        yield self._take(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InfrastructureError(f"{self._path}: {error.strerror}") from error

    def _take(self, line: bytes) -> Row:
        at = self._place
        try:
            row = from_line(line, seq=at.seq + 1, prev=at.prev, session=at.session)
        except BrokenRowError as error:
            raise LedgerError(
                f"{self._path}: line {at.seq + 1}: {error}; run `overnight ledger repair`"
            ) from error
        self._place = _Place(at.offset + len(line) + 1, row.seq, row.hash, row.session)
        return row
