"""Another session's tree as a base: the same content, standing on what it should stand on."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_repositories import run_git, write

from overnight.snapshots import branches
from overnight.snapshots.edits import CandidateEdit
from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import SnapshotStore, Stored
from overnight.snapshots.tree import scan


def _store(repo: Path, name: str) -> SnapshotStore:
    prepare_root(repo / name, repo)
    return SnapshotStore(repo / name)


def _folder(repo: Path, name: str) -> tuple[SnapshotStore, Stored]:
    store = _store(repo, name)
    store.create()
    return store, store.write_base(scan(repo, store.root))


def _candidate(store: SnapshotStore, parent: str, text: str = "LR = 2\n") -> Stored:
    edit = CandidateEdit(
        id=2, parent_commit=parent, changes={"train.py": text}, editable=("train.py",),
        hypothesis="Try 2",
    )  # fmt: skip
    return store.write_candidate(edit)


def test_a_copy_is_the_same_tree_without_the_other_session(repo: Path) -> None:
    write(repo, {"name with blank ä.txt": "x", "again.txt": "x"})
    first, base = _folder(repo, "sandbox")
    best = _candidate(first, base.commit)
    second = _store(repo, "sandbox-next")
    second.create()

    copy = second.write_copy(first, best.commit, "base: experiment 2 of first")

    assert copy.tree_digest == best.tree_digest
    assert second.entries(copy.commit) == first.entries(best.commit)
    assert second.write_copy(first, best.commit, "base: experiment 2 of first") == copy
    assert second.parent(copy.commit) is None
    first.git_dir.rename(repo / "gone")
    assert second.read_files(copy.commit, ["train.py"]) == {"train.py": "LR = 2\n"}
    assert _candidate(second, copy.commit, "LR = 3\n").tree_digest != copy.tree_digest


def test_a_copy_that_lacks_an_object_is_told(repo: Path) -> None:
    first, _ = _folder(repo, "sandbox")
    second = _store(repo, "sandbox-next")
    second.create()

    with pytest.raises(SnapshotMissingError):
        second.write_copy(first, "d" * 40, "base")


@pytest.mark.parametrize("part", ["", "part"])
def test_on_a_users_commit_only_what_differs_changes(repo: Path, part: str) -> None:
    """Links, other folders and modes of the user's commit stay as they are."""
    folder = repo / part
    if part:
        write(repo, {f"{part}/train.py": "LR = 1\n", f"{part}/old.txt": "old"})
    write(repo, {"old.txt": "old"})
    (folder / "link.txt").symlink_to("old.txt")
    write(folder, {"same.txt": "same"})
    (folder / "kept.txt").symlink_to("same.txt")
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-q", "-m", "second")
    head = run_git(repo, "rev-parse", "HEAD").strip()
    (folder / "old.txt").unlink()
    (folder / "link.txt").unlink()
    write(folder, {"new.txt": "new"})
    first, base = _folder(folder, "sandbox")
    best = _candidate(first, base.commit)
    found = branches.require(folder)
    second = _store(folder, "sandbox-next")
    branches.bring_commit(found, second, head)

    copy = second.write_copy(first, best.commit, "base", onto=head)
    branches.sync(found, second, {"autoresearch/next": copy.commit})

    assert copy.tree_digest == best.tree_digest == second.digest(copy.commit)
    assert run_git(repo, "rev-parse", "autoresearch/next^").strip() == head
    changed = run_git(repo, "diff", "--name-status", head, "autoresearch/next").split("\n")
    prefix = f"{part}/" if part else ""
    assert sorted(filter(None, changed)) == sorted(
        [f"D\t{prefix}link.txt", f"D\t{prefix}old.txt", f"A\t{prefix}new.txt",
         f"M\t{prefix}train.py"]
    )  # fmt: skip
    assert run_git(repo, "rev-parse", "HEAD").strip() == head
