"""Private copies are faithful, frozen entries mountable, and removal always succeeds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overnight.contracts.errors import SandboxUnavailableError
from overnight.executors.tree import Place, collapse, copy_tree, materialise, remove_tree


def test_a_copy_has_the_same_files_links_and_program_bits(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "a/b").mkdir(parents=True)
    target.mkdir()
    (source / "a/b/x").write_text("x")
    (source / "run").write_text("#!/bin/sh")
    (source / "run").chmod(0o700)
    (source / "secret").write_text("s")
    (source / "secret").chmod(0o600)
    (source / "link").symlink_to("/etc/passwd")

    assert sorted(copy_tree(source, target, None)) == ["a/b/x", "link", "run", "secret"]
    assert (target / "a/b/x").read_text() == "x"
    assert os.readlink(target / "link") == "/etc/passwd"
    assert [(target / n).stat().st_mode & 0o777 for n in ("run", "secret")] == [0o755, 0o644]


def test_a_pipe_in_a_snapshot_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to").mkdir()
    with pytest.raises(SandboxUnavailableError, match="pipe"):
        copy_tree(tmp_path, tmp_path / "to", None)


def test_a_tree_deeper_than_the_stack_is_removed(tmp_path: Path) -> None:
    here, top = os.getcwd(), tmp_path / "top"
    top.mkdir()
    os.chdir(top)
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    Path("end").touch()
    os.symlink(here, "link")
    os.chdir(here)
    (top / "closed").mkdir(mode=0)
    remove_tree(top)
    remove_tree(top)

    assert not top.exists()
    assert os.path.isdir(here)


def test_wholly_frozen_folders_stand_for_their_files_when_there_are_many() -> None:
    files = ["a/x", "a/b/y", "c/z", "c/train.py", "c/d/w", "top"]
    frozen = ["a/x", "a/b/y", "c/z", "c/d/w", "top"]

    assert collapse(frozen, files, limit=5) == frozen
    assert collapse(frozen, files, limit=4) == ["a", "c/d", "c/z", "top"]


def test_frozen_links_become_what_they_lead_to_if_that_may_be_seen(tmp_path: Path) -> None:
    work, data = tmp_path / "work", tmp_path / "data"
    for folder in (work, data):
        folder.mkdir()
    (work / "real").write_text("real")
    for name, target in (("in", "real"), ("read", str(data)), ("out", "/etc"), ("dead", "gone")):
        (work / name).symlink_to(target)

    assert materialise(work, ["in", "read", "out", "dead", "real"], [str(data)]) == {
        "in": str(work / "real"),
        "read": str(data),
        "real": str(work / "real"),
    }
    assert (work / "read").is_dir()
    assert not (work / "read").is_symlink()
    assert (work / "out").is_symlink()


def test_the_users_umask_locks_no_candidate_out_of_its_own_folders(tmp_path: Path) -> None:
    """It is another user than we, and so is whoever enters its folder on its behalf."""
    source, place = tmp_path / "source", Place(tmp_path / "scratch", None, "token")
    (source / "a").mkdir(parents=True)
    (source / "a/x").write_text("x")
    (source / "a/link").symlink_to("x")
    before = os.umask(0o077)
    try:
        place.make()
        place.fill(source)
        materialise(place.work, ["a/link"], [])
    finally:
        os.umask(before)
    modes = {n: (place.work / n).stat().st_mode & 0o777 for n in (".", "a", "a/x", "a/link")}
    assert modes == {".": 0o755, "a": 0o755, "a/x": 0o644, "a/link": 0o644}
    assert place.scratch.stat().st_mode & 0o777 == 0o700


def test_a_link_that_takes_a_folders_place_while_it_is_copied_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, secret, target = tmp_path / "source", tmp_path / "secret", tmp_path / "target"
    for folder in (source / "sub", secret, target):
        folder.mkdir(parents=True)
    (secret / "key").write_text("key")

    def make_and_swap(folder: Path) -> None:
        folder.mkdir()
        (source / "sub").rmdir()
        (source / "sub").symlink_to(secret)

    monkeypatch.setattr("overnight.executors.tree._make", make_and_swap)

    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        copy_tree(source, target, None)
    assert list((target / "sub").iterdir()) == []
