"""Kept changes as commits in the user's repository: refs and objects, nothing else.

All is worked out before anything is written, and the branch moves last. HEAD, index, work tree,
stash, configuration and reflogs stay as they are; no hook, filter or merge driver runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from overnight.contracts.errors import UsageError
from overnight.snapshots import branches
from overnight.snapshots.git import Git, valid_commit
from overnight.snapshots.identity import Person
from overnight.snapshots.manifest import EXECUTABLE, PLAIN
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.threeway import FileState, lines_as_in, merged
from overnight.snapshots.tree import TreeFile
from overnight.snapshots.userrepo import UserRepo

HEADS = "refs/heads/"
EXPERIMENT_TRAILER, SESSION_TRAILER = "Overnight-Experiment", "Overnight-Session"
_MODES = {PLAIN: PLAIN, "100664": PLAIN, EXECUTABLE: EXECUTABLE}
_HISTORY = 10_000  #: commits of a branch that are searched for what it has already
Files = dict[str, FileState]  #: path from the top of the work tree -> what it becomes


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change that shall be brought home, from one commit of the store to another."""

    before: str
    after: str
    message: str
    ids: tuple[int, ...]  #: experiments that it stands for


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One commit to be written."""

    files: Files
    message: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the commits go."""

    branch: str  #: without refs/heads/
    start: str  #: commit that they stand on
    tip: str | None  #: what the branch names now; None: it is made


@dataclass(frozen=True, kw_only=True)
class OwnEdits:
    """How the tree that a session began with differs from a commit."""

    files: Files = field(default_factory=dict)
    untracked: tuple[str, ...] = ()  #: seen by the runs, in no commit; they are left where they are


def target(found: UserRepo, branch: str, start: str, *, must_be_new: bool) -> Target:
    """The branch that is made, or gone on with.

    Raises:
        UsageError: no such name, it exists and must not, it is checked out, or no commit yet.
    """
    git = found.git()
    ref = f"{HEADS}{branch}"
    if branch.startswith("-") or git.attempt("check-ref-format", ref)[0] != 0:
        raise UsageError(f"--onto {branch[:80]!r}: no name for a branch")
    if branch == "HEAD" or branch.startswith("refs/"):
        # git itself takes them as branches, and finds everything after ambiguous.
        raise UsageError(f"--onto {branch[:80]!r}: name it as `git branch` lists it")
    heads = branches.heads(git)
    tip = heads.get(ref)
    if tip is None:
        blocked = _in_the_way(branch, heads)
        if blocked is not None:
            raise UsageError(f"branch {blocked} is in the way of {branch}: name another by --onto")
        return Target(branch=branch, start=start, tip=None)
    if must_be_new:
        raise UsageError(
            f"branch {branch} exists: go on with it by --onto {branch}, or name another"
        )
    where = branches.checked_out(git).get(ref)
    if where is not None:
        raise UsageError(
            f"branch {branch} is checked out in {where}, which stays as it is: leave out --onto, "
            "then `git merge` there what is made"
        )
    return Target(branch=branch, start=tip, tip=tip)


def _in_the_way(branch: str, heads: Mapping[str, str]) -> str | None:
    """A branch that another can't stand beside: `a` and `a/b` are a file and a folder."""
    for ref in heads:
        name = ref.removeprefix(HEADS)
        if name.startswith(f"{branch}/") or branch.startswith(f"{name}/"):
            return name
    return None


def head_commit(found: UserRepo) -> str | None:
    """The commit that HEAD names; None before the first one."""
    return commit_named(found, "HEAD")


def commit_named(found: UserRepo, name: str) -> str | None:
    """The commit of that name, if the repository has it."""
    arguments = ("rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}")
    code, output, _ = found.git().attempt(*arguments)
    return valid_commit(output.decode().strip()) if code == 0 else None


def own_edits(
    found: UserRepo, store: SnapshotStore, base: str, start: str, editable: Collection[str]
) -> OwnEdits:
    """What of the tree *base* is not in the commit *start*, of the files that git tracks there.

    A file that git converts (a filter, an encoding) can't be compared, so it counts as unchanged.
    Of those that git does not track only the editable ones are taken: they may be anything.
    """
    git = _from_top(found)
    tracked = _listed(git, start, found.prefix)
    differing: dict[str, TreeFile] = {}
    untracked: list[str] = []
    for file in store.tree(base).files:
        path = f"{found.prefix}{file.path}"
        mode, blob = tracked.get(path, (None, ""))
        if mode is None and file.path not in editable:
            untracked.append(path)
        elif mode is None or (mode in _MODES and (_MODES[mode], blob) != (file.mode, file.blob)):
            differing[path] = file
    for path in _converted(git, differing):
        del differing[path]
    edited = dict(store.git.blobs(sorted({file.blob for file in differing.values()})))
    known = dict(git.blobs(sorted({tracked[path][1] for path in differing if path in tracked})))
    files: Files = {}
    for path, file in differing.items():
        content = edited[file.blob]
        if path in tracked:
            mode, blob = tracked[path]
            content = lines_as_in(known[blob], content)
            if (_MODES[mode], known[blob]) == (file.mode, content):
                continue
        files[path] = FileState(file.mode, content)
    return OwnEdits(files=files, untracked=tuple(untracked))


def work_out(
    found: UserRepo, store: SnapshotStore, where: Target, steps: Sequence[Step], first: Files
) -> list[Planned]:
    """The commits that bring *steps* onto *where*; one that changes nothing there is left out.

    first: what is changed there before, by a commit of its own.

    Raises:
        UsageError: a change does not fit; names the file.
        SnapshotMissingError: objects.git lacks something.
    """
    git = _from_top(found)
    planned: list[Planned] = []
    now: dict[str, FileState | None] = dict(first)
    for step in steps:
        before, after = (_files(store, commit) for commit in (step.before, step.after))
        files: Files = {}
        for name, file in after.items():
            if name in before and (file.mode, file.blob) == (before[name].mode, before[name].blob):
                continue
            path = f"{found.prefix}{name}"
            if path not in now:
                now[path] = _state_there(git, where.start, path)
            old = _state(store, before[name]) if name in before else None
            new = merged(git, now[path], old, _state(store, file))
            if new is None:
                raise UsageError(_misfit(where, path, step, gone=now[path] is None))
            if new != now[path]:
                files[path] = now[path] = new
        if files:
            planned.append(Planned(files=files, message=step.message, ids=step.ids))
    return planned


def _misfit(where: Target, path: str, step: Step, *, gone: bool) -> str:
    names = ", ".join(map(str, step.ids))
    what = "is no file" if gone else "was changed in the same place"
    return (
        f"experiment {names} does not fit on {where.branch}: {path} {what} there. Nothing was "
        "written: leave out --onto for a branch that begins where the session began, or take the "
        "files by --to DIR"
    )


def already_there(found: UserRepo, tip: str, tag: str, sid: str) -> set[int]:
    """Experiments of that session that the history of *tip* says it holds."""
    output = found.git().run("rev-list", "--header", f"--max-count={_HISTORY}", valid_commit(tip))
    there: set[int] = set()
    for text in output.decode(errors="replace").split("\0"):
        lines = [line.strip() for line in text.splitlines()]
        if f"{SESSION_TRAILER}: {sid}" in lines:
            prefix = f"{EXPERIMENT_TRAILER}: {tag}/"
            names = (line.removeprefix(prefix) for line in lines if line.startswith(prefix))
            there |= {int(n) for n in names if n.isascii() and n.isdigit() and len(n) <= 8}
    return there


def write(
    found: UserRepo, where: Target, planned: Sequence[Planned], person: Person
) -> tuple[str, ...]:
    """Write the commits, oldest first, and let the branch name the last one.

    Raises:
        UsageError: the branch was moved meanwhile, or a file stands where a folder is needed.
        GitFailedError: the repository can't be written. The branch is as it was.
    """
    who = {"NAME": person.name, "EMAIL": person.email}
    environ = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
    made: list[str] = []
    with tempfile.TemporaryDirectory(prefix="overnight-") as folder:
        git = replace(
            _from_top(found),
            index_file=Path(folder, "index"),
            environ=environ,
            config=("index.sparse=false", "core.sparseCheckout=false"),
        )
        git.run("read-tree", where.start)
        for each in planned:
            lines = b"".join(
                f"{state.mode} {_blob(git, state.content)}\t{path}\0".encode()
                for path, state in each.files.items()
            )
            git.run("update-index", "-z", "--index-info", stdin=lines)
            tree = git.run("write-tree", "--missing-ok").decode().strip()
            parent = made[-1] if made else where.start
            made.append(_commit(git, tree, parent, each.message))
    refs = {f"{HEADS}{where.branch}": made[-1]} if made else {}
    current = {f"{HEADS}{where.branch}": where.tip} if where.tip is not None else {}
    why = branches.update(found.git(), refs, current) if refs else None
    if why is not None:
        raise UsageError(f"branch {where.branch} could not be moved: {why}")
    return tuple(made)


def _commit(git: Git, tree: str, parent: str, message: str) -> str:
    utf8 = replace(git, config=(*git.config, "i18n.commitEncoding=utf-8"))
    output = utf8.run("commit-tree", tree, "-p", parent, stdin=f"{message}\n".encode())
    return valid_commit(output.decode().strip())


def _blob(git: Git, content: bytes) -> str:
    return valid_commit(git.run("hash-object", "-w", "--stdin", stdin=content).decode().strip())


def _from_top(found: UserRepo) -> Git:
    """Names of files are from the top of the work tree, wherever the session's folder is."""
    return replace(found.git(), folder=found.top)


def _files(store: SnapshotStore, commit: str) -> dict[str, TreeFile]:
    return {file.path: file for file in store.tree(commit).files}


def _state(store: SnapshotStore, file: TreeFile) -> FileState:
    ((_, content),) = store.git.blobs([file.blob])
    return FileState(file.mode, content)


def _state_there(git: Git, commit: str, path: str) -> FileState | None:
    """The regular file of that name in the commit, None for anything else."""
    mode, blob = _listed(git, commit, path).get(path, ("", ""))
    if mode not in _MODES:
        return None
    ((_, content),) = git.blobs([blob])
    return FileState(_MODES[mode], content)


def _listed(git: Git, commit: str, path: str) -> dict[str, tuple[str, str]]:
    """Path from the top -> (mode, object) of what lies in *commit* at or below *path*."""
    below = (path.rstrip("/"),) if path else ()
    output = git.run("ls-tree", "-r", "-z", "--full-tree", valid_commit(commit), "--", *below)
    entries = {}
    for record in output.split(b"\0"):
        head, _, name = record.partition(b"\t")
        if name:
            mode, _, blob = head.decode().split()
            entries[name.decode(errors="surrogateescape")] = (mode, blob)
    return entries


def _converted(git: Git, paths: Collection[str]) -> list[str]:
    """Those whose stored form is made by a program or in another encoding."""
    if not paths:
        return []
    asked = b"".join(path.encode(errors="surrogateescape") + b"\0" for path in paths)
    attributes = ("filter", "working-tree-encoding")
    output = git.run("check-attr", "-z", "--stdin", *attributes, stdin=asked)
    fields = output.decode(errors="surrogateescape").split("\0")[:-1]
    found = zip(fields[::3], fields[2::3], strict=True)
    return sorted({path for path, value in found if value not in ("unspecified", "unset")})
