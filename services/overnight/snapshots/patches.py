"""What changed between two commits of a store, as a folder of files and one patch."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.snapshots.git import valid_commit
from overnight.snapshots.manifest import EXECUTABLE
from overnight.snapshots.store import SnapshotStore

PATCH_NAME = "changes.patch"


def patch(store: SnapshotStore, before: str, after: str) -> bytes:
    """For `git apply` or `patch -p1` in the session's folder. Raises SnapshotError."""
    relative = (f"--relative={store.prefix}",) if store.prefix else ()
    return store.git.run(
        *("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color"),
        *("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", *relative),
        *(valid_commit(before), valid_commit(after), "--"),
    )


def write_folder(store: SnapshotStore, before: str, after: str, folder: Path) -> tuple[str, ...]:
    """Make *folder* with the files that *after* changed, as they are then, and a patch beside.

    Returns the names of the changed files. Nothing stays where it fails.

    Raises:
        UsageError: something is there already, or it can't be made.
        InfrastructureError: the disk refused.
        SnapshotError: the store lacks something.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and not os.listdir(folder)):
        raise UsageError(f"--to {folder} is there already: name a folder that is not")
    old = {file.path: file for file in store.tree(before).files}
    new = [file for file in store.tree(after).files
           if file.path not in old or old[file.path].blob != file.blob
           or old[file.path].mode != file.mode]  # fmt: skip
    contents = dict(store.git.blobs(sorted({file.blob for file in new})))
    text = patch(store, before, after)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".overnight-"))
    except OSError as error:
        raise UsageError(f"--to {folder}: {error.strerror}") from error
    try:
        for file in new:
            place = made / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(contents[file.blob])
            place.chmod(0o755 if file.mode == EXECUTABLE else 0o644)
        (made / PATCH_NAME).write_bytes(text)
        made.chmod(0o755)
        made.rename(folder)  # over an empty folder too
    except OSError as error:
        shutil.rmtree(made, ignore_errors=True)
        raise InfrastructureError(f"--to {folder}: {error.strerror}") from error
    return tuple(file.path for file in new)
