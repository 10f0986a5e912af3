"""The strategy `branches`: HEAD as base, and every experiment as a branch of the user's own.

In the user's repository only refs and objects appear. HEAD, index, work tree, configuration and
reflogs are never written, hooks and filters never run.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from overnight.contracts.errors import SnapshotError, UsageError
from overnight.snapshots import userrepo
from overnight.snapshots.errors import GitFailedError, disk_errors
from overnight.snapshots.git import Git, first_line, valid_commit
from overnight.snapshots.store import BASE_REF, SnapshotStore, Stored
from overnight.snapshots.tags import check_tag, slug
from overnight.snapshots.tree import BINDINGS, LeftOut, check_editable, refuse_large
from overnight.snapshots.userrepo import UserRepo

_SESSION_PREFIXES = ("autoresearch", "autoresearch-sessions")
_EXPERIMENT_PREFIXES = ("exp", "experiments", "overnight-exp")
_HEADS = "refs/heads/"
_LOCK_SECONDS = 3.0  #: an update takes milliseconds; a lock that stands for so long has no owner
_LOCK_LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class BranchNames:
    """What a session's branches are called."""

    session: str  #: e.g. autoresearch/mar5
    experiments: str  #: e.g. exp/mar5/
    notes: tuple[str, ...] = ()  #: to be said once: why a name is another than usual

    def experiment(self, number: int, hypothesis: str) -> str:
        """The branch of one experiment."""
        return f"{self.experiments}{number}-{slug(hypothesis)}"


@dataclass(frozen=True, kw_only=True)
class HeadBase:
    """The base of a session with branches."""

    stored: Stored  #: its commit is the user's own HEAD
    left_out: tuple[LeftOut, ...]


def require(repo: Path) -> UserRepo:
    """The repository that branches shall appear in.

    Raises:
        UsageError: there is none, or one that we can't write to.
    """
    found = userrepo.find(repo)
    if found is None:
        raise UsageError(
            "iter_strategy: branches needs a git repository: run `git init` and commit, or set "
            "iter_strategy: snapshots"
        )
    kind = found.git().run("rev-parse", "--show-object-format").decode().strip()
    if kind != "sha1":
        raise UsageError(
            f"iter_strategy: branches can't work with {kind} objects: set iter_strategy: snapshots"
        )
    return found


def plan_names(found: UserRepo, tag: str) -> BranchNames:
    """Names for a session that is being opened.

    Raises:
        UsageError: the session's branch exists, and so belongs to somebody else.
    """
    taken = {name.removeprefix(_HEADS) for name in heads(found.git())}
    check_tag(tag)
    notes = []
    session = _free_prefix(_SESSION_PREFIXES, taken)
    branch = f"{session}/{tag}"
    if branch in taken or any(name.startswith(f"{branch}/") for name in taken):
        raise UsageError(
            f"branch {branch} exists and is not this session's: use another --tag, or delete it"
        )
    experiments = _free_prefix(_EXPERIMENT_PREFIXES, taken, f"/{tag}")
    for used, usual in ((session, _SESSION_PREFIXES[0]), (experiments, _EXPERIMENT_PREFIXES[0])):
        if used != usual:
            notes.append(f"branches are named {used}/...: there is a branch in the way of {usual}/")
    return BranchNames(session=branch, experiments=f"{experiments}/{tag}/", notes=tuple(notes))


def adopt_head(
    found: UserRepo,
    store: SnapshotStore,
    editable: Collection[str],
    frozen: Collection[str] | None,
) -> HeadBase:
    """Bring HEAD's tree into the store as the session's base. *frozen* None: all that is tracked.

    Raises:
        UsageError: no commit yet, an editable or frozen file differs from HEAD, a link or a size
            that a tree can't have.
        SnapshotError: HEAD's objects are not all there.
    """
    head = head_of(found)
    refuse_dirty(found, editable, frozen)
    bring_commit(found, store, head)
    tree = store.tree(head)
    refused = next((item for item in tree.left_out if item.refused), None)
    if refused is not None:
        raise UsageError(f"{refused.path} is {refused.why}: have git ignore it")
    if not tree.files:
        raise UsageError(f"HEAD holds no file in {found.folder}: commit it first")
    refuse_large(tree.files)
    check_editable(tree, editable)
    stored = Stored(commit=head, tree_digest=store.remember(head))
    return HeadBase(stored=stored, left_out=tree.left_out)


def head_of(found: UserRepo) -> str:
    """The commit that HEAD names. Raises UsageError: there is none yet."""
    code, output, _ = found.git().attempt("rev-parse", "--verify", "-q", "HEAD^{commit}")
    if code != 0:
        raise UsageError("iter_strategy: branches needs a commit: `git commit` first")
    return valid_commit(output.decode().strip())


def bring_commit(found: UserRepo, store: SnapshotStore, commit: str) -> None:
    """Bring a commit of the user's into a new store, as what its experiments stand on.

    Raises:
        SnapshotError: its objects are not all there.
    """
    store.create(found.prefix)
    _copy_head(found.git(), store, commit)


@dataclass(frozen=True, kw_only=True)
class Synced:
    """What `sync` did."""

    moved: tuple[str, ...]  #: branches made or moved
    left_alone: tuple[LeftOut, ...]  #: branches that it must not or could not move, and why


def sync(found: UserRepo, store: SnapshotStore, expected: Mapping[str, str]) -> Synced:
    """Make the user's branches what the fold says; the same again changes nothing.

    *expected* maps branch names (without `refs/heads/`) to commits of the store. A branch that
    somebody else has moved, or that is checked out, is left alone and named.

    Raises:
        SnapshotError: objects could not be copied; no branch was moved then.
    """
    git = found.git()
    current = heads(git)
    wanted = {f"{_HEADS}{name}": valid_commit(commit) for name, commit in expected.items()}
    stale = {ref: commit for ref, commit in wanted.items() if current.get(ref) != commit}
    if not stale:
        return Synced(moved=(), left_alone=())
    standing = checked_out(git)
    ours = store.has({current[ref] for ref in stale if ref in current})
    left_alone: list[LeftOut] = []
    for ref in sorted(stale):
        name = ref.removeprefix(_HEADS)
        if ref in standing:
            left_alone.append(LeftOut(name, f"checked out in {standing[ref]}"))
        elif ref in current and current[ref] not in ours:
            left_alone.append(LeftOut(name, "moved by somebody else"))
    barred = {f"{_HEADS}{item.path}" for item in left_alone}
    moves = {ref: commit for ref, commit in stale.items() if ref not in barred}
    if moves:
        done = {commit for ref, commit in wanted.items() if current.get(ref) == commit}
        _copy_objects(git, store, set(moves.values()), done)
        left_alone += _move(git, found.common_dir, moves, current)
    failed = {item.path for item in left_alone}
    names = (ref.removeprefix(_HEADS) for ref in sorted(moves))
    return Synced(
        moved=tuple(name for name in names if name not in failed), left_alone=tuple(left_alone)
    )


def _free_prefix(prefixes: Iterable[str], taken: set[str], below: str = "") -> str:
    """The first prefix that no branch is in the way of, and below which nothing stands yet."""
    for prefix in prefixes:
        blocked = prefix in taken
        if below:
            folder = f"{prefix}{below}"
            blocked |= folder in taken or any(name.startswith(f"{folder}/") for name in taken)
        if not blocked:
            return prefix
    raise UsageError(f"branches named {', '.join(prefixes)} are all taken: rename one")


def heads(git: Git) -> dict[str, str]:
    """Each branch, as refs/heads/..., and the commit that it names."""
    output = git.run("for-each-ref", "--format=%(refname) %(objectname)", _HEADS)
    pairs = (line.rsplit(" ", 1) for line in output.decode(errors="replace").splitlines())
    return {ref: commit for ref, commit in pairs}


def checked_out(git: Git) -> dict[str, str]:
    """Branch, as refs/heads/..., -> the work tree on it, which would look changed if it moved."""
    found: dict[str, str] = {}
    where = ""
    for line in git.run("worktree", "list", "--porcelain").decode(errors="replace").splitlines():
        key, _, value = line.partition(" ")
        if key == "worktree":
            where = value
        elif key == "branch":
            found[value] = where
    return found


def refuse_dirty(
    found: UserRepo, editable: Collection[str], frozen: Collection[str] | None
) -> None:
    """Nothing that candidates run with may differ from HEAD. *frozen* None: all that is tracked.

    Raises:
        UsageError: names the first file that differs.
    """
    changed = _changed_files(found)
    if frozen is not None:
        watched = (*editable, *frozen)
        changed = [
            name
            for name in changed
            if any(name == each or name.startswith(f"{each.rstrip('/')}/") for each in watched)
        ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"{changed[0]}{more} differs from HEAD: commit it, or set iter_strategy: snapshots"
        )


def _changed_files(found: UserRepo) -> list[str]:
    """Tracked files below the folder that differ from HEAD, as `git status` would say.

    Works on a copy of the index, which git may freshen. The filters of the repository are
    programs of somebody's: they are switched off, so a filtered file counts by its time stamps.
    """
    with tempfile.TemporaryDirectory(prefix="overnight-") as name:
        index = Path(name, "index")
        if (found.git_dir / "index").exists():
            shutil.copyfile(found.git_dir / "index", index)
        git = found.git(index_file=index)
        git = replace(git, config=tuple(_without_filters(git)))
        output = git.run(
            *("diff", "--name-only", "-z", "--relative", "--no-renames", "--no-ext-diff"),
            *("--no-textconv", "--ignore-submodules=all", "HEAD", "--", "."),
        )
    names = [name.decode(errors="backslashreplace") for name in output.split(b"\0") if name]
    return [name for name in names if name != BINDINGS]


def _without_filters(git: Git) -> Iterator[str]:
    code, output, _ = git.attempt("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
    for key in sorted(set(output.decode(errors="replace").split("\0"))) if code == 0 else ():
        driver, _, what = key.rpartition(".")
        if "=" in driver or "\n" in driver:
            raise UsageError(f"the git filter {driver!a} has a name that can't be switched off")
        if what in ("clean", "smudge", "process"):
            yield f"{key}="
        elif what == "required":
            yield f"{key}=false"


def _copy_head(git: Git, store: SnapshotStore, head: str) -> None:
    """HEAD's commit and tree, without its history, by a pack: no transport and no hook."""
    if not store.has([head]):
        root_tree = git.run("rev-parse", f"{head}^{{tree}}").decode().strip()
        lines = git.run("ls-tree", "-r", "-t", "-z", "--full-tree", head).split(b"\0")
        kinds = (line.partition(b"\t")[0].split() for line in lines if line)
        names = {oid.decode() for _, kind, oid in kinds if kind != b"commit"}
        wanted = "".join(f"{name}\n" for name in (head, root_tree, *sorted(names)))
        try:
            # The commit's parents stay behind; without this git would miss them.
            with disk_errors(str(store.git_dir)):
                (store.git_dir / "shallow").write_text(f"{head}\n")
            with _pack(git, wanted.encode()) as pack:
                store.git.run("index-pack", "--stdin", stdin=pack)
        except GitFailedError as error:
            raise SnapshotError(f"HEAD can't be copied: {error}") from error
    store.git.run("update-ref", "--no-deref", BASE_REF, head)


def _copy_objects(git: Git, store: SnapshotStore, commits: set[str], there: set[str]) -> None:
    code, output, _ = store.git.attempt("rev-parse", "--verify", "-q", BASE_REF)
    known = there | ({output.decode().strip()} if code == 0 else set())
    wanted = [*sorted(commits), *(f"^{commit}" for commit in sorted(known))]
    revisions = "".join(f"{revision}\n" for revision in wanted)
    with _pack(store.git, revisions.encode(), "--revs") as pack:
        git.run("unpack-objects", "-q", stdin=pack)


@contextmanager
def _pack(git: Git, wanted: bytes, *options: str) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as pack:
        git.run_into(pack, "pack-objects", "--stdout", "-q", *options, stdin=wanted)
        pack.seek(0)
        yield pack


def _move(
    git: Git, common_dir: Path, moves: Mapping[str, str], current: Mapping[str, str]
) -> list[LeftOut]:
    """All at once; where one is in the way of all, one by one, naming those that fail."""
    if update(git, moves, current) is None:
        return []
    failures: dict[str, str] = {}
    for again in (False, True):
        for ref in sorted(failures if again else moves):
            why = update(git, {ref: moves[ref]}, current)
            if why is None:
                failures.pop(ref, None)
            else:
                failures[ref] = why
        if not failures or again or not _heal_locks([common_dir / f"{r}.lock" for r in failures]):
            break
    return [LeftOut(ref.removeprefix(_HEADS), why) for ref, why in sorted(failures.items())]


def update(git: Git, moves: Mapping[str, str], current: Mapping[str, str]) -> str | None:
    """None when done, else git's words. Only moves a ref that still is what we have seen."""
    absent = "0" * 40
    commands = "".join(
        f"option no-deref\0update {ref}\0{commit}\0{current.get(ref, absent)}\0"
        for ref, commit in sorted(moves.items())
    )
    code, _, errors = git.attempt("update-ref", "--stdin", "-z", stdin=commands.encode())
    return None if code == 0 else first_line(errors)


def _heal_locks(locks: Collection[Path]) -> bool:
    """Remove the locks that a killed process of ours left on our own branches; was there any?

    One is left when it stands unchanged while we watch: what a file says of its age is only as
    good as the wall clock.
    """
    first = {lock: identity for lock in locks if (identity := _identity(lock)) is not None}
    until = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < until and any(_identity(lock) == first[lock] for lock in first):
        time.sleep(_LOCK_LOOK_SECONDS)
    for lock, identity in first.items():
        if _identity(lock) == identity:
            lock.unlink(missing_ok=True)
    return bool(first)


def _identity(lock: Path) -> tuple[int, int] | None:
    try:
        status = lock.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
