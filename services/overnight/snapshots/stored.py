"""A tree as it stands in objects.git: which of its entries are files of ours, pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.manifest import EXECUTABLE, PLAIN, path_problem
from overnight.snapshots.tree import BINDINGS, LeftOut, TreeFile

LINK = "120000"
SUBMODULE = "160000"
_HEAD = re.compile(rb"([0-7]{6}) [a-z]+ ([0-9a-f]{40}) +([0-9]{1,15}|-|BAD)")
_FILE_MODES = {PLAIN: PLAIN, "100664": PLAIN, EXECUTABLE: EXECUTABLE}


@dataclass(frozen=True, kw_only=True)
class RawEntry:
    """One line of `git ls-tree -r -l`."""

    path: str
    mode: str
    blob: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class StoredTree:
    """The files of a commit's tree."""

    files: tuple[TreeFile, ...]
    left_out: tuple[LeftOut, ...]


def parse_tree(output: bytes) -> tuple[RawEntry, ...]:
    """The entries of `git ls-tree -r -z -l`.

    Raises:
        SnapshotMissingError: an object is gone, or a name could never have been stored by us.
    """
    entries = []
    for record in output.split(b"\0"):
        if not record:
            continue
        head, _, name = record.partition(b"\t")
        match = _HEAD.fullmatch(head)
        if match is None:
            raise SnapshotMissingError(f"git ls-tree said {head[:60]!r}")
        mode, blob, size = (word.decode() for word in match.groups())
        path = name.decode(errors="surrogateescape")
        problem = path_problem(path)
        if problem is not None:
            raise SnapshotMissingError(f"{path!a}: {problem}")
        if size == "BAD":  # git's own word for an object that is gone or damaged
            raise SnapshotMissingError(f"{path}: object {blob}")
        size_bytes = 0 if size == "-" else int(size)
        entries.append(RawEntry(path=path, mode=mode, blob=blob, size_bytes=size_bytes))
    return tuple(entries)


def build_tree(entries: tuple[RawEntry, ...], targets: Mapping[str, str]) -> StoredTree:
    """The files among *entries*; *targets* says where each link's blob points."""
    plain = {entry.path: entry for entry in entries if entry.mode in _FILE_MODES}
    folders = {str(parent) for path in plain for parent in PurePosixPath(path).parents}
    files: list[TreeFile] = []
    left_out: list[LeftOut] = []
    for entry in entries:
        if entry.path == BINDINGS:
            continue
        if entry.mode in _FILE_MODES:
            files.append(_file(entry.path, entry))
        elif entry.mode == LINK:
            inside = link_target(entry.path, targets[entry.blob])
            if inside in plain and inside != BINDINGS:
                files.append(_file(entry.path, plain[inside], link_to=inside))
            else:
                left_out.append(_lost_link(entry.path, inside, folders))
        else:
            left_out.append(LeftOut(entry.path, "a submodule or a repository of its own"))
    return StoredTree(
        files=tuple(sorted(files, key=lambda file: file.path)), left_out=tuple(left_out)
    )


def link_target(path: str, target: str) -> str | None:
    """Where in the tree the link *path* leads, or None when it leads out of it."""
    if target.startswith("/"):
        return None
    parts: list[str] = []
    for part in (*PurePosixPath(path).parent.parts, *target.split("/")):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _lost_link(path: str, inside: str | None, folders: set[str]) -> LeftOut:
    if inside is None:
        return LeftOut(path, "a link that leads out of the tree", refused=True)
    if inside in folders or not inside:
        return LeftOut(path, f"a link to the folder {inside or '.'}", refused=True)
    return LeftOut(path, "a link that leads nowhere")


def _file(path: str, entry: RawEntry, link_to: str | None = None) -> TreeFile:
    return TreeFile(
        path=path,
        mode=_FILE_MODES[entry.mode],
        size_bytes=entry.size_bytes,
        link_to=link_to,
        blob=entry.blob,
    )
