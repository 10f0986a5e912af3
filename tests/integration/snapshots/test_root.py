"""The session's folder is made where it harms nobody, and refused in one line elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from user_repositories import run_git, write

from overnight.contracts.errors import (
    InfrastructureError,
    OvernightError,
    SnapshotError,
    UsageError,
)
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.tree import scan


@contextmanager
def _mounted(place: Path, *mounts: tuple[str, ...]) -> Iterator[None]:
    subprocess.run(["mount", *mounts[0], str(place)], check=True)
    try:
        for more in mounts[1:]:
            subprocess.run(["mount", *more, str(place)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _fill(place: Path) -> None:
    with open(place, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_the_folder_keeps_itself_out_of_commits(repo: Path) -> None:
    sandbox = repo / "deep" / "sandbox"
    prepare_root(sandbox, repo)
    prepare_root(sandbox, repo)
    (sandbox / "ledger.jsonl").write_text("{}\n")

    assert run_git(repo, "status", "--porcelain", "--untracked-files=all") == ""
    assert os.listdir(repo / "deep") == ["sandbox"]
    assert sorted(os.listdir(sandbox)) == [".gitignore", "ledger.jsonl"]


@pytest.mark.parametrize(
    "place", [".", "..", "../..", ".git/x", "train.py", "train.py/x", "link", "lib"]
)
def test_a_place_that_can_not_be_ours_is_refused_and_left_as_it_was(repo: Path, place: str) -> None:
    (repo.parent / "elsewhere").mkdir()
    (repo / "link").symlink_to(repo.parent / "elsewhere")
    write(repo, {"lib/code.py": "theirs"})

    with pytest.raises(UsageError) as caught:
        prepare_root(repo / place, repo)
    assert len(str(caught.value).splitlines()) == 1
    assert os.listdir(repo / "lib") == ["code.py"]
    assert os.listdir(repo.parent / "elsewhere") == []


def test_a_read_only_mount_is_a_usage_error_with_nothing_written(repo: Path) -> None:
    with _mounted(repo, ("--bind", str(repo)), ("-o", "remount,bind,ro")):
        for place in (repo / "sandbox", repo / "a" / "b"):
            with pytest.raises(UsageError, match="can't be written"):
                prepare_root(place, repo)

    assert not (repo / "sandbox").exists()


def test_a_session_folder_that_became_read_only_is_found_out_at_the_start(repo: Path) -> None:
    prepare_root(repo / "sandbox", repo)

    with (
        _mounted(repo, ("--bind", str(repo)), ("-o", "remount,bind,ro")),
        pytest.raises(UsageError, match="can't be written"),
    ):
        prepare_root(repo / "sandbox", repo)


def test_a_full_disk_is_an_infrastructure_error_with_nothing_left(repo: Path) -> None:
    small = repo / "small"
    small.mkdir()
    with _mounted(small, ("-t", "tmpfs", "-o", "size=64k", "tmpfs")):
        _fill(small / "filler")
        with pytest.raises((InfrastructureError, UsageError)) as caught:
            prepare_root(small / "sandbox", repo)
        left = os.listdir(small)

    assert isinstance(caught.value, OvernightError)
    assert left == ["filler"]


def test_a_disk_that_fills_up_while_storing_is_a_snapshot_error(repo: Path) -> None:
    write(repo, {"data.txt": os.urandom(3 * 1024**2)})
    small = repo / "small"
    small.mkdir()
    with _mounted(small, ("-t", "tmpfs", "-o", "size=2m", "tmpfs")):
        prepare_root(small / "sandbox", repo)
        store = SnapshotStore(small / "sandbox")
        store.create()
        with pytest.raises(SnapshotError) as caught:
            store.write_base(scan(repo, small / "sandbox"))

    assert len(str(caught.value).splitlines()) == 1
