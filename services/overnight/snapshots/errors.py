"""The room's own errors: a git command that failed, and a snapshot that is not there."""

from __future__ import annotations

from overnight.contracts.errors import SnapshotError


class GitFailedError(SnapshotError):
    """A git command ended with an error. The message is git's own first line."""


class SnapshotMissingError(SnapshotError):
    """A commit, tree or blob is not in objects.git, or is not what it should be."""

    reason = "snapshot_missing"  #: what a result's `reason` says

    def __init__(self, detail: str) -> None:
        super().__init__(f"{self.reason}: {detail}")
        self.detail = detail

    def __reduce__(self) -> tuple[type[SnapshotMissingError], tuple[str]]:
        return type(self), (self.detail,)
