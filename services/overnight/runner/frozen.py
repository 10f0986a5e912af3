"""Which paths of a snapshot the sandbox must not be able to change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


def frozen_paths(
    snapshot: Path, editable: Sequence[str], frozen: Sequence[str] | None
) -> tuple[str, ...]:
    """Relative paths to bind read-only; *frozen* None means all but *editable*."""
    if frozen is not None:
        return tuple(sorted(frozen))
    return covering(_files(snapshot), editable)


def _files(snapshot: Path) -> Iterator[str]:
    """All files and links, also links to folders; no link is followed."""
    for folder, names, files in os.walk(snapshot):
        links = [name for name in names if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            yield str(Path(folder, name).relative_to(snapshot))


def covering(files: Iterable[str], editable: Sequence[str]) -> tuple[str, ...]:
    """The fewest paths that cover all *files* but the *editable* ones.

    A folder without any editable file below it is taken whole: one mount instead of many, and
    nothing can be put beside a frozen file there.
    """
    open_folders = {""}
    for path in editable:
        parts = path.split("/")[:-1]
        open_folders.update("/".join(parts[: n + 1]) for n in range(len(parts)))
    chosen: set[str] = set()
    keep = set(editable)
    for path in files:
        if path in keep:
            continue
        parts = path.split("/")
        depth = 0
        while depth < len(parts) - 1 and "/".join(parts[: depth + 1]) in open_folders:
            depth += 1
        chosen.add("/".join(parts[: depth + 1]))
    return tuple(sorted(chosen))
