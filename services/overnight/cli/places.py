"""How to name a session's folder on the command line, as short as it can be said from here."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def shown(path: Path, here: Path) -> str:
    """*path* as one types it: relative where it lies below *here*."""
    if path == here:
        return "."
    try:
        return str(path.relative_to(here))
    except ValueError:
        return str(path)


def dir_option(root: Path, here: Path) -> str:
    """` --dir X` for the session in *root*; nothing where it is found without."""
    if root == here / "sandbox":
        return ""
    named = root.parent if root.name == "sandbox" else root
    return f" --dir {shlex.quote(shown(named, here))}"


def used_bytes(root: Path) -> int:
    """What a session takes on the disk, as far as it can be read."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue  # it went away meanwhile
    return total
