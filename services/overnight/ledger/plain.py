"""What stands where a file of ours belongs must be a file: opening a pipe would wait for ever."""

from __future__ import annotations

import os
from pathlib import Path

from overnight.contracts.errors import LedgerError


def check_plain(path: Path) -> None:
    """Raises LedgerError when something stands at *path* that is no plain file."""
    if os.path.lexists(path) and not path.is_file():
        raise LedgerError(f"{path} is no plain file: move it away, then run `overnight verify`")


def write_new(path: Path, content: bytes) -> None:
    """Make *path* with *content*, on the disk when it returns; nothing is left where that fails.

    Raises:
        OSError: something stands there, or the disk refused; names the file.
    """
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            path.unlink(missing_ok=True)
            error.filename = str(path)  # a write alone does not know it
            raise
