"""What tests do to a user's repository, and how they see that nothing else was done to it."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

TRAIN = "LR = 0.1\nprint('val_bpb: 2.0')\n"


def run_git(folder: Path, *arguments: str, **environment: str) -> str:
    """Git as the user would call it, away from this machine's own configuration."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "User",
            "GIT_AUTHOR_EMAIL": "user@example.org",
            "GIT_COMMITTER_NAME": "User",
            "GIT_COMMITTER_EMAIL": "user@example.org",
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    """Put files there, folders made as needed."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())


def fingerprint(folder: Path, *, without: Callable[[str], bool]) -> dict[str, str]:
    """Every name below *folder* with its kind, mode and content; links by their target."""
    found: dict[str, str] = {}
    for here, folders, names in os.walk(folder):
        for name in sorted(folders + names):
            place = Path(here, name)
            inside = place.relative_to(folder).as_posix()
            if without(inside):
                continue
            status = place.lstat()
            if stat.S_ISLNK(status.st_mode):
                what = os.readlink(place)
            elif stat.S_ISREG(status.st_mode):
                what = f"{status.st_mtime_ns} {hashlib.sha256(place.read_bytes()).hexdigest()}"
            else:
                what = ""
            found[inside] = f"{oct(status.st_mode)} {what}"
        folders[:] = [
            name for name in folders if not without(Path(here, name).relative_to(folder).as_posix())
        ]
    return found


def foreign(path: str) -> bool:
    """What design says may change: our folder, our bindings, our refs, objects."""
    ours = ("sandbox", "loop.run.yaml", ".git/objects")
    refs = tuple(f".git/refs/heads/{name}" for name in ("autoresearch", "exp", "experiments"))
    return path.startswith((*ours, *refs))
