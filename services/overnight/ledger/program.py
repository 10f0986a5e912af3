"""program.md as the session began with it: beside the ledger, told apart by its digest."""

from __future__ import annotations

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError
from overnight.ledger.files import SessionFiles


def kept_program(files: SessionFiles, digest: str | None) -> str | None:
    """Its text; None for a session that began without one.

    digest: as `session_opened` has it.

    Raises:
        LedgerError: it is no more there, or is another.
    """
    if digest is None:
        return None
    try:
        text = files.program.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        text = ""
    if wire.digest(text) != digest:
        raise LedgerError(
            f"{files.program} is not the program.md that this session began with: put it back, or "
            "open another session with --tag"
        )
    return text
