"""Branches appear in the user's repository, and nothing else there changes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Event, Thread

import pytest
from user_repositories import TRAIN, fingerprint, foreign, run_git, write

from overnight.contracts.errors import UsageError
from overnight.snapshots import branches
from overnight.snapshots.branches import HeadBase
from overnight.snapshots.edits import CandidateEdit
from overnight.snapshots.export import BaseCache, export
from overnight.snapshots.manifest import verify_frozen
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import SnapshotStore, Stored
from overnight.snapshots.tree import check_editable, scan


def _adopt(repo: Path) -> tuple[SnapshotStore, HeadBase]:
    prepare_root(repo / "sandbox", repo)
    store = SnapshotStore(repo / "sandbox")
    return store, branches.adopt_head(branches.require(repo), store, ["train.py"], None)


def _candidate(store: SnapshotStore, parent: Stored, number: int = 2) -> Stored:
    return store.write_candidate(
        CandidateEdit(
            id=number,
            parent_commit=parent.commit,
            changes={"train.py": f"LR = {number}\n"},
            editable=("train.py",),
            hypothesis=f"Try {number}",
        )
    )


def _whole_session(repo: Path) -> tuple[Stored, Stored]:
    """All that this room does with `branches`, twice where it may be redone."""
    found = branches.require(repo)
    names = branches.plan_names(found, "mar5")
    store, base = _adopt(repo)
    branches.sync(found, store, {names.session: base.stored.commit})
    first = _candidate(store, base.stored)
    second = _candidate(store, first, 3)
    expected = {
        names.session: first.commit,
        names.experiment(2, "Try 2"): first.commit,
        names.experiment(3, "Try 3"): second.commit,
    }
    for _ in range(2):
        assert branches.sync(found, store, expected).left_alone == ()
    cache = BaseCache(repo / "sandbox" / "cache")
    cache.export(store, second.commit, second.tree_digest, repo / "sandbox" / "out")
    return first, second


def test_a_session_with_branches_leaves_a_nasty_repository_untouched(nasty_repo: Path) -> None:
    before = fingerprint(nasty_repo, without=foreign)

    first, second = _whole_session(nasty_repo)

    assert fingerprint(nasty_repo, without=foreign) == before
    assert run_git(nasty_repo, "rev-parse", "autoresearch/mar5").strip() == first.commit
    assert run_git(nasty_repo, "rev-parse", "exp/mar5/3-try-3").strip() == second.commit
    assert not (nasty_repo / ".git" / "logs" / "refs" / "heads" / "autoresearch").exists()


def test_a_session_with_snapshots_leaves_a_dirty_nasty_repository_untouched(
    nasty_repo: Path, tmp_path: Path
) -> None:
    write(nasty_repo, {"train.py": "LR = 9\n", "prepare.py": "frozen = 9\n"})
    sandbox = nasty_repo / "sandbox"
    before = fingerprint(nasty_repo, without=foreign)

    prepare_root(sandbox, nasty_repo)
    listing = scan(nasty_repo, sandbox)
    check_editable(listing, ["train.py"])
    store = SnapshotStore(sandbox)
    store.create()
    base = store.write_base(listing)
    made = _candidate(store, base)
    export(store, made.commit, made.tree_digest, tmp_path / "out")

    assert fingerprint(nasty_repo, without=foreign) == before
    assert not (nasty_repo / ".git" / "refs" / "heads" / "autoresearch").exists()
    assert (tmp_path / "out" / "prepare.py").read_text() == "frozen = 9\n"
    with pytest.raises(UsageError, match="differs from HEAD"):
        _adopt(nasty_repo)


def test_the_commits_stand_on_the_users_own_history(repo: Path) -> None:
    head = run_git(repo, "rev-parse", "HEAD").strip()

    first, second = _whole_session(repo)

    assert run_git(repo, "rev-list", "main..exp/mar5/3-try-3").split() == [
        second.commit,
        first.commit,
    ]
    assert run_git(repo, "merge-base", "main", "autoresearch/mar5").strip() == head
    run_git(repo, "merge", "-q", "--ff-only", "exp/mar5/3-try-3")
    assert (repo / "train.py").read_text() == "LR = 3\n"
    run_git(repo, "fsck", "--strict", "--no-dangling")


def test_long_history_stays_behind_and_the_objects_are_whole(repo: Path) -> None:
    for number in range(3):
        write(repo, {"prepare.py": f"frozen = {number}\n"})
        run_git(repo, "commit", "-q", "-am", f"{number}")

    first, _ = _whole_session(repo)

    store = SnapshotStore(repo / "sandbox")
    assert store.digest(first.commit) == first.tree_digest
    assert store.parent(first.commit) == run_git(repo, "rev-parse", "HEAD").strip()
    run_git(store.git_dir, "gc", "-q", "--prune=now")
    run_git(store.git_dir, "fsck", "--strict", "--no-dangling")
    assert store.digest(first.commit) == first.tree_digest


def test_a_part_of_a_repository_gets_branches_of_the_whole(repo: Path, tmp_path: Path) -> None:
    write(repo, {"part/train.py": TRAIN, "part/lib/a.py": "a", "part/link.py": "x"})
    (repo / "part" / "link.py").unlink()
    (repo / "part" / "link.py").symlink_to("lib/a.py")
    run_git(repo, "add", "part")
    run_git(repo, "commit", "-q", "-m", "part")
    write(repo, {"prepare.py": "changed outside the part\n"})

    _, second = _whole_session(repo / "part")
    store = SnapshotStore(repo / "part" / "sandbox")
    export(store, second.commit, second.tree_digest, tmp_path / "out")

    names = run_git(repo, "diff", "--name-only", "main", "exp/mar5/3-try-3").split()
    assert names == ["part/train.py"]
    assert sorted(os.listdir(tmp_path / "out")) == ["lib", "link.py", "train.py"]
    assert (tmp_path / "out" / "link.py").read_text() == "a"
    assert not (tmp_path / "out" / "link.py").is_symlink()
    assert verify_frozen(tmp_path / "out", second.tree_digest)


def test_a_linked_work_tree_works_like_any_other(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    run_git(repo, "worktree", "add", "-q", "-b", "side", str(linked))
    write(linked, {"train.py": "LR = 7\n"})
    run_git(linked, "commit", "-q", "-am", "side")
    before = fingerprint(repo, without=foreign)

    _, second = _whole_session(linked)

    assert fingerprint(repo, without=foreign) == before
    assert run_git(repo, "rev-parse", "exp/mar5/3-try-3").strip() == second.commit


def test_refs_are_repaired_from_what_is_expected(repo: Path) -> None:
    _, second = _whole_session(repo)
    found = branches.require(repo)
    store = SnapshotStore(repo / "sandbox")
    run_git(repo, "branch", "-D", "exp/mar5/3-try-3")
    run_git(repo, "branch", "-f", "autoresearch/mar5", "main")
    run_git(repo, "gc", "-q", "--prune=now")
    expected = {"exp/mar5/3-try-3": second.commit, "autoresearch/mar5": second.commit}

    synced = branches.sync(found, store, expected)

    assert synced.moved == ("autoresearch/mar5", "exp/mar5/3-try-3")
    assert branches.sync(found, store, expected) == branches.Synced(moved=(), left_alone=())
    run_git(repo, "fsck", "--strict", "--no-dangling")


def test_a_branch_that_the_user_has_moved_or_stands_on_is_left_alone(repo: Path) -> None:
    first, second = _whole_session(repo)
    found = branches.require(repo)
    store = SnapshotStore(repo / "sandbox")
    run_git(repo, "checkout", "-q", "autoresearch/mar5")
    run_git(repo, "branch", "-f", "exp/mar5/3-try-3", "main")
    other = run_git(repo, "commit-tree", "-p", "main", "-m", "mine", "main^{tree}").strip()
    run_git(repo, "update-ref", "refs/heads/exp/mar5/2-try-2", other)
    expected = {
        "autoresearch/mar5": second.commit,
        "exp/mar5/2-try-2": first.commit,
        "exp/mar5/3-try-3": second.commit,
    }

    synced = branches.sync(found, store, expected)

    assert synced.moved == ("exp/mar5/3-try-3",)
    assert [(item.path, item.why) for item in synced.left_alone] == [
        ("autoresearch/mar5", f"checked out in {repo}"),
        ("exp/mar5/2-try-2", "moved by somebody else"),
    ]
    assert run_git(repo, "status", "--porcelain") == ""
    run_git(repo, "checkout", "-q", "main")
    assert branches.sync(found, store, expected).moved == ("autoresearch/mar5",)


def test_one_branch_in_the_way_does_not_hold_up_the_others(repo: Path) -> None:
    _, second = _whole_session(repo)
    run_git(repo, "branch", "exp/mar5/4-x/in-the-way")
    expected = {"exp/mar5/4-x": second.commit, "exp/mar5/5-y": second.commit}

    synced = branches.sync(branches.require(repo), SnapshotStore(repo / "sandbox"), expected)

    assert synced.moved == ("exp/mar5/5-y",)
    assert [item.path for item in synced.left_alone] == ["exp/mar5/4-x"]


def test_a_lock_of_a_killed_process_heals_and_one_that_moves_is_respected(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the clocks say of their age."""
    monkeypatch.setattr(branches, "_LOCK_SECONDS", 0.5)
    _, second = _whole_session(repo)
    locks = [repo / ".git/refs/heads/exp/mar5" / name for name in ("6-a.lock", "7-b.lock")]
    for lock in locks:
        lock.write_bytes(b"")
    for lock, age_seconds in zip(locks, (-3600, 3600), strict=True):
        then = time.time() - age_seconds
        os.utime(lock, (then, then))
    expected = {"exp/mar5/6-a": second.commit, "exp/mar5/7-b": second.commit}
    over = Event()

    def somebody_else_works() -> None:
        while not over.wait(0.02):
            locks[1].touch()

    somebody = Thread(target=somebody_else_works)
    somebody.start()

    synced = branches.sync(branches.require(repo), SnapshotStore(repo / "sandbox"), expected)
    over.set()
    somebody.join()

    assert synced.moved == ("exp/mar5/6-a",)
    assert [item.path for item in synced.left_alone] == ["exp/mar5/7-b"]


def test_a_foreign_branch_with_the_tags_name_is_refused(repo: Path) -> None:
    run_git(repo, "branch", "autoresearch/mar5")

    with pytest.raises(UsageError, match="autoresearch/mar5 exists"):
        branches.plan_names(branches.require(repo), "mar5")
    assert branches.plan_names(branches.require(repo), "mar6").session == "autoresearch/mar6"


@pytest.mark.parametrize(
    ("taken", "session", "experiments"),
    [
        ("side", "autoresearch/mar5", "exp/mar5/"),
        ("exp", "autoresearch/mar5", "experiments/mar5/"),
        ("exp/mar5", "autoresearch/mar5", "experiments/mar5/"),
        ("exp/mar5/1-x", "autoresearch/mar5", "experiments/mar5/"),
        ("exp/mar6", "autoresearch/mar5", "exp/mar5/"),
        ("autoresearch", "autoresearch-sessions/mar5", "exp/mar5/"),
    ],
)
def test_a_branch_in_the_way_gives_another_prefix_and_says_so(
    repo: Path, taken: str, session: str, experiments: str
) -> None:
    run_git(repo, "branch", taken)

    names = branches.plan_names(branches.require(repo), "mar5")

    assert (names.session, names.experiments) == (session, experiments)
    usual = (session, experiments) == ("autoresearch/mar5", "exp/mar5/")
    assert len(names.notes) == (0 if usual else 1)


@pytest.mark.parametrize("change", ["editable", "frozen", "mode", "deleted"])
def test_a_tracked_file_that_differs_from_head_is_refused(repo: Path, change: str) -> None:
    if change == "mode":
        (repo / "run.sh").chmod(0o644)
    elif change == "deleted":
        (repo / "prepare.py").unlink()
    else:
        write(repo, {"prepare.py" if change == "frozen" else "train.py": "changed\n"})

    with pytest.raises(UsageError, match="differs from HEAD"):
        _adopt(repo)


def test_what_is_only_staged_is_no_difference(repo: Path) -> None:
    """The file as it lies is HEAD's, and HEAD's is what candidates get."""
    write(repo, {"train.py": "changed\n"})
    run_git(repo, "add", "train.py")
    write(repo, {"train.py": TRAIN})

    assert _adopt(repo)[1].stored.commit == run_git(repo, "rev-parse", "HEAD").strip()


def test_a_repository_of_another_owner_with_replaced_objects_works(repo: Path) -> None:
    write(repo, {"other": "replaced"})
    blob = run_git(repo, "hash-object", "-w", "other").strip()
    run_git(repo, "replace", run_git(repo, "rev-parse", "HEAD:train.py").strip(), blob)
    for here, folders, files in os.walk(repo):
        for name in ("", *folders, *files):
            os.chown(os.path.join(here, name), 1000, 1000, follow_symlinks=False)

    store, base = _adopt(repo)

    assert store.read_files(base.stored.commit, ["train.py"]) == {"train.py": TRAIN}


def test_only_what_is_named_counts_when_the_frozen_files_are_named(repo: Path) -> None:
    write(repo, {"run.sh": "changed\n"})
    found = branches.require(repo)

    branches.refuse_dirty(found, ["train.py"], ["prepare.py"])
    with pytest.raises(UsageError, match=r"run\.sh differs"):
        branches.refuse_dirty(found, ["train.py"], ["run.sh"])


def test_untracked_files_and_touched_time_stamps_are_fine(repo: Path) -> None:
    write(repo, {"notes.md": "x", "loop.run.yaml": "x"})
    os.utime(repo / "train.py", (1, 1))

    store, base = _adopt(repo)

    assert "notes.md" not in [file.path for file in store.tree(base.stored.commit).files]


def test_line_ends_that_git_converts_are_no_difference(repo: Path) -> None:
    write(repo, {".gitattributes": "*.txt text eol=crlf\n", "a.txt": "a\nb\n"})
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-q", "-m", "text")
    (repo / "a.txt").unlink()
    run_git(repo, "checkout", "-q", "a.txt")
    os.utime(repo / "a.txt", (1, 1))
    assert (repo / "a.txt").read_bytes() == b"a\r\nb\r\n"

    store, base = _adopt(repo)

    assert store.read_files(base.stored.commit, ["a.txt"]) == {"a.txt": "a\nb\n"}


def test_without_a_repository_or_a_commit_the_fix_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="git init"):
        branches.require(tmp_path / "plain")
    run_git(tmp_path / "plain", "init", "-q")
    with pytest.raises(UsageError, match="git commit"):
        _adopt(tmp_path / "plain")


@pytest.mark.parametrize(
    ("link", "target", "words"),
    [
        ("train.py", "prepare.py", "train.py is a link"),
        ("alias.py", "train.py", "alias.py is a link to the editable"),
        ("out", "/etc/passwd", "out is a link that leads out"),
    ],
)
def test_a_link_that_can_not_be_in_a_tree_is_refused(
    repo: Path, link: str, target: str, words: str
) -> None:
    (repo / link).unlink(missing_ok=True)
    (repo / link).symlink_to(target)
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-q", "-m", "link")

    with pytest.raises(UsageError, match=words):
        _adopt(repo)


def test_a_sha256_repository_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    run_git(tmp_path / "new", "init", "-q", "--object-format=sha256")

    with pytest.raises(UsageError, match="snapshots"):
        branches.require(tmp_path / "new")
