"""What became of program.md since a session began: it reads the text that it began with."""

from __future__ import annotations

from overnight.configuration import PROGRAM_FILE, program_of
from overnight.contracts import wire
from overnight.contracts.errors import ConfigError, UsageError
from overnight.contracts.rows import SessionOpened
from overnight.ledger.files import SessionFiles
from overnight.sessions.places import repository_of


def change_since(opened: SessionOpened, text: str | None) -> str | None:
    """One line for a person; None: *text* is what the session began with, or there is none."""
    before = opened.program_digest
    now = None if text is None else wire.digest(text)
    if before == now:
        return None
    if before is None:
        return f"{PROGRAM_FILE} is new, the session began without it: counts for the next session"
    what = "is gone" if now is None else "changed"
    return f"{PROGRAM_FILE} {what} since the session began: counts for the next session"


def change_in(files: SessionFiles, opened: SessionOpened | None) -> str | None:
    """The same, of the file as it lies in the session's repository now."""
    if opened is None:
        return None
    try:
        return change_since(opened, program_of(repository_of(files, opened, files.root.parent)))
    except ConfigError:
        return f"{PROGRAM_FILE} can't be read any more: the session goes on with what it began with"
    except UsageError:
        return None  # the repository is not where it was, so nobody can tell
