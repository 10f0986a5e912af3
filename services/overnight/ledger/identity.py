"""session.json: who a session is. Written once when it is opened, before its first row."""

from __future__ import annotations

from typing import Literal

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError, UsageError, WireError
from overnight.contracts.experiment import Sid
from overnight.ledger.files import SessionFiles


class Identity(wire.Wire):
    """sid names all Redis keys and rows of the session; tag is for people."""

    v: Literal[1] = 1
    sid: Sid
    tag: str


def read_identity(files: SessionFiles) -> Identity:
    """Raises UsageError when there is no session, LedgerError when its file is damaged."""
    try:
        return wire.decode(Identity, files.identity.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"no session in {files.root}: start one with `overnight run`") from error
    except (WireError, UnicodeDecodeError, OSError) as error:
        raise LedgerError(f"{files.identity}: {error}") from error
