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
from overnight.snapshots.errors import SnapshotMissingError
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
            shutil.rmtree(twin.folder, ignore_errors=True)
            _lay_out(store, tree, expected_digest, into, None)

    def _twin(self, store: SnapshotStore, parent: str) -> _Twin:
        tree = store.tree(parent)
        digest = store.digest(parent)
        folder = self._folder / digest
        if not folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                _lay_out(store, tree, digest, folder, None)
            except SnapshotError:
                if not folder.is_dir():  # another runner may just have made it
                    raise
        return _Twin(folder, {file.path: (file.mode, file.blob) for file in tree.files})


def _lay_out(
    store: SnapshotStore, tree: StoredTree, expected_digest: str, into: Path, twin: _Twin | None
) -> None:
    if into.exists() or into.is_symlink():
        raise SnapshotError(f"{into} exists already")
    try:
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
    except OSError as error:
        raise SnapshotError(f"{into}: {error.strerror}") from error


def _write_files(
    store: SnapshotStore, files: Iterable[TreeFile], folder: Path, twin: _Twin | None
) -> None:
    made = {folder}
    wanted: dict[str, list[TreeFile]] = {}
    for file in files:
        place = folder / file.path
        _make_folder(place.parent, made)
        if twin is None or not twin.has(file) or not _link(twin.folder / file.path, place):
            wanted.setdefault(valid_commit(file.blob), []).append(file)
    for blob, content in store.git.blobs(wanted):
        for file in wanted[blob]:
            _write(folder / file.path, content, 0o755 if file.mode == EXECUTABLE else 0o644)


def _link(source: Path, place: Path) -> bool:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:
        return False  # another file system, too many links, gone: written out instead
    return True


def _make_folder(folder: Path, made: set[Path]) -> None:
    if folder in made:
        return
    _make_folder(folder.parent, made)
    folder.mkdir()
    folder.chmod(0o755)
    made.add(folder)


def _write(place: Path, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(place, flags, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
