"""A stored tree laid out on disk, exactly: raw bytes, two modes, hashed again from what lies there.

No checkout, no archive: attributes, filters and line-end conversion can't play a part.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from overnight.contracts.errors import SnapshotError
from overnight.snapshots.errors import SnapshotMissingError, disk_errors
from overnight.snapshots.git import valid_commit
from overnight.snapshots.manifest import EXECUTABLE, folder_digest
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.stored import StoredTree
from overnight.snapshots.tree import TreeFile

log = structlog.get_logger()


def export(store: SnapshotStore, commit: str, expected_digest: str, into: Path) -> None:
    """Lay the tree of *commit* out in the new folder *into*; its parent folder must be there.

    Raises:
        SnapshotMissingError: not there, damaged, or not the tree with this digest.
        SnapshotError: the disk is full or failing, or *into* exists. Nothing is left behind.
    """
    _lay_out(store, store.tree(commit), expected_digest, into, None)


@dataclass(frozen=True)
class _Twin:
    """An exported tree whose unchanged files may be shared by hard links."""

    folder: Path
    blobs: dict[str, tuple[str, str]]  #: path -> (mode, blob)

    def has(self, file: TreeFile) -> bool:
        return self.blobs.get(file.path) == (file.mode, file.blob)


class BaseCache:
    """Exported parents, one folder a digest, so that a candidate costs its changed files.

    Exports share files with it: whoever runs a candidate gives it a copy, never the export.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._twins: dict[str, _Twin] = {}  # by the parent's commit; a handful a session

    def export(self, store: SnapshotStore, commit: str, expected_digest: str, into: Path) -> None:
        """As `export`, with files that are the same as the parent's taken from the cache.

        Raises: as `export`.
        """
        tree = store.tree(commit)
        parent = store.parent(commit)
        if parent is None:
            _lay_out(store, tree, expected_digest, into, None)
            return
        twin = self._twin(store, parent)
        try:
            _lay_out(store, tree, expected_digest, into, twin)
        except SnapshotMissingError:
            # The cache itself may have been damaged: once more without it.
            log.warning("base_cache_dropped", commit=parent, folder=str(twin.folder))
            self._twins.pop(parent, None)
            shutil.rmtree(twin.folder, ignore_errors=True)
            _lay_out(store, tree, expected_digest, into, None)

    def _twin(self, store: SnapshotStore, parent: str) -> _Twin:
        twin = self._twins.get(parent)
        if twin is not None and twin.folder.is_dir():
            return twin
        tree = store.tree(parent)
        digest = store.digest_of(tree)
        folder = self._folder / digest
        if not folder.is_dir():
            self._folder.mkdir(exist_ok=True)
            try:
                _lay_out(store, tree, digest, folder, None)
            except SnapshotError:
                if not folder.is_dir():  # another runner may just have made it
                    raise
        twin = _Twin(folder, {file.path: (file.mode, file.blob) for file in tree.files})
        self._twins[parent] = twin
        return twin


def _lay_out(
    store: SnapshotStore, tree: StoredTree, expected_digest: str, into: Path, twin: _Twin | None
) -> None:
    if into.exists() or into.is_symlink():
        raise SnapshotError(f"{into} exists already")
    with disk_errors(str(into)):
        new = Path(tempfile.mkdtemp(dir=into.parent, prefix=f".{into.name[:64]}-"))
        try:
            new.chmod(0o755)
            _write_files(store, tree.files, new, twin)
            found = folder_digest(new)
            if found != expected_digest:
                raise SnapshotMissingError(
                    f"the tree on disk has the digest {found}, not {expected_digest}"
                )
            new.rename(into)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


def _write_files(
    store: SnapshotStore, files: Iterable[TreeFile], folder: Path, twin: _Twin | None
) -> None:
    # Plain strings: with thousands of files, path objects would cost more than the files.
    root, source = str(folder), str(twin.folder) if twin else ""
    made = {""}
    wanted: dict[str, list[TreeFile]] = {}
    for file in files:
        _make_folder(root, file.path.rpartition("/")[0], made)
        shared = twin is not None and twin.has(file)
        if not shared or not _link(f"{source}/{file.path}", f"{root}/{file.path}"):
            wanted.setdefault(valid_commit(file.blob), []).append(file)
    if not wanted:
        return
    for blob, content in store.git.blobs(wanted):
        for file in wanted[blob]:
            mode = 0o755 if file.mode == EXECUTABLE else 0o644
            _write(f"{root}/{file.path}", content, mode)


def _link(source: str, place: str) -> bool:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:
        return False  # another file system, too many links, gone: written out instead
    return True


def _make_folder(root: str, name: str, made: set[str]) -> None:
    if name in made:
        return
    _make_folder(root, name.rpartition("/")[0], made)
    os.mkdir(f"{root}/{name}")
    os.chmod(f"{root}/{name}", 0o755)  # noqa: S103 - a sandbox's other user must read it
    made.add(name)


def _write(place: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(place, flags, mode)
    with os.fdopen(handle, "wb", buffering=0) as file:
        os.fchmod(handle, mode)
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
