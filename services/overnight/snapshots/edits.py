"""Is an edit allowed to become a candidate? Pure: values in, changes or a rejection out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from overnight.contracts.errors import EditRejectedError
from overnight.snapshots.manifest import PLAIN, blob_id, path_problem
from overnight.snapshots.stored import StoredTree
from overnight.snapshots.tree import BINDINGS

MAX_FILE_BYTES = 256 * 1024


@dataclass(frozen=True, kw_only=True)
class CandidateEdit:
    """All that makes a candidate's commit: the same edit is the same commit."""

    id: int  #: the experiment's; its pin is refs/experiments/<id>
    parent_commit: str
    changes: Mapping[str, str]  #: path -> whole new text
    editable: tuple[str, ...]
    hypothesis: str
    known: Mapping[str, int] = field(default_factory=dict)  #: tree digest -> experiment, tried

    def refuse_known(self, digest: str) -> None:
        """Raises EditRejectedError when a tree with this digest was tried before."""
        if digest in self.known:
            known = self.known[digest]
            raise EditRejectedError("duplicate", f"the same tree as experiment {known}")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One file that differs from the parent's."""

    path: str
    mode: str
    content: bytes
    blob: str  #: git's id of the content


def check_edit(edit: CandidateEdit, parent: StoredTree) -> tuple[Change, ...]:
    """The files that the edit really changes, in order of their names.

    Raises:
        EditRejectedError: paths, not_text, size or no_change.
    """
    files = {file.path: file for file in parent.files}
    changes = []
    for path in sorted(edit.changes):
        _check_path(path, edit.editable, parent)
        content = _encoded(path, edit.changes[path])
        old = files.get(path)
        blob = blob_id(content)
        if old is None or old.blob != blob:
            mode = old.mode if old else PLAIN
            changes.append(Change(path=path, mode=mode, content=content, blob=blob))
    if not changes:
        raise EditRejectedError("no_change", "the edit leaves every file as it was")
    return tuple(changes)


def _check_path(path: str, editable: tuple[str, ...], parent: StoredTree) -> None:
    problem = path_problem(path)
    if problem is None and path == BINDINGS:
        problem = "it holds the session's own bindings"
    if problem is None and path not in editable:
        problem = "not an editable file"
    above = {str(folder) for folder in PurePosixPath(path).parents}
    for file in parent.files:
        if file.path == path and file.link_to is not None:
            problem = problem or "a link, not a file"
        if file.path in above or file.path.startswith(f"{path}/"):
            problem = problem or f"in the way of {file.path!a}"
    if any(item.path == path or item.path in above for item in parent.left_out):
        problem = problem or "not a regular file"
    if problem is not None:
        raise EditRejectedError("paths", f"{path[:200]!a}: {problem}")


def _encoded(path: str, text: str) -> bytes:
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise EditRejectedError("not_text", f"{path}: not UTF-8 at {error.start}") from error
    if len(content) > MAX_FILE_BYTES:
        raise EditRejectedError("size", f"{path}: {len(content)} bytes, at most {MAX_FILE_BYTES}")
    if b"\0" in content:
        raise EditRejectedError("not_text", f"{path}: holds a NUL byte")
    return content
