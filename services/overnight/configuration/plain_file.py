"""Reads a file of a stranger's repository, which may be anything: a pipe, a folder, a terabyte."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_plain(path: Path, most: int) -> bytes | None:
    """What the regular file at *path* holds; None when it is none, is longer, or can't be read.

    Never waits: to open a named pipe as other files are opened is to wait for its writer.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None
