"""Which content digest a stored blob has: remembered beside the objects, so that a candidate
costs its changed files and not its whole tree.

It is a cache. A wrong line can't do harm: an export is always hashed anew from the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from overnight.snapshots.errors import disk_errors

_LINE_LENGTH = 40 + 1 + 64


class DigestCache:
    """One text file, `<git blob> <sha256>` a line, only ever appended to by the one writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        self._read_bytes = 0

    def known(self) -> Mapping[str, str]:
        """All pairs, those included that another process has added since."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read_bytes)
                fresh = file.read()
        except FileNotFoundError:
            return self._known
        whole = fresh[: fresh.rfind(b"\n") + 1]  # a line still being written comes next time
        self._read_bytes += len(whole)
        for line in whole.decode("ascii", "replace").splitlines():
            if len(line) == _LINE_LENGTH and line[40] == " ":
                self._known[line[:40]] = line[41:]
        return self._known

    def add(self, pairs: Mapping[str, str]) -> None:
        """Remember more."""
        known = self.known()
        lines = "".join(f"{blob} {sha}\n" for blob, sha in pairs.items() if blob not in known)
        if not lines:
            return
        # A newline first: a torn last line of a killed writer must not swallow ours.
        with disk_errors(str(self._path)), open(self._path, "ab", buffering=0) as file:
            file.write(f"\n{lines}".encode())
