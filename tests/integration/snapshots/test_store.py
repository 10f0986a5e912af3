"""Trees and commits in objects.git, and their exact way back to the disk."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from user_repositories import TRAIN, run_git, write

from overnight.contracts.errors import EditRejectedError, SnapshotError, UsageError
from overnight.snapshots.edits import CandidateEdit
from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.export import BaseCache, export
from overnight.snapshots.manifest import folder_digest, verify_frozen
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import SnapshotStore, Stored
from overnight.snapshots.tree import scan


def _open(repo: Path, name: str = "sandbox") -> tuple[SnapshotStore, Stored]:
    prepare_root(repo / name, repo)
    store = SnapshotStore(repo / name)
    store.create()
    return store, store.write_base(scan(repo, repo / name))


def _edit(
    base: Stored, text: str = "LR = 0.2\nprint(1)\nprint(2)\n", number: int = 2
) -> CandidateEdit:
    return CandidateEdit(
        id=number,
        parent_commit=base.commit,
        changes={"train.py": text},
        editable=("train.py",),
        hypothesis="Twice the rate\nis better",
    )


def test_a_candidate_is_its_parents_tree_with_its_change(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)

    made = store.write_candidate(_edit(base))
    export(store, made.commit, made.tree_digest, tmp_path / "out")

    assert (made.lines_added, made.lines_removed) == (3, 2)
    assert made.tree_digest == store.digest(made.commit) != base.tree_digest
    assert (tmp_path / "out" / "train.py").read_text() == "LR = 0.2\nprint(1)\nprint(2)\n"
    assert (tmp_path / "out" / "prepare.py").read_text() == "frozen = 1\n"
    log = run_git(store.git_dir, "log", "--format=%an <%ae>|%s|%P|%ct", made.commit)
    assert log.splitlines() == [
        f"Overnight <overnight@localhost>|exp: Twice the rate is better|{base.commit}|946684801",
        "Overnight <overnight@localhost>|base||946684800",
    ]


def test_a_redo_gives_the_same_commits_in_any_store(repo: Path) -> None:
    store, base = _open(repo)
    first = store.write_candidate(_edit(base))
    again = store.write_candidate(_edit(base))
    os.utime(repo / "train.py", (1, 1))
    other, other_base = _open(repo, "sandbox-other")

    assert again == first
    assert other_base == base
    assert other.write_candidate(_edit(base)) == first


def test_a_killed_writer_leaves_no_pin_and_no_lock_in_the_way(repo: Path) -> None:
    store, base = _open(repo)
    lock = store.git_dir / "refs" / "experiments" / "2.lock"
    lock.write_bytes(b"")
    with pytest.raises(SnapshotError):
        store.write_candidate(_edit(base))

    store.create()

    assert store.write_candidate(_edit(base)).commit


def test_only_the_named_reasons_reject(repo: Path) -> None:
    store, base = _open(repo)
    with pytest.raises(EditRejectedError, match="no_change"):
        store.write_candidate(_edit(base, TRAIN))
    with pytest.raises(EditRejectedError, match="paths"):
        store.write_candidate(replace(_edit(base), changes={"prepare.py": "x"}))
    made = store.write_candidate(_edit(base))
    with pytest.raises(EditRejectedError, match="duplicate: the same tree as experiment 2"):
        store.write_candidate(replace(_edit(base), id=3, known={made.tree_digest: 2}))


def test_a_candidate_that_undoes_an_edit_has_the_old_digest_again(repo: Path) -> None:
    store, base = _open(repo)
    made = store.write_candidate(_edit(base))

    back = store.write_candidate(_edit(made, TRAIN, 3))

    assert back.tree_digest == base.tree_digest
    assert back.commit != base.commit


def test_pinned_commits_survive_a_collection_of_garbage(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)
    made = [store.write_candidate(_edit(base, f"LR = {n}\n", n)) for n in range(2, 6)]
    store.pin(9, made[0].commit)
    run_git(store.git_dir, "gc", "-q", "--prune=now", "--aggressive")

    for number, one in enumerate(made):
        export(store, one.commit, one.tree_digest, tmp_path / str(number))
    assert store.digest(base.commit) == base.tree_digest


def test_texts_come_back_with_their_line_ends(repo: Path) -> None:
    write(repo, {"crlf.py": b"\xef\xbb\xbfa\r\nb\n", "raw.bin": b"\xff\xfe"})
    store, base = _open(repo)

    assert store.read_files(base.commit, ["crlf.py", "absent.py"]) == {"crlf.py": "\ufeffa\r\nb\n"}
    with pytest.raises(UsageError, match=r"raw\.bin is not UTF-8"):
        store.read_files(base.commit, ["raw.bin"])


def test_a_diff_is_unified_and_only_takes_commit_ids(repo: Path) -> None:
    store, base = _open(repo)
    made = store.write_candidate(_edit(base, "LR = 0.2\nprint('val_bpb: 2.0')\n"))

    text = store.diff(base.commit, made.commit)

    assert "--- a/train.py\n+++ b/train.py\n" in text
    assert "-LR = 0.1\n+LR = 0.2\n" in text
    for bad in ("HEAD", "--output=x", made.commit[:7], f"{made.commit}\n", "refs/experiments/2"):
        with pytest.raises(SnapshotMissingError):
            store.diff(base.commit, bad)
        with pytest.raises(SnapshotMissingError):
            store.tree(bad)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    store = SnapshotStore(tmp_path / "sandbox")
    store.create()

    with pytest.raises(UsageError, match="holds no file"):
        store.write_base(scan(tmp_path / "empty", tmp_path / "empty" / "sandbox"))


def test_attributes_filters_and_line_ends_change_nothing(nasty_repo: Path, tmp_path: Path) -> None:
    store, base = _open(nasty_repo)

    export(store, base.commit, base.tree_digest, tmp_path / "out")

    for name in ("ident.py", "train.py", "notes ä.md", "notes a\u0308.md"):
        assert (tmp_path / "out" / name).read_bytes() == (nasty_repo / name).read_bytes()


def test_a_planted_hook_and_attributes_in_the_store_do_nothing(
    repo: Path, tmp_path: Path, marker: Path
) -> None:
    store, base = _open(repo)
    write(store.git_dir, {"hooks/reference-transaction": f"#!/bin/sh\necho x > {marker}\n"})
    write(store.git_dir, {"info/attributes": "* export-ignore -diff text eol=crlf ident\n"})
    (store.git_dir / "hooks" / "reference-transaction").chmod(0o755)

    made = store.write_candidate(_edit(base))
    export(store, made.commit, made.tree_digest, tmp_path / "out")

    assert made.lines_added == 3
    assert "+LR = 0.2" in store.diff(base.commit, made.commit)


def test_an_export_has_two_modes_whatever_the_umask(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)
    old = os.umask(0o077)
    try:
        export(store, base.commit, base.tree_digest, tmp_path / "out")
    finally:
        os.umask(old)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {"run.sh": 0o755, "train.py": 0o644, "prepare.py": 0o644, ".gitignore": 0o644}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_another_digest_than_expected_leaves_nothing(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)
    (tmp_path / "cell").mkdir()

    with pytest.raises(SnapshotMissingError, match="snapshot_missing"):
        export(store, base.commit, "0" * 64, tmp_path / "cell" / "out")
    with pytest.raises(SnapshotMissingError):
        export(store, "1" * 40, base.tree_digest, tmp_path / "cell" / "out")
    assert os.listdir(tmp_path / "cell") == []


@pytest.mark.parametrize("damage", ["missing", "corrupt", "emptied"])
def test_a_damaged_object_is_never_exported(repo: Path, tmp_path: Path, damage: str) -> None:
    store, base = _open(repo)
    made = store.write_candidate(_edit(base))
    blob = next(f.blob for f in store.tree(made.commit).files if f.path == "train.py")
    place = store.git_dir / "objects" / blob[:2] / blob[2:]
    data = bytearray(place.read_bytes())
    place.chmod(0o644)
    if damage == "missing":
        place.unlink()
    elif damage == "emptied":
        place.write_bytes(b"")
    else:
        data[len(data) // 2] ^= 0xFF
        place.write_bytes(bytes(data))
    (tmp_path / "cell").mkdir()

    with pytest.raises(SnapshotMissingError):
        export(store, made.commit, made.tree_digest, tmp_path / "cell" / "out")
    assert os.listdir(tmp_path / "cell") == []


def test_a_commit_of_another_store_is_missing(repo: Path) -> None:
    store, _ = _open(repo)

    with pytest.raises(SnapshotMissingError):
        store.pin(3, "1" * 40)
    assert store.has(["1" * 40]) == set()


def test_an_existing_folder_is_never_exported_over(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)
    (tmp_path / "out").mkdir()

    with pytest.raises(SnapshotError, match="exists already"):
        export(store, base.commit, base.tree_digest, tmp_path / "out")


def test_the_cache_shares_what_did_not_change_and_heals_itself(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)
    made = store.write_candidate(_edit(base))
    cache = BaseCache(tmp_path / "cache")
    cache.export(store, base.commit, base.tree_digest, tmp_path / "baseline")
    cache.export(store, made.commit, made.tree_digest, tmp_path / "one")
    kept = tmp_path / "cache" / base.tree_digest
    assert (kept / "prepare.py").stat().st_ino == (tmp_path / "one" / "prepare.py").stat().st_ino
    assert verify_frozen(tmp_path / "one", made.tree_digest)

    (kept / "prepare.py").write_text("frozen = 2\n")
    cache.export(store, made.commit, made.tree_digest, tmp_path / "two")

    assert not verify_frozen(tmp_path / "one", made.tree_digest)
    assert verify_frozen(tmp_path / "two", made.tree_digest)
    assert (tmp_path / "two" / "prepare.py").read_text() == "frozen = 1\n"


def test_a_lost_or_torn_digest_cache_costs_time_only(repo: Path) -> None:
    store, base = _open(repo)
    cache = store.git_dir / "overnight-sha256"
    cache.write_bytes(cache.read_bytes()[:150])

    again = SnapshotStore(store.root)
    made = again.write_candidate(_edit(base))
    lines = cache.read_text().splitlines()
    assert {len(line) for line in lines[-1:]} == {105}, "the torn line swallowed the next one"
    cache.unlink()

    assert SnapshotStore(store.root).digest(base.commit) == base.tree_digest
    assert SnapshotStore(store.root).digest(made.commit) == made.tree_digest


def test_the_store_works_where_the_folder_was_moved_to(repo: Path, tmp_path: Path) -> None:
    _, base = _open(repo)
    (repo / "sandbox").rename(tmp_path / "elsewhere")

    assert SnapshotStore(tmp_path / "elsewhere").digest(base.commit) == base.tree_digest


def test_a_reader_needs_no_write_permission(repo: Path, tmp_path: Path) -> None:
    store, base = _open(repo)
    mount = tmp_path / "read-only"
    mount.mkdir()
    subprocess.run(["mount", "--bind", str(store.root), str(mount)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(mount)], check=True)
        export(SnapshotStore(mount), base.commit, base.tree_digest, tmp_path / "out")
    finally:
        subprocess.run(["umount", str(mount)], check=True)

    assert verify_frozen(tmp_path / "out", base.tree_digest)


_PARTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="/"),
    min_size=1,
    max_size=12,
).filter(lambda part: part.lower() not in (".", "..", ".git") and part != "loop.run.yaml")
_TREES = st.dictionaries(
    st.lists(_PARTS.map(lambda part: part + "_"), min_size=1, max_size=3).map(tuple),
    st.tuples(st.binary(max_size=300), st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None, print_blob=True)
@given(tree=_TREES)
def test_any_tree_comes_back_exactly(
    tree: dict[tuple[str, ...], tuple[bytes, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("any")
    folder = home / "user"
    for parts, (content, executable) in tree.items():
        place = folder.joinpath(*(f"d{part}" for part in parts[:-1]), f"f{parts[-1]}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if executable else 0o600)
    note(str(sorted(tree)))
    store = SnapshotStore(home / "sandbox")
    store.create()

    base = store.write_base(scan(folder, home / "sandbox"))
    export(store, base.commit, base.tree_digest, home / "out")

    assert folder_digest(home / "out") == folder_digest(folder) == base.tree_digest
    assert store.digest(base.commit) == base.tree_digest
