"""The user's tree as it lies: which files belong to it, read once, never written.

Inside git: what is tracked plus what is untracked and not ignored. Outside: all but our own
folders, caches, dot-folders and virtual environments. Links are never stored as links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from overnight.contracts.errors import UsageError
from overnight.snapshots import userrepo
from overnight.snapshots.manifest import file_mode, path_problem
from overnight.snapshots.root import own_folders

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024**2
BINDINGS = "loop.run.yaml"  #: ours, so never part of a candidate
_WALK_LIMIT = 200_000  #: outside git a walk stops here; what was seen names the folder well enough


@dataclass(frozen=True, kw_only=True)
class TreeFile:
    """One file of a listing. Its bytes are read later, once."""

    path: str
    mode: str
    size_bytes: int
    link_to: str | None = None  #: the tree's file whose content is stored here in place of a link
    blob: str = ""  #: git's id of the content, once it is stored


@dataclass(frozen=True)
class LeftOut:
    """What lies in the folder but is not part of the tree, and why."""

    path: str
    why: str
    refused: bool = False  #: a tree with it can't be a base


class Listed(Protocol):
    """Which files a tree has."""

    @property
    def files(self) -> tuple[TreeFile, ...]:
        """In order of their names."""
        ...

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Submodules, special files, dangling links; to be said once."""
        ...


class TreeListing(Listed, Protocol):
    """The files of a tree that is not stored yet, and their bytes."""

    def contents(self) -> Iterator[tuple[TreeFile, bytes]]:
        """Each file with its bytes, read once. Raises UsageError, naming the file."""
        ...


@dataclass(frozen=True, kw_only=True)
class FolderTree:
    """A tree that lies in a folder."""

    folder: Path
    files: tuple[TreeFile, ...]
    left_out: tuple[LeftOut, ...]
    head: str | None  #: the commit that HEAD names, for the record

    def contents(self) -> Iterator[tuple[TreeFile, bytes]]:
        """Each file with its bytes, read once. Raises UsageError, naming the file."""
        total = 0
        for file in self.files:
            content = _read(self.folder, file.link_to or file.path)
            total += len(content)
            if total > MAX_BYTES:  # a file that grows while it is read
                raise _too_large(self.files, "the tree is larger than 512 MiB")
            yield file, content


def scan(repo: Path, sandbox_root: Path) -> FolderTree:
    """The files of the user's tree in *repo*, which may be a part of a git repository or none.

    Raises:
        UsageError: too large (names the largest folder), a link that leads out of the tree or to
            a folder, a name that a tree of ours can't hold, an unreadable folder, no git.
    """
    found = userrepo.find(repo)
    folder = repo.resolve()
    ours = _own_prefixes(folder, sandbox_root)
    names = _names_in_git(found) if found else _names_in_folder(folder, ours)
    kept = [name for name in names if name != BINDINGS and not name.startswith(ours)]
    files, left_out = _classify(folder, kept)
    refuse_large(files)
    head = None
    if found:
        code, output, _ = found.git().attempt("rev-parse", "--verify", "-q", "HEAD^{commit}")
        head = output.decode().strip() if code == 0 else None
    return FolderTree(folder=folder, files=files, left_out=left_out, head=head)


def check_editable(listing: Listed, editable: Iterable[str]) -> None:
    """Every editable file is a file of the tree, and nothing in the tree is a link to one.

    Raises:
        UsageError: names the file and why it can't be edited.
    """
    files = {file.path: file for file in listing.files}
    left_out = {item.path: item.why for item in listing.left_out}
    wanted = tuple(editable)
    for path in wanted:
        if path in left_out:
            raise UsageError(f"editable_files: {path} is {left_out[path]}")
        if path not in files:
            raise UsageError(f"editable_files: {path} is not in the tree: missing or ignored")
        if files[path].link_to is not None:
            raise UsageError(f"editable_files: {path} is a link: name {files[path].link_to}")
    for file in listing.files:
        if file.link_to in wanted:
            raise UsageError(
                f"{file.path} is a link to the editable file {file.link_to}: make it a file"
            )


def refuse_large(files: Iterable[TreeFile]) -> None:
    """Raises UsageError, naming the largest folder, over 20,000 files or 512 MiB."""
    listed = tuple(files)
    if len(listed) > MAX_FILES:
        raise _too_large(listed, f"the tree holds {len(listed)} files, more than {MAX_FILES}")
    total = sum(file.size_bytes for file in listed)
    if total > MAX_BYTES:
        raise _too_large(listed, f"the tree holds {total // 1024**2} MiB, more than 512")


def _own_prefixes(folder: Path, sandbox_root: Path) -> tuple[str, ...]:
    prefixes = []
    for own in own_folders(sandbox_root.absolute()):
        place = own.parent.resolve() / own.name
        if place.is_relative_to(folder):
            prefixes.append(f"{place.relative_to(folder).as_posix()}/")
    return tuple(prefixes)


def _names_in_git(found: userrepo.UserRepo) -> list[str]:
    """Tracked and untracked-not-ignored names below the folder; `x/` is another repository."""
    try:
        home = Path.home()  # so that the user's own ignore file counts as in `git status`
    except RuntimeError:
        home = None
    git = found.git(home=home)
    tracked = _split(git.run("ls-files", "-z", "--cached"))
    others = _split(git.run("ls-files", "-z", "--others", "--exclude-standard"))
    return sorted({*tracked, *_without_environments(found.folder, others)})


def _without_environments(folder: Path, untracked: list[str]) -> list[str]:
    """Caches and virtual environments that nobody tracks are no part of a tree, ignored or not."""
    environments = tuple(
        name.removesuffix("pyvenv.cfg")
        for name in untracked
        if name.endswith("/pyvenv.cfg") and (folder / name).is_file()
    )
    return [
        name
        for name in untracked
        if not name.startswith(environments) and "__pycache__" not in name.split("/")
    ]


def _names_in_folder(folder: Path, ours: tuple[str, ...]) -> list[str]:
    names: list[str] = []
    pending = [(str(folder), "")]
    while pending and len(names) < _WALK_LIMIT:
        here, prefix = pending.pop()
        try:
            with os.scandir(here) as found:
                items = list(found)
        except OSError as error:
            raise UsageError(f"{prefix or folder}: {error.strerror}") from error
        if prefix and any(item.name == "pyvenv.cfg" for item in items):
            continue
        for item in items:
            name = f"{prefix}{item.name}"
            skipped = item.name[0] == "." or item.name == "__pycache__" or f"{name}/" in ours
            if not item.is_dir():
                names.append(name)
            elif skipped:
                continue
            elif item.is_symlink():
                names.append(name)  # a link to a folder is one name, and refused as such
            else:
                pending.append((item.path, f"{name}/"))
    return sorted(names)


def _classify(
    folder: Path, names: Iterable[str]
) -> tuple[tuple[TreeFile, ...], tuple[LeftOut, ...]]:
    files: dict[str, TreeFile] = {}
    links: list[str] = []
    left_out: list[LeftOut] = []
    for name in names:
        problem = path_problem(name.removesuffix("/"))
        if problem is not None:
            raise UsageError(f"{name!a}: {problem}: rename it or have git ignore it")
        try:
            status = os.lstat(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            continue  # tracked, but deleted from the work tree
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error
        if stat.S_ISLNK(status.st_mode):
            links.append(name)
        elif stat.S_ISREG(status.st_mode):
            mode = file_mode(status.st_mode)
            files[name] = TreeFile(path=name, mode=mode, size_bytes=status.st_size)
        elif stat.S_ISDIR(status.st_mode):
            why = "a submodule or a repository of its own"
            left_out.append(LeftOut(name.removesuffix("/"), why))
        else:
            left_out.append(LeftOut(name, "not a regular file"))
    for name in links:
        _resolve_link(folder, name, files, left_out)
    return tuple(files[name] for name in sorted(files)), tuple(left_out)


def _resolve_link(
    folder: Path, name: str, files: dict[str, TreeFile], left_out: list[LeftOut]
) -> None:
    """A link to a file of the tree becomes that file's content; a dangling one is left out."""
    place = folder / name
    try:
        status = os.stat(place)
    except OSError:
        left_out.append(LeftOut(name, "a link that leads nowhere"))
        return
    if os.path.isfile(place / "pyvenv.cfg"):
        left_out.append(LeftOut(name, "a link to a virtual environment"))
        return
    target = os.path.realpath(place)
    inside = os.path.relpath(target, folder)
    if inside.split("/")[0] == ".." or os.path.isabs(inside):
        raise UsageError(
            f"{name} is a link that leads out of the tree, to {target}: have git ignore it, and "
            "name what it leads to under `reads:`"
        )
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{name} is a link to the folder {inside}: use the folder itself")
    if inside not in files or files[inside].link_to is not None:
        raise UsageError(f"{name} is a link to {inside}, which is no file of the tree")
    real = files[inside]
    files[name] = TreeFile(path=name, mode=real.mode, size_bytes=real.size_bytes, link_to=inside)


def _read(folder: Path, name: str) -> bytes:
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UsageError(f"{name} is no longer a regular file: try again")
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name} can't be read: {error.strerror}") from error


def _too_large(files: tuple[TreeFile, ...], what: str) -> UsageError:
    by_count = len(files) > MAX_FILES
    name, kind = largest_folder(files, by_count=by_count), "folder"
    if name == "." and not by_count:  # nobody can leave out the whole: one file is too much of it
        name, kind = max(files, key=lambda file: file.size_bytes).path, "file"
    return UsageError(
        f"{what}; most of it is in {name}: have git ignore that {kind}, and name it under "
        "`reads:` when candidates need it"
    )


def largest_folder(files: Iterable[TreeFile], *, by_count: bool) -> str:
    """The deepest folder that holds more than half of all files (or bytes)."""
    weights: dict[str, int] = {}
    total = 0
    for file in files:
        weight = 1 if by_count else file.size_bytes
        total += weight
        for parent in PurePosixPath(file.path).parents:
            weights[str(parent)] = weights.get(str(parent), 0) + weight
    heavy = [name for name, weight in weights.items() if weight * 2 > total]
    heavy = heavy or ["."]
    deepest = max(heavy, key=lambda name: 0 if name == "." else name.count("/") + 1)
    if deepest == "." and len(weights) > 1:  # no half anywhere: the heaviest at the top
        tops = {name: weight for name, weight in weights.items() if "/" not in name and name != "."}
        deepest = max(tops, key=lambda name: tops[name])
    return deepest if deepest == "." else f"{deepest}/"


def _split(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]
