"""The room's own errors: a git command that failed, and a snapshot that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """A full or failing disk is a SnapshotError that says where, never a bare OSError."""
    try:
        yield
    except OSError as error:
        raise SnapshotError(f"{what}: {error.strerror or error}") from error
