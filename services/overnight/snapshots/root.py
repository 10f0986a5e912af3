"""The session's folder: made with its own ignore file, refused where it could harm the user's."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from overnight.contracts.errors import InfrastructureError, UsageError

IGNORE_FILE = ".gitignore"
IGNORE_TEXT = "# Overnight's own folder: never part of a commit.\n*\n"
_OURS = ("objects.git", "ledger.jsonl")  #: either one says that a folder is a session's


def prepare_root(sandbox_root: Path, repo: Path) -> None:
    """Make *sandbox_root*, with a `.gitignore` that keeps it out of the user's commits.

    Safe to call again. Nothing is left behind when it refuses.

    Raises:
        UsageError: a link, a file, read-only, the repository itself or a folder around it, or a
            folder with files that are not ours.
        InfrastructureError: the disk is full or failing.
    """
    _refuse_place(sandbox_root, repo)
    made = [folder for folder in (sandbox_root, *sandbox_root.parents) if not folder.exists()]
    try:
        sandbox_root.mkdir(parents=True, exist_ok=True)
        _probe(sandbox_root)
        if not (sandbox_root / IGNORE_FILE).exists():
            _write_ignore(sandbox_root)
    except OSError as error:
        for folder in made:
            if folder.is_dir():
                folder.rmdir()
        raise _refusal(sandbox_root, error) from error


def is_session_folder(folder: Path) -> bool:
    """Is *folder* one that a session keeps its things in?"""
    return any((folder / name).exists() for name in _OURS)


def own_folders(sandbox_root: Path) -> tuple[Path, ...]:
    """*sandbox_root* and the folders of other sessions beside it, `<root>-<tag>` and the like."""
    beside = sandbox_root.parent
    found = [sandbox_root]
    if beside.is_dir():
        found += sorted(
            folder
            for folder in beside.iterdir()
            if folder.name.startswith((f"{sandbox_root.name}-", f"{sandbox_root.name}.failed-"))
            and folder.is_dir()
            and is_session_folder(folder)
        )
    return tuple(found)


def _refuse_place(sandbox_root: Path, repo: Path) -> None:
    said = f"sandbox_root {sandbox_root}"
    if sandbox_root.is_symlink():
        raise UsageError(f"{said} is a link: name the folder itself")
    place, home = sandbox_root.resolve(), repo.resolve()
    if home == place or home.is_relative_to(place):
        raise UsageError(f"{said} holds the repository: name a folder inside it, like ./sandbox")
    if ".git" in place.parts:
        raise UsageError(f"{said} lies inside .git: name another folder, like ./sandbox")
    if sandbox_root.exists() and not sandbox_root.is_dir():
        raise UsageError(f"{said} is a file: move it away or name another folder")
    if sandbox_root.is_dir() and not is_session_folder(sandbox_root) and _foreign(sandbox_root):
        raise UsageError(f"{said} holds files that are not ours: name another folder")


def _foreign(folder: Path) -> bool:
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".overnight-")]
        if not names:
            return False
        return (folder / IGNORE_FILE).read_text() != IGNORE_TEXT
    except FileNotFoundError:
        return True
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"sandbox_root {folder} can't be read: {error}") from error


def _probe(folder: Path) -> None:
    """Raises OSError where *folder* takes no file; the mode bits don't say, root ignores them."""
    with tempfile.TemporaryFile(dir=folder, prefix=".overnight-") as file:
        file.write(b"x" * 4096)
        file.flush()


def _write_ignore(folder: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".overnight-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(IGNORE_TEXT)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.rename(temporary, folder / IGNORE_FILE)
    except OSError:
        os.unlink(temporary)
        raise


def _refusal(folder: Path, error: OSError) -> UsageError | InfrastructureError:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return UsageError(
            f"sandbox_root {folder} can't be written ({error.strerror}): name another folder"
        )
    if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.EEXIST):
        return UsageError(f"sandbox_root {folder}: {error.strerror}")
    return InfrastructureError(f"sandbox_root {folder}: {error.strerror}: free some space")
