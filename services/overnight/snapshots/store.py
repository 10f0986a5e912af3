"""objects.git: the bare repository where a session's trees and commits lie.

One process writes (the orchestrator); any number read. It never touches the user's repository.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.snapshots.diffstat import DiffStat, diffstat
from overnight.snapshots.digests import DigestCache
from overnight.snapshots.edits import CandidateEdit, Change, check_edit
from overnight.snapshots.errors import GitFailedError, SnapshotMissingError
from overnight.snapshots.git import AUTHOR_EMAIL, AUTHOR_NAME, Git, valid_commit
from overnight.snapshots.manifest import Entry, blob_id, content_digest, tree_digest
from overnight.snapshots.stored import LINK, StoredTree, build_tree, parse_tree
from overnight.snapshots.tags import commit_message
from overnight.snapshots.tree import TreeFile, TreeListing

GIT_DIR = "objects.git"
BASE_REF = "refs/experiments/base"
_BASE_DATE = 946_684_800  #: a folder has no date of its own: the year 2000, always the same


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tree that lies in objects.git."""

    commit: str  #: 40 hex digits
    tree_digest: str  #: content digest, 64 hex digits
    lines_added: int = 0
    lines_removed: int = 0
    places: int = 0  #: separate places that it changes


@dataclass
class SnapshotStore:
    """The store below one session's folder, `<root>/objects.git`."""

    root: Path
    git_dir: Path = field(init=False)
    _git: Git = field(init=False)
    _digests: DigestCache = field(init=False)

    def __post_init__(self) -> None:
        self.git_dir = self.root.absolute() / GIT_DIR
        self._git = Git(git_dir=self.git_dir)
        self._digests = DigestCache(self.git_dir / "overnight-sha256")

    @property
    def git(self) -> Git:
        """Plumbing in it, for the modules of this room."""
        return self._git

    @property
    def prefix(self) -> str:
        """The folder of every commit that is the tree: not the root where commits are the user's
        own and the session works in a part of the repository."""
        try:
            return (self.git_dir / "overnight-prefix").read_text()
        except FileNotFoundError:
            return ""

    def create(self, prefix: str = "") -> None:
        """Make it, or make it ready again after a crash. Only for its one writer.

        Raises:
            UsageError: no git on the PATH.
            InfrastructureError: the disk is full or failing.
        """
        try:
            if not (self.git_dir / "HEAD").exists():
                self._make(prefix)
            _drop_locks(self.git_dir)
        except OSError as error:
            raise InfrastructureError(f"{self.git_dir}: {error.strerror}") from error

    def write_base(self, listing: TreeListing) -> Stored:
        """Store the user's tree as a commit without parents. The same tree is the same commit.

        Raises:
            UsageError: it holds no file, or one can't be read.
            SnapshotError: git could not write.
        """
        if not listing.files:
            raise UsageError("the repository holds no file: is this the right folder?")
        entries: list[Entry] = []
        blobs: dict[str, str] = {}

        def stream() -> Iterator[bytes]:
            yield _commit_head(BASE_REF, _BASE_DATE, "base", None)
            for file, content in listing.contents():
                sha = content_digest(content)
                entries.append(Entry(file.path, file.mode, sha))
                blobs[blob_id(content)] = sha
                yield from _modify(file.mode, file.path, content)
            yield b"get-mark :1\ndone\n"

        commit = self._import(stream())
        self._digests.add(blobs)
        return Stored(commit=commit, tree_digest=tree_digest(entries))

    def write_copy(
        self, source: SnapshotStore, commit: str, message: str, onto: str | None = None
    ) -> Stored:
        """Store the tree of a commit of another store as a base: without parents, or *onto* a
        commit of this one, whose other files stay. The same tree again is the same commit.

        Raises:
            SnapshotMissingError: the commit, or a file's content, is not there.
        """
        wanted = {file.path: file for file in source.tree(commit).files}
        there = {file.path: file for file in self.tree(onto).files} if onto else {}
        new: dict[str, list[TreeFile]] = {}  #: blob -> where it stands
        for path, file in wanted.items():
            old = there.get(path)
            if old is None or (old.mode, old.blob) != (file.mode, file.blob):
                new.setdefault(file.blob, []).append(file)
        date = _BASE_DATE if onto is None else self._date(onto) + 1

        def stream() -> Iterator[bytes]:
            ref = BASE_REF if onto is None else f"{BASE_REF}-copied"
            yield _commit_head(ref, date, message, onto)
            for path in sorted(there.keys() - wanted.keys()):
                yield _delete(f"{self.prefix}{path}")
            for blob, content in source.git.blobs(sorted(new)):
                for file in new[blob]:
                    yield from _modify(file.mode, f"{self.prefix}{file.path}", content)
            yield b"get-mark :1\ndone\n"

        written = self._import(stream())
        return Stored(commit=written, tree_digest=self.remember(written))

    def write_candidate(self, edit: CandidateEdit) -> Stored:
        """Store a candidate: its parent's tree with the edit's changes, pinned under its id.

        The same edit again gives the same commit, so a step may be redone after a crash.

        Raises:
            EditRejectedError: the edit can't become a candidate.
            SnapshotMissingError: the parent is not there.
        """
        parent = self.tree(valid_commit(edit.parent_commit))
        changes = check_edit(edit, parent)
        blobs = {change.blob: content_digest(change.content) for change in changes}
        entries = {entry.path: entry for entry in self._entries(parent)}
        for change in changes:
            entries[change.path] = Entry(change.path, change.mode, blobs[change.blob])
        digest = tree_digest(entries.values())
        edit.refuse_known(digest)
        date = self._date(edit.parent_commit) + 1
        commit = self._import(self._candidate(edit, changes, date))
        self._digests.add(blobs)
        stat = self._diffstat(edit.parent_commit, commit)
        return Stored(
            commit=commit,
            tree_digest=digest,
            lines_added=stat.added,
            lines_removed=stat.removed,
            places=stat.places,
        )

    def tree(self, commit: str) -> StoredTree:
        """The files of a commit's tree. Raises SnapshotMissingError."""
        where = f"{valid_commit(commit)}:{self.prefix.rstrip('/')}"
        try:
            entries = parse_tree(self._git.run("ls-tree", "-r", "-z", "-l", where))
            links = sorted({entry.blob for entry in entries if entry.mode == LINK})
            targets = {
                blob: content.decode(errors="surrogateescape")
                for blob, content in self._git.blobs(links)
            }
        except GitFailedError as error:
            raise SnapshotMissingError(f"commit {commit}: {error}") from error
        return build_tree(entries, targets)

    def entries(self, commit: str) -> tuple[Entry, ...]:
        """Names, modes and content digests of a commit's tree. Raises SnapshotMissingError."""
        return self._entries(self.tree(commit))

    def digest(self, commit: str) -> str:
        """The content digest of a commit's tree. Raises SnapshotMissingError."""
        return self.digest_of(self.tree(commit))

    def digest_of(self, tree: StoredTree) -> str:
        """The content digest of a tree of this store. Raises SnapshotMissingError."""
        return tree_digest(self._entries(tree))

    def read_files(self, commit: str, paths: Iterable[str]) -> dict[str, str]:
        """The text of some files of a commit; those that it doesn't have are left out.

        Raises:
            UsageError: one is not UTF-8 text.
            SnapshotMissingError: the commit or a file's content is not there.
        """
        wanted = set(paths)
        files = [file for file in self.tree(commit).files if file.path in wanted]
        contents = dict(self._git.blobs(sorted({file.blob for file in files})))
        texts = {}
        for file in files:
            try:
                texts[file.path] = contents[file.blob].decode()
            except UnicodeDecodeError as error:
                raise UsageError(f"{file.path} is not UTF-8 text (byte {error.start})") from error
        return texts

    def diff(self, before: str, after: str) -> str:
        """The unified diff from one commit to another. Raises SnapshotMissingError."""
        try:
            output = self._git.run(
                *("diff-tree", "-r", "-p", "--text", "--no-renames", "--no-color"),
                *("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
                *(valid_commit(before), valid_commit(after), "--"),
            )
        except GitFailedError as error:
            raise SnapshotMissingError(str(error)) from error
        return output.decode(errors="replace")

    def pin(self, experiment: int, commit: str) -> None:
        """Keep *commit* for good as this experiment's. Raises SnapshotMissingError."""
        ref = f"refs/experiments/{experiment:d}"
        try:
            self._git.run("update-ref", "--no-deref", ref, valid_commit(commit))
        except GitFailedError as error:
            raise SnapshotMissingError(f"commit {commit}: {error}") from error

    def has(self, commits: Iterable[str]) -> set[str]:
        """Those of *commits* that lie here."""
        asked = "".join(f"{valid_commit(commit)}\n" for commit in commits).encode()
        found = self._git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked)
        pairs = (line.split() for line in found.decode().splitlines())
        return {name for name, kind in pairs if kind == "commit"}

    def _make(self, prefix: str) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=self.root, prefix=".objects-"))
        try:
            Git(git_dir=new).run("init", "-q", "--bare", "--template=")
            (new / "overnight-prefix").write_text(prefix)
            new.chmod(0o755)
            if self.git_dir.exists():
                raise UsageError(f"{self.git_dir} is no repository of ours: move it away")
            new.rename(self.git_dir)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _import(self, stream: Iterator[bytes]) -> str:
        output = self._git.feed(("fast-import", "--quiet", "--done", "--force"), stream)
        return valid_commit(output.decode().strip())

    def _candidate(
        self, edit: CandidateEdit, changes: tuple[Change, ...], date: int
    ) -> Iterator[bytes]:
        ref = f"refs/experiments/{edit.id:d}"
        yield _commit_head(ref, date, commit_message(edit.hypothesis), edit.parent_commit)
        for change in changes:
            yield from _modify(change.mode, f"{self.prefix}{change.path}", change.content)
        yield b"get-mark :1\ndone\n"

    def _entries(self, tree: StoredTree) -> tuple[Entry, ...]:
        known = dict(self._digests.known())
        unknown = sorted({file.blob for file in tree.files} - known.keys())
        if unknown:
            fresh = {blob: content_digest(content) for blob, content in self._git.blobs(unknown)}
            known |= fresh
        return tuple(Entry(file.path, file.mode, known[file.blob]) for file in tree.files)

    def remember(self, commit: str) -> str:
        """The content digest of a commit, its files' digests kept. Only for the one writer."""
        tree = self.tree(commit)
        entries = self._entries(tree)
        pairs = zip(tree.files, entries, strict=True)
        self._digests.add({file.blob: entry.sha256 for file, entry in pairs})
        return tree_digest(entries)

    def parent(self, commit: str) -> str | None:
        """The commit that a candidate edits; None for the base. Raises SnapshotMissingError."""
        if commit in self._cut_off():
            return None  # the base is the user's own commit, whose parents are not here
        first = self._header(commit, b"parent ")
        return None if first is None else valid_commit(first.decode())

    def _cut_off(self) -> tuple[str, ...]:
        try:
            return tuple((self.git_dir / "shallow").read_text().split())
        except FileNotFoundError:
            return ()

    def _header(self, commit: str, name: bytes) -> bytes | None:
        try:
            text = self._git.run("cat-file", "commit", valid_commit(commit))
        except GitFailedError as error:
            raise SnapshotMissingError(f"commit {commit}: {error}") from error
        lines = text.partition(b"\n\n")[0].split(b"\n")
        return next((line.removeprefix(name) for line in lines if line.startswith(name)), None)

    def _date(self, commit: str) -> int:
        committer = self._header(commit, b"committer ")
        if committer is None:
            raise SnapshotMissingError(f"commit {commit} has no committer")
        return int(committer.rsplit(b" ", 2)[1])

    def _diffstat(self, before: str, after: str) -> DiffStat:
        # Not --numstat: it counts nothing in a file that was binary before.
        output = self._git.run(
            *("diff-tree", "-r", "-p", "-U0", "--text", "--no-renames", "--no-ext-diff"),
            *("--no-textconv", before, after, "--"),
        )
        return diffstat(output)


def _commit_head(ref: str, date: int, message: str, parent: str | None) -> bytes:
    text = f"{message}\n".encode()
    who = f"{AUTHOR_NAME} <{AUTHOR_EMAIL}> {date} +0000"
    head = f"commit {ref}\nmark :1\nauthor {who}\ncommitter {who}\ndata {len(text)}\n"
    origin = f"from {parent}\n" if parent else ""
    return head.encode() + text + b"\n" + origin.encode()


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _delete(path: str) -> bytes:
    return f"D {_quoted(path)}\n".encode()


def _modify(mode: str, path: str, content: bytes) -> tuple[bytes, ...]:
    return (f"M {mode} inline {_quoted(path)}\ndata {len(content)}\n".encode(), content, b"\n")


def _drop_locks(git_dir: Path) -> None:
    """Locks that a killed writer left: there is one writer, and it is starting now."""
    for folder, _, names in os.walk(git_dir / "refs"):
        for name in names:
            if name.endswith(".lock"):
                Path(folder, name).unlink()
    for name in ("packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock"):
        (git_dir / name).unlink(missing_ok=True)


__all__ = ["CandidateEdit", "SnapshotStore", "Stored"]
