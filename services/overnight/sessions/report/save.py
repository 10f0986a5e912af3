"""A report's page and picture in files that a person named. Only reports are ever written over."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from overnight.contracts.errors import UsageError
from overnight.ledger.plain import write_new
from overnight.sessions.report.page import MARK
from overnight.sessions.report.png import SOFTWARE

_HEAD_BYTES = 400  #: of a file of ours: the mark stands there


def check_place(path: Path, *, force: bool) -> None:
    """May a report be written there?

    Raises:
        UsageError: its folder is not there, or what stands there is no report; names the fix.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder: make it first")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    if not os.path.lexists(path) or force:
        return
    if not path.is_file() or not _is_ours(path):
        raise UsageError(f"{path} is there and is no report: give another name, or --force")


def save(path: Path, content: bytes) -> None:
    """Put *content* there as a whole, or leave what stands there.

    Raises:
        OSError: the disk refused; names the file.
    """
    new = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.new")
    try:
        write_new(new, content)
        new.replace(path)
    except OSError as error:
        error.filename = str(path)  # nobody knows the other one
        raise
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)


def save_all(wanted: dict[Path, Callable[[], bytes]], *, force: bool) -> list[Path]:
    """Check every place first, make every content, then write: all of them or none."""
    for path in wanted:
        check_place(path, force=force)
    made = {path: make() for path, make in wanted.items()}
    for path, content in made.items():
        save(path, content)
    return list(made)


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return MARK.encode() in head or SOFTWARE.encode() in head
