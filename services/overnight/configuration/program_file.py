"""program.md of a repository: a person's plan for the session, read once when it begins."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from overnight.contracts.errors import ConfigError

PROGRAM_FILE = "program.md"
MAX_PROGRAM_BYTES = 64 * 1024  #: it travels with each request for an idea


def program_of(repo: Path, name: str = PROGRAM_FILE) -> str | None:
    """Its text; None where there is none, or nothing but white space in it.

    Raises:
        ConfigError: it is there, but is no text file of at most 64 KiB; names the fix.
    """
    path = repo / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ConfigError(f"{name} is no file: move it away")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_PROGRAM_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_PROGRAM_BYTES:
        raise ConfigError(f"{name} is longer than {MAX_PROGRAM_BYTES // 1024} KiB: shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text: save it as UTF-8") from error
    return text if text.strip() else None
