"""What a unified diff amounts to: lines, and separate places. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

NEAR_LINES = 3  #: unchanged lines between two changes of one place, at most

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+")


@dataclass(frozen=True)
class DiffStat:
    """Sums over all files of a diff."""

    added: int = 0
    removed: int = 0
    places: int = 0  #: changes with more than NEAR_LINES unchanged lines between them


def diffstat(diff: bytes) -> DiffStat:
    """Of *diff*, a unified diff without context lines (-U0)."""
    added = removed = places = 0
    in_hunk = False
    end = -NEAR_LINES - 1  #: where the last change of this file ended, in the old file's lines
    for line in diff.split(b"\n"):
        hunk = _HUNK.match(line)
        if hunk is not None:
            in_hunk = True
            start, length = int(hunk[1]), int(hunk[2] or 1)
            places += start - end > NEAR_LINES
            end = start + max(0, length - 1)
        elif line.startswith(b"diff "):
            in_hunk, end = False, -NEAR_LINES - 1
        elif in_hunk:
            added += line.startswith(b"+")
            removed += line.startswith(b"-")
    return DiffStat(added, removed, places)
