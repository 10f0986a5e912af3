"""The user's git repository, found by reading alone; nothing is written here.

GitPython parses it; its command wrapper is not used, since that hands our whole environment on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from overnight.contracts.errors import UsageError
from overnight.snapshots.git import Git, git_binary


@dataclass(frozen=True, kw_only=True)
class UserRepo:
    """Where a folder's repository lies. The folder may be a part of it or a linked work tree."""

    folder: Path  #: what the user named
    top: Path  #: root of the work tree
    git_dir: Path  #: of this work tree
    common_dir: Path  #: of the repository, the same unless the work tree is a linked one

    @property
    def prefix(self) -> str:
        """The folder inside the work tree, `a/b/`, or nothing when it is the root."""
        inside = self.folder.relative_to(self.top).as_posix()
        return "" if inside == "." else f"{inside}/"

    def git(self, *, index_file: Path | None = None, home: Path | None = None) -> Git:
        """Plumbing in it, from the named folder."""
        return Git(
            git_dir=self.git_dir,
            work_tree=self.top,
            folder=self.folder,
            index_file=index_file,
            home=home,
        )


def find(folder: Path) -> UserRepo | None:
    """The repository whose work tree holds *folder*, or None when there is none.

    Raises:
        UsageError: no git on the PATH, no such folder, or a broken `.git`.
    """
    git_binary()  # GitPython fails at import without one
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    where = folder.resolve()
    with _opened(where) as found:
        return None if found is None or _ignored(found) else found


def _ignored(found: UserRepo) -> bool:
    """A folder that its repository ignores whole is no part of it: a demo, a scratch folder."""
    if not found.prefix or found.git().run("ls-files", "-z", "--cached"):
        return False
    git = replace(found.git(), literal=False)
    code, _, _ = git.attempt("check-ignore", "-q", "--no-index", "--", str(found.folder))
    return code == 0


@contextmanager
def _opened(where: Path) -> Iterator[UserRepo | None]:
    # Here and not at the top: importing it starts a git process, and a runner never needs it.
    from git import Repo
    from git.exc import InvalidGitRepositoryError, WorkTreeRepositoryUnsupported

    try:
        repo = Repo(where, search_parent_directories=True, expand_vars=False)
    except (InvalidGitRepositoryError, WorkTreeRepositoryUnsupported):
        if (where / ".git").exists():
            raise UsageError(f"{where / '.git'} is broken: mend it or move it away") from None
        yield None
        return
    try:
        top = repo.working_tree_dir
        if top is None or not where.is_relative_to(Path(top).resolve()):
            yield None  # a bare repository, or a folder inside `.git`: no work tree of its own
            return
        yield UserRepo(
            folder=where,
            top=Path(top).resolve(),
            git_dir=Path(repo.git_dir).resolve(),
            common_dir=Path(repo.common_dir).resolve(),
        )
    finally:
        repo.close()
