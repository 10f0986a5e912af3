"""A tree as names, modes and digests of bytes: its content digest, independent of git."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PLAIN = "100644"
EXECUTABLE = "100755"
MODES = (PLAIN, EXECUTABLE)
_READ_BYTES = 1024 * 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, order=True)
class Entry:
    """One regular file of a tree."""

    path: str  #: relative, parts separated by `/`
    mode: str  #: 100644 or 100755
    sha256: str  #: of the content's bytes


def tree_digest(entries: Iterable[Entry]) -> str:
    """SHA-256 over the entries in order of their names' bytes, 64 hex digits."""
    total = hashlib.sha256(b"overnight-tree-1\0")
    for entry in sorted(entries, key=lambda entry: entry.path.encode()):
        total.update(f"{entry.mode} {entry.sha256} {entry.path}\0".encode())
    return total.hexdigest()


def path_problem(path: str) -> str | None:
    """Why *path* can't be a name in a tree of ours, or None."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    if _CONTROL.search(path):
        return "the name holds a line break or another control character"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "the name is not a relative path inside the tree"
    if any(part.lower() == ".git" for part in parts):
        return "the name belongs to git"
    return None


def content_digest(content: bytes) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def blob_id(content: bytes) -> str:
    """Git's name of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def file_mode(permissions: int) -> str:
    """The tree mode of a regular file with these permission bits: the owner's x decides."""
    return EXECUTABLE if permissions & stat.S_IXUSR else PLAIN


def folder_digest(folder: Path) -> str | None:
    """The content digest of what lies in *folder*; None when it holds anything but files.

    Reads all of it: links, special files and unreadable ones are never part of an export.
    """
    entries: list[Entry] = []
    pending = [(str(folder), "")]
    while pending:
        here, prefix = pending.pop()
        try:
            with os.scandir(here) as found:
                for item in found:
                    if item.is_dir(follow_symlinks=False):
                        pending.append((item.path, f"{prefix}{item.name}/"))
                        continue
                    entry = _file_entry(item.path, f"{prefix}{item.name}")
                    if entry is None:
                        return None
                    entries.append(entry)
        except OSError:
            return None
    return tree_digest(entries)


def verify_frozen(folder: Path, digest: str) -> bool:
    """Is the exported *folder* still exactly the tree with this digest? Reads every byte."""
    return folder_digest(folder) == digest


def _file_entry(path: str, name: str) -> Entry | None:
    if path_problem(name) is not None:
        return None
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        total = hashlib.sha256()
        while chunk := os.read(handle, _READ_BYTES):
            total.update(chunk)
    finally:
        os.close(handle)
    return Entry(name, file_mode(status.st_mode), total.hexdigest())
