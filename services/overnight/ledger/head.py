"""ledger.head: what shows that whole rows were cut off. Reading and judging; the writer writes."""

from __future__ import annotations

from pathlib import Path

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError, WireError
from overnight.contracts.rows import Head
from overnight.ledger.plain import check_plain


def read_head(path: Path) -> Head | None:
    """The head file, None when there is none. Raises LedgerError when it is unreadable."""
    check_plain(path)
    try:
        return wire.decode(Head, path.read_text("ascii").removesuffix("\n"))
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, OSError, WireError) as error:
        raise LedgerError(
            f"{path}: not a ledger head ({error}); run `overnight ledger repair`"
        ) from error


def head_problem(head: Head | None, seq: int, last_hash: str, known_hash: str | None) -> str | None:
    """What the head says against a ledger that ends with *seq* and *last_hash*.

    known_hash: hash of the row at head.seq where the caller has it, None when not.
    """
    if head is None:
        return "ledger.head is missing" if seq > 1 else None
    if head.seq > seq:
        return f"rows {seq + 1} to {head.seq} are missing at the end"
    if head.seq == seq and head.hash != last_hash:
        return f"row {seq} is not the one that ledger.head names"
    if head.seq < seq - 1:
        return f"ledger.head names row {head.seq}, but there are {seq} rows"
    if known_hash is not None and head.hash != known_hash:
        return f"row {head.seq} is not the one that ledger.head names"
    return None
