"""How one row hangs on the one before: building and checking single lines. Pure."""

from __future__ import annotations

from typing import Any

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError, VersionError, WireError
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import BODIES, GENESIS, ROW_VERSION, Row, SessionOpened
from overnight.contracts.status import RowKind

MAX_LINE_BYTES = wire.MAX_MESSAGE_BYTES
#: How a row's canonical text begins, and its one part that the hash is not taken over.
_BODY, _HASH = '{"body":', '"hash":"{}",'
_HASH_CHARS = len(_HASH.format(GENESIS))


class BrokenRowError(WireError):
    """One line is not the row that should stand there."""


class OtherVersionRowError(LedgerError):
    """One line is a whole row of another version: nobody may go on after it, or cut it off."""


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
        OtherVersionRowError: nothing is wrong with it, but another version wrote it.
    """
    row = _at_once(line, seq=seq, prev=prev, session=session)
    return row or _step_by_step(line, seq=seq, prev=prev, session=session)


def _at_once(line: bytes, *, seq: int, prev: str, session: str | None) -> Row | None:
    """The row, or None when anything is not as it should be; then `_step_by_step` says what.

    Most of the time of whoever reads a ledger is spent here, so each line is parsed once and
    written once. A text that equals its own canonical form holds no doubled key, no NaN and no
    other spelling; the hash and the body are taken from that text as it stands.
    """
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        text = line.decode("ascii")
        row = Row.model_validate_json(text)
        if wire.canonical(row.__dict__) != text:
            return None
        if text.count("[") + text.count("{") > wire.MAX_DEPTH:
            wire.bound_depth(row.__dict__, "row")
        cut = text.rindex(_HASH.format(row.hash))  # in the body it would stand before, in a key \\"
        if row.hash != wire.digest(prev + text[:cut] + text[cut + _HASH_CHARS :]):
            return None
        model = BODIES[row.kind]
        wire.check_version_of(model, row.body)
        body = model.model_validate_json(text[len(_BODY) : cut - 1])
        if isinstance(body, SessionOpened):
            wire.build(LoopConfig, body.config)
    except (ValueError, WireError, RecursionError):
        return None
    if (row.seq, row.prev, session or row.session) != (seq, prev, row.session):
        return None
    row.__dict__["typed"] = body  # what the cached property would make of it once more
    return row


def _step_by_step(line: bytes, *, seq: int, prev: str, session: str | None) -> Row:
    """As `from_line`, which says what it raises. Slow, and the only one that judges."""
    try:
        text = line.decode("ascii")
        value = wire.loads(text, "row")
        row = wire.build(Row, value)
    except UnicodeDecodeError as error:
        raise BrokenRowError("row holds bytes that are not ASCII") from error
    except WireError as error:
        refuse_other_version(line, seq)
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
    try:
        _understand(row)
    except WireError as error:
        refuse_other_version(line, seq)
        raise BrokenRowError(str(error)) from error
    return row


def refuse_other_version(line: bytes, number: int) -> None:
    """Is this line, which can't be read, a whole row of another version? Pure.

    A row of this format whose hash fits is not damaged: what this release can't read in it, a
    newer one wrote. A row of another format can't be checked, so it counts as whole, unless it is
    one of ours in which only the `v` was damaged.

    Raises:
        OtherVersionRowError: names the row and what wrote it.
    """
    try:
        value = wire.loads(line.decode("ascii"), "row")
        wire.check_version("row", value, ROW_VERSION)
    except VersionError as error:
        assert isinstance(value, dict)  # it has a `v`
        if not _hash_fits({**value, "v": ROW_VERSION}):
            raise OtherVersionRowError(f"ledger row {number}: {error}") from error
    except (WireError, UnicodeDecodeError):
        return
    if not isinstance(value, dict) or not _hash_fits(value):
        return
    try:
        _understand(wire.build(Row, value))
    except WireError as error:
        raise OtherVersionRowError(
            f"ledger row {number} is whole, but was written by a newer version of Overnight: "
            f"{error}; finish this session with the version that wrote it, or open another "
            "with --tag"
        ) from error


def _understand(row: Row) -> None:
    """Raises WireError when there is something in the body that this release does not know."""
    body = body_of(row)
    if isinstance(body, SessionOpened):
        wire.build(LoopConfig, body.config)


def _hash_fits(value: dict[str, Any]) -> bool:
    plain = {name: field for name, field in value.items() if name != "hash"}
    claimed, prev = value.get("hash"), value.get("prev")
    return isinstance(prev, str) and claimed == wire.digest(prev + wire.canonical(plain))


def body_of(row: Row) -> wire.Wire:
    """The row's typed body. Raises BrokenRowError."""
    try:
        return row.typed
    except WireError as error:
        raise BrokenRowError(str(error)) from error


__all__ = [
    "GENESIS", "MAX_LINE_BYTES", "BrokenRowError", "OtherVersionRowError", "body_of", "from_line",
    "link", "refuse_other_version", "to_line",
]  # fmt: skip
