"""One number for a whole tree, so that both sides of a hand-over know that they mean the same."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError

NAME = "docker"  #: of the executor, in errors
CHUNK_BYTES = 1024 * 1024


def listing(top: Path) -> list[str]:
    """Relative paths of all files and links below *top*, sorted. Raises OSError."""
    found: list[str] = []
    queue = [""]
    while queue:
        folder = queue.pop()
        with os.scandir(top / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    queue.append(path)
                else:
                    found.append(path)
    return sorted(found)


def digest(top: Path, paths: list[str] | None = None) -> str:
    """SHA-256 over path, kind, executable bit and content of all below *top*. Raises OSError."""
    total = hashlib.sha256()
    for path in listing(top) if paths is None else paths:
        place = top / path
        status = place.lstat()
        name = os.fsencode(path)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(place))
            total.update(b"link %d %b %d %b\n" % (len(name), name, len(target), target))
        elif stat.S_ISREG(status.st_mode):
            program = bool(status.st_mode & stat.S_IXUSR)
            total.update(b"file %d %b %d %d\n" % (len(name), name, program, status.st_size))
            with place.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    total.update(chunk)
        else:
            raise SandboxUnavailableError(NAME, f"{path} in the snapshot is no file")
    return total.hexdigest()
