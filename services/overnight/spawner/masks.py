"""Folders of the image that a candidate has no business in, covered by empty ones of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from overnight.executors.bubblewrap import is_below

MASKED = ("/run", "/var", "/home", "/root", "/sys/fs/cgroup")  #: of the image and of the engine
ENTER = 0o111  #: nobody may list it; who knows the name of a mount below may reach that


def lay_out(folder: Path, closed: Path, reads: Iterable[str]) -> dict[str, str]:
    """Masked place -> folder of the host that covers it; *closed* where nothing below is shown.

    Where something is, the way to it must be there before a read-only mount covers it. Such ways
    are made below *folder*. Raises OSError.
    """
    shown = list(reads)
    sources: dict[str, str] = {}
    for number, place in enumerate(MASKED):
        below = [path for path in shown if is_below(path, place) and path != place]
        if not below:
            sources[place] = str(closed)
            continue
        cover = folder / f"mask-{number}"
        for path in below:
            _make_way(cover, os.path.relpath(path, place), is_file=os.path.isfile(path))
        for made in (cover, *cover.rglob("*")):
            if made.is_dir():
                made.chmod(ENTER)
        sources[place] = str(cover)
    return sources


def _make_way(cover: Path, path: str, *, is_file: bool) -> None:
    place = cover / path
    if is_file:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    else:
        place.mkdir(parents=True, exist_ok=True)
