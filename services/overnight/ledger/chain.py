"""How one row hangs on the one before: building and checking single lines. Pure."""

from __future__ import annotations

from typing import Any

from overnight.contracts import wire
from overnight.contracts.errors import WireError
from overnight.contracts.rows import BODIES, GENESIS, ROW_VERSION, Row
from overnight.contracts.status import RowKind

MAX_LINE_BYTES = wire.MAX_MESSAGE_BYTES


class BrokenRowError(WireError):
    """One line is not the row that should stand there."""


def link(*, seq: int, ts: str, session: str, kind: RowKind, key: str, body: wire.Wire,
         prev: str) -> Row:  # fmt: skip
    """The row that follows the row with hash *prev*."""
    plain: dict[str, Any] = {
        "v": ROW_VERSION,
        "seq": seq,
        "ts": ts,
        "session": session,
        "kind": kind.value,
        "key": key,
        "body": wire.dump(body),
        "prev": prev,
    }
    plain["hash"] = wire.digest(prev + wire.canonical(plain))
    return wire.build(Row, plain)


def to_line(row: Row) -> bytes:
    """The row as it stands in the file, newline included."""
    return wire.encode(row).encode() + b"\n"


def from_line(line: bytes, *, seq: int, prev: str, session: str | None) -> Row:
    """Check one line (without its newline) against its place in the chain.

    Raises:
        BrokenRowError: one line that says what is wrong.
    """
    try:
        text = line.decode("ascii")
        value = wire.loads(text, "row")
        row = wire.build(Row, value)
    except UnicodeDecodeError as error:
        raise BrokenRowError("row holds bytes that are not ASCII") from error
    except WireError as error:
        raise BrokenRowError(str(error)) from error
    if row.seq != seq:
        raise BrokenRowError(f"seq is {row.seq}, should be {seq}")
    if session is not None and row.session != session:
        raise BrokenRowError(f"row belongs to session {row.session}, not {session}")
    if row.prev != prev:
        raise BrokenRowError("prev is not the hash of the row before")
    plain = wire.dump(row)
    claimed = plain.pop("hash")
    if claimed != wire.digest(prev + wire.canonical(plain)):
        raise BrokenRowError("hash does not fit the row")
    if wire.encode(row) != text:
        raise BrokenRowError("row is not in canonical form")
    body_of(row)
    return row


def body_of(row: Row) -> wire.Wire:
    """The row's typed body. Raises BrokenRowError."""
    try:
        return wire.build(BODIES[row.kind], row.body)
    except WireError as error:
        raise BrokenRowError(str(error)) from error


__all__ = ["GENESIS", "MAX_LINE_BYTES", "BrokenRowError", "body_of", "from_line", "link", "to_line"]
