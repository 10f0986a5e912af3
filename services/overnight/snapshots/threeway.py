"""One file changed on two sides: brought together where that is plain, never guessed at."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from overnight.snapshots.errors import GitFailedError, disk_errors
from overnight.snapshots.git import Git

_WORST = 127  #: more conflicts than that git reports as that many; above it, as an error


@dataclass(frozen=True)
class FileState:
    """A regular file as a tree holds it."""

    mode: str  #: 100644 or 100755
    content: bytes


def merged(
    git: Git, have: FileState | None, before: FileState | None, after: FileState
) -> FileState | None:
    """*have* with the change from *before* to *after* on it; None: they contradict each other.

    Where *have* ends its lines as LF and the change as CRLF, LF stays: the work tree of a
    repository that converts line ends differs from what it stores by them alone.
    """
    if have in (before, after):
        return after
    if have is None or before is None:
        return None
    before = FileState(before.mode, lines_as_in(have.content, before.content))
    after = FileState(after.mode, lines_as_in(have.content, after.content))
    mode = after.mode if after.mode != before.mode else have.mode
    if have.content in (before.content, after.content):
        return FileState(mode, after.content)
    content = _merged_text(git, have.content, before.content, after.content)
    return None if content is None else FileState(mode, content)


def lines_as_in(model: bytes, content: bytes) -> bytes:
    """*content* with LF where *model* has no CRLF."""
    return content if b"\r\n" in model else content.replace(b"\r\n", b"\n")


def _merged_text(git: Git, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    with disk_errors("a merge"), tempfile.TemporaryDirectory(prefix="overnight-") as folder:
        places = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for place, content in zip(places, (ours, base, theirs), strict=True):
            place.write_bytes(content)
        code, output, errors = git.attempt("merge-file", "-p", "-q", *map(str, places))
    if code == 0:
        return output
    if code <= _WORST or b"binary" in errors:
        return None
    raise GitFailedError(f"git merge-file: {errors.decode(errors='replace')[:200].strip()}")
