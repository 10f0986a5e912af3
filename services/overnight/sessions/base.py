"""The tree that a new session begins with: the folder as it lies, HEAD, or another's best."""

from __future__ import annotations

from dataclasses import dataclass, replace

from overnight.configuration import ResolvedLoop
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import Origin
from overnight.ledger.files import SessionFiles
from overnight.sessions.origin import Source
from overnight.snapshots import branches
from overnight.snapshots.homecoming import commit_named
from overnight.snapshots.manifest import Entry, tree_digest
from overnight.snapshots.store import SnapshotStore, Stored
from overnight.snapshots.tree import check_editable, scan


@dataclass(frozen=True, kw_only=True)
class Base:
    """What `session_opened` says of it."""

    commit: str
    digest: str
    frozen_digest: str
    head: str | None
    branch: str | None = None
    branch_prefix: str | None = None
    origin: Origin | None = None
    notes: tuple[str, ...] = ()


def base_of(resolved: ResolvedLoop, files: SessionFiles, tag: str, source: Source | None) -> Base:
    """Store the tree of a session that is being opened.

    Raises:
        UsageError: the repository or the bindings are not right for it; names the fix.
        SnapshotError: it can't be stored, or the source's objects are not all there.
    """
    by_branches = resolved.config.iter_strategy == "branches"
    if source is None:
        return _head(resolved, files, tag) if by_branches else _folder(resolved, files)
    store = SnapshotStore(files.root)
    if by_branches:
        base = _copied_onto_a_commit(resolved, store, tag, source)
    else:
        store.create()
        stored = store.write_copy(source.store, source.commit, source.message)
        base = _based(resolved, store, stored, source.base_head)
    check_editable(store.tree(base.commit), resolved.config.editable_files)
    return replace(base, origin=source.origin, notes=(*source.notes(resolved), *base.notes))


def _folder(resolved: ResolvedLoop, files: SessionFiles) -> Base:
    store = SnapshotStore(files.root)
    listing = scan(resolved.repo, files.root)
    check_editable(listing, resolved.config.editable_files)
    store.create()
    base = _based(resolved, store, store.write_base(listing), listing.head)
    left_out = tuple(f"{item.path} is left out: {item.why}" for item in listing.left_out[:5])
    return replace(base, notes=left_out)


def _head(resolved: ResolvedLoop, files: SessionFiles, tag: str) -> Base:
    config, store = resolved.config, SnapshotStore(files.root)
    found = branches.require(resolved.repo)
    names = branches.plan_names(found, tag)
    head = branches.adopt_head(found, store, config.editable_files, _listed_frozen(config))
    base = _based(resolved, store, head.stored, head.stored.commit)
    return _named(base, names)


def _copied_onto_a_commit(
    resolved: ResolvedLoop, store: SnapshotStore, tag: str, source: Source
) -> Base:
    """On the user's commit that the source began with, so that its changes are seen as such; where
    that one is gone, on HEAD."""
    found = branches.require(resolved.repo)
    names = branches.plan_names(found, tag)
    began = source.base_head
    start = commit_named(found, began) if began is not None else None
    if start is None:
        start = branches.head_of(found)
    branches.bring_commit(found, store, start)
    stored = store.write_copy(source.store, source.commit, source.message, onto=start)
    return _named(_based(resolved, store, stored, start), names)


def _named(base: Base, names: branches.BranchNames) -> Base:
    return replace(base, branch=names.session, branch_prefix=names.experiments, notes=names.notes)


def _based(resolved: ResolvedLoop, store: SnapshotStore, stored: Stored, head: str | None) -> Base:
    return Base(
        commit=stored.commit,
        digest=stored.tree_digest,
        frozen_digest=_frozen_digest(store.entries(stored.commit), resolved.config),
        head=head,
    )


def _listed_frozen(config: LoopConfig) -> tuple[str, ...] | None:
    return None if isinstance(config.frozen_files, str) else config.frozen_files


def _frozen_digest(entries: tuple[Entry, ...], config: LoopConfig) -> str:
    editable = set(config.editable_files)
    return tree_digest(entry for entry in entries if entry.path not in editable)
