"""A sandbox's private folders on the host: the writable copy of the snapshot, and /out."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError
from overnight.executors.bubblewrap import is_below
from overnight.executors.collect import CHUNK_BYTES, OPEN_FILE, OPEN_FOLDER, open_below

FOLDER_MODE, FILE_MODE, PROGRAM_MODE = 0o755, 0o644, 0o755
NAME = "process"  #: of the executor, in errors
PLACES = ("work", "out", "home", "tmp")  #: what a scratch folder has


@dataclass(frozen=True)
class Place:
    """Where one sandbox lives on the host. Nobody but us may enter `scratch`."""

    scratch: Path
    owner: int | None  #: user that gets the files; None: they stay ours
    token: str = ""  #: of the sandbox: part of a path that its processes have in their environment

    @property
    def work(self) -> Path:
        """The candidate's working directory."""
        return self.scratch / "work"

    @property
    def out(self) -> Path:
        """What the candidate leaves for us."""
        return self.scratch / "out"

    @property
    def home(self) -> Path:
        """HOME where the candidate has no /tmp of its own."""
        return self.scratch / "home"

    @property
    def temporary(self) -> Path:
        """TMPDIR where the candidate has no /tmp of its own."""
        return self.scratch / f"tmp-{self.token}"

    def make(self) -> None:
        """Create it. An empty folder that is there already is taken over. Raises OSError.

        Its parents are never made: where they are gone, the session was moved.
        """
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        self.scratch.chmod(0o700)
        for folder in (self.work, self.out):
            _make(folder)
            _give(folder, self.owner)

    def fill(self, snapshot: Path) -> list[str]:
        """Copy *snapshot* into `work`; relative paths of its files. Raises OSError."""
        return copy_tree(snapshot, self.work, self.owner)

    def remove(self) -> None:
        """Remove all of it, however deep and however its modes are set."""
        remove_tree(self.scratch)


def is_scratch(folder: Path) -> bool:
    """Does it look like a `Place` of ours, with nothing else in it and nothing mounted below?"""
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        names = os.listdir(folder)
    except OSError:
        return False
    ours = all(n in PLACES or n.startswith(("tmp-", ".removing-")) for n in names)
    return ours and not mounts_below(folder)


def mounts_below(folder: Path) -> list[str]:
    """Mount points at or below *folder*; removing through one would remove what isn't ours."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in points if is_below(point, os.path.realpath(folder))]


def copy_tree(source: Path, target: Path, owner: int | None) -> list[str]:
    """Copy files, folders and links (as links); the folder *target* is there already.

    No link is followed, even one that takes the place of a file or folder while we copy: it may be
    another user's tree.
    """
    files: list[str] = []
    queue = [""]
    while queue:
        folder = queue.pop()
        descriptor = open_below(source, folder, top_flags=OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    copy = target / path
                    if entry.is_symlink():
                        copy.symlink_to(os.readlink(entry.name, dir_fd=descriptor))
                        files.append(path)
                    elif entry.is_dir():
                        _make(copy)
                        queue.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        _copy_file(descriptor, entry.name, copy)
                        files.append(path)
                    else:
                        raise SandboxUnavailableError(NAME, f"{path} in the snapshot is no file")
                    _give(copy, owner)
        finally:
            os.close(descriptor)
    return files


def remove_tree(folder: Path) -> None:
    """Remove *folder* without recursion: a candidate may have nested more than we can stack."""
    if not os.path.lexists(folder):
        return
    count = 0
    queue = [folder]
    while queue:
        current = queue.pop()
        _open_up(current)
        with os.scandir(current) as entries:
            found = list(entries)
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
            elif current == folder:
                queue.append(Path(entry.path))
            else:
                # Lifted to the top, so that no path ever grows longer than two names.
                _open_up(Path(entry.path))
                count += 1
                lifted = folder / f".removing-{os.getpid()}-{count}"
                os.rename(entry.path, lifted)
                queue.append(lifted)
        if current != folder:
            current.rmdir()
    folder.rmdir()


def materialise(work: Path, frozen: Sequence[str], reads: Sequence[str]) -> dict[str, str]:
    """Make every frozen entry something a mount can freeze; path -> source of what is frozen.

    A link can't be mounted on. One to a place inside the tree becomes a copy of that place; one
    to a place in *reads* becomes that place; any other dangles in the sandbox and is left alone.

    Raises:
        SandboxUnavailableError: an entry is not there, or lies below a link.
    """
    sources: dict[str, str] = {}
    top = os.path.realpath(work)
    for path in frozen:
        place = work / path
        if os.path.realpath(place.parent) != os.path.normpath(f"{top}/{path}/.."):
            raise SandboxUnavailableError(NAME, f"frozen {path} lies below a link")
        if not os.path.lexists(place):
            raise SandboxUnavailableError(NAME, f"frozen {path} is not in the snapshot")
        if not place.is_symlink():
            sources[path] = str(place)
            continue
        target = os.path.realpath(place)
        inside = is_below(target, top) and target != top
        if not os.path.exists(target) or not (inside or any(is_below(target, r) for r in reads)):
            continue
        place.unlink()
        if os.path.isdir(target):
            _make(place)
        else:
            place.touch()
            place.chmod(FILE_MODE)
        sources[path] = target
    return sources


def collapse(frozen: Sequence[str], files: Sequence[str], limit: int) -> list[str]:
    """*frozen*, with wholly frozen folders in place of their files if there are over *limit*.

    Each mount costs about 0.3 ms. A folder that is frozen as a whole takes no new files either,
    so that this is done for large trees only.
    """
    if len(frozen) <= limit:
        return list(frozen)
    covered = set(frozen)
    mixed = {""}
    for path in files:
        parents = _parents(path)
        if path not in covered and not any(parent in covered for parent in parents):
            mixed.update(parents)
    result: set[str] = set()
    for path in frozen:
        whole = [parent for parent in _parents(path) if parent not in mixed]
        result.add(min(whole, key=len) if whole else path)
    return sorted(result)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _make(folder: Path) -> None:
    """With its own mode, whatever the umask: the sandbox's user is another one."""
    folder.mkdir()
    folder.chmod(FOLDER_MODE)


def _copy_file(folder: int, name: str, copy: Path) -> None:
    source = os.open(name, OPEN_FILE, dir_fd=folder)
    with open(source, "rb") as file:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise SandboxUnavailableError(NAME, f"{name} in the snapshot is no file")
        with copy.open("xb") as made:
            shutil.copyfileobj(file, made, CHUNK_BYTES)
    copy.chmod(PROGRAM_MODE if status.st_mode & stat.S_IXUSR else FILE_MODE)


def _open_up(folder: Path) -> None:
    """Root needs no leave; anyone else may have been locked out by the candidate's modes."""
    if os.geteuid() != 0:
        with contextlib.suppress(PermissionError):
            folder.chmod(0o700)


def _give(path: Path, owner: int | None) -> None:
    if owner is not None:
        os.chown(path, owner, owner, follow_symlinks=False)
