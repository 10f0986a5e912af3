"""quarantine/: what was moved away instead of being deleted. Of each name the newest stay."""

from __future__ import annotations

import shutil
from pathlib import Path

from overnight.ledger.plain import write_new

KEPT_EACH = 20  #: of one name; something that damages a file again and again fills no disk


def place_aside(folder: Path, name: str) -> Path:
    """A free `<folder>/<name>.<n>`, counting on; the oldest beyond KEPT_EACH are removed.

    Raises:
        OSError: the folder can't be made.
    """
    folder.mkdir(exist_ok=True)
    numbers = sorted(
        int(number)
        for number in (p.name.removeprefix(f"{name}.") for p in folder.glob(f"{name}.*"))
        if number.isascii() and number.isdigit() and len(number) < 10
    )
    for number in numbers[: -KEPT_EACH + 1]:
        old = folder / f"{name}.{number}"
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)
    return folder / f"{name}.{numbers[-1] + 1 if numbers else 1}"


def keep_aside(folder: Path, name: str, content: bytes) -> Path:
    """Write *content* there, and on the disk; nothing is left where that fails.

    Raises:
        OSError: the disk refused.
    """
    place = place_aside(folder, name)
    write_new(place, content)
    return place
