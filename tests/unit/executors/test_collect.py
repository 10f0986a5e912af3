"""Where collected files go: never through a link, and to whom the folder belongs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overnight.executors.collect import Target, collect


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "x").write_text("x")
    (folder / "top").write_text("top")
    return folder


def test_folders_are_made_as_they_are_needed(out: Path, tmp_path: Path) -> None:
    taken = collect(out, tmp_path / "into", 1000)

    assert sorted(item.path for item in taken) == ["a/b/x", "top"]
    assert (tmp_path / "into" / "a" / "b" / "x").read_text() == "x"


@pytest.mark.parametrize("swapped", ["a", "a/b"])
def test_a_link_that_stands_where_a_folder_should_is_not_followed(
    out: Path, tmp_path: Path, swapped: str
) -> None:
    """The owner of the target may be another user, who waits for root to write through it."""
    into, elsewhere = tmp_path / "into", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (into / swapped).parent.mkdir(parents=True)
    (into / swapped).symlink_to(elsewhere)

    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        collect(out, into, 1000)
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_is_there_is_not_written_over(out: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "top").symlink_to(tmp_path / "victim")

    with pytest.raises(FileExistsError):
        collect(out, into, 1000)
    assert not (tmp_path / "victim").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_is_made_belongs_to_whom_the_folder_belongs(out: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    os.chown(into, 1234, 1235)
    collect(out, into, 1000)

    for path in (into / "a", into / "a" / "b", into / "a" / "b" / "x", into / "top"):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write there")
@pytest.mark.parametrize("swapped", ["a", "a/b"])
def test_nothing_is_written_into_another_users_folder_below(
    out: Path, tmp_path: Path, swapped: str
) -> None:
    into = tmp_path / "into"
    (into / swapped).mkdir(parents=True)
    for folder in (into, into / "a"):
        os.chown(folder, 1234, 1234)
    os.chown(into / swapped, 0, 0)

    with pytest.raises(PermissionError, match="another user's"):
        collect(out, into, 1000)
    assert list((into / swapped).iterdir()) == []


def test_a_closed_target_holds_nothing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    target = Target(tmp_path)
    os.close(target.create("a/b/c"))
    target.close()

    assert len(os.listdir("/proc/self/fd")) == before
