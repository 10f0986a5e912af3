"""Which files make the user's tree, inside git and outside."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from user_repositories import TRAIN, run_git, write

from overnight.contracts.errors import UsageError
from overnight.snapshots.root import prepare_root
from overnight.snapshots.tree import FolderTree, scan


def _names(listing: FolderTree) -> list[str]:
    return [file.path for file in listing.files]


def test_inside_git_the_tree_is_what_is_tracked_or_not_ignored(repo: Path) -> None:
    sandbox = repo / "sandbox"
    prepare_root(sandbox, repo)
    write(repo, {"new.py": "x", "loop.run.yaml": "metric: x\n", "sub/loop.run.yaml": "theirs"})
    write(repo, {"__pycache__/a.pyc": "x", ".venv/pyvenv.cfg": "", ".venv/lib/x.py": ""})
    (repo / "prepare.py").unlink()

    listing = scan(repo, sandbox)

    assert _names(listing) == [".gitignore", "new.py", "run.sh", "sub/loop.run.yaml", "train.py"]
    assert [file.mode for file in listing.files if file.path == "run.sh"] == ["100755"]
    assert listing.head == run_git(repo, "rev-parse", "HEAD").strip()


def test_a_part_of_a_repository_is_a_tree_of_its_own(repo: Path) -> None:
    write(repo, {"part/train.py": TRAIN, "part/deep/x": "1", "part/x.log": "ignored above"})
    run_git(repo, "add", "part/train.py")

    assert _names(scan(repo / "part", repo / "part" / "sandbox")) == ["deep/x", "train.py"]


def test_a_folder_that_its_repository_ignores_is_no_part_of_it(repo: Path) -> None:
    write(repo, {"data/demo/train.py": TRAIN, "data/demo/.cache/x": "1"})

    listing = scan(repo / "data" / "demo", repo / "data" / "demo" / "sandbox")

    assert _names(listing) == ["train.py"]
    assert listing.head is None


def test_outside_git_the_tree_is_all_but_ours_caches_dot_folders_and_environments(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "plain"
    write(
        folder,
        {
            "train.py": TRAIN,
            ".env.example": "x",
            "lib/a.py": "x",
            "lib/__pycache__/a.pyc": "x",
            ".cache/x": "x",
            "venv/pyvenv.cfg": "",
            "venv/bin/python": "",
            "loop.run.yaml": "",
            "sandbox/ledger.jsonl": "",
            "sandbox-mar5/ledger.jsonl": "",
            "sandbox.failed-1/objects.git/HEAD": "",
            "sandbox-of-mine/x": "theirs",
        },
    )

    assert _names(scan(folder, folder / "sandbox")) == [
        ".env.example",
        "lib/a.py",
        "sandbox-of-mine/x",
        "train.py",
    ]


def test_a_linked_work_tree_is_listed_by_its_own_index(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    run_git(repo, "worktree", "add", "-q", "-b", "side", str(linked))
    write(linked, {"only-here.py": "x"})

    assert "only-here.py" in _names(scan(linked, linked / "sandbox"))
    assert "only-here.py" not in _names(scan(repo, repo / "sandbox"))


def test_names_in_any_script_and_normal_form_stay_as_they_are(nasty_repo: Path) -> None:
    names = _names(scan(nasty_repo, nasty_repo / "sandbox"))

    assert {"notes ä.md", "notes a\u0308.md", "日本/with blank.txt"} <= set(names)


@pytest.mark.parametrize("name", [b"a\nb.py", b"a\tb.py", b"\xff.py", b"d\r/x"])
def test_a_name_that_no_tree_can_hold_is_refused_by_name(repo: Path, name: bytes) -> None:
    place = os.path.join(os.fsencode(repo), name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb"):
        pass

    with pytest.raises(UsageError, match="the name") as caught:
        scan(repo, repo / "sandbox")
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isascii()


def test_a_link_to_a_file_of_the_tree_is_that_files_content(repo: Path) -> None:
    (repo / "lib").mkdir()
    (repo / "lib" / "copy.py").symlink_to("../prepare.py")
    (repo / "chain.py").symlink_to("lib/copy.py")

    listing = scan(repo, repo / "sandbox")
    contents = {file.path: content for file, content in listing.contents()}

    assert contents["lib/copy.py"] == contents["chain.py"] == b"frozen = 1\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside.txt", "..", "data", ".git/config"])
def test_a_link_that_leads_out_of_the_tree_is_refused_by_name(repo: Path, target: str) -> None:
    (repo.parent / "outside.txt").write_text("secret")
    (repo / "bad link").symlink_to(target)

    with pytest.raises(UsageError, match="bad link is a link"):
        scan(repo, repo / "sandbox")


def test_what_is_no_file_is_left_out_and_said(repo: Path) -> None:
    os.mkfifo(repo / "pipe")
    (repo / ".#train.py").symlink_to("user@host.1:2")
    (repo / ".venv").symlink_to(repo.parent / "environment")
    write(repo.parent / "environment", {"pyvenv.cfg": ""})
    write(repo, {"other/x": "1"})
    run_git(repo / "other", "init", "-q")
    run_git(repo / "other", "add", "x")
    run_git(repo / "other", "commit", "-q", "-m", "x")
    run_git(repo, "-c", "advice.addEmbeddedRepo=false", "add", "other")
    (repo / "run.sh").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(repo / "run.sh"))
        listing = scan(repo, repo / "sandbox")

    assert _names(listing) == [".gitignore", "prepare.py", "train.py"]
    assert {item.path: item.why for item in listing.left_out} == {
        ".#train.py": "a link that leads nowhere",
        ".venv": "a link to a virtual environment",
        "other": "a submodule or a repository of its own",
        "run.sh": "not a regular file",
    }


def test_a_large_tree_names_the_folder(repo: Path) -> None:
    (repo / "cache").mkdir()
    with open(repo / "cache" / "shard.bin", "wb") as file:
        file.truncate(600 * 1024**2)

    with pytest.raises(UsageError, match=r"600 MiB.*cache/.*`reads:`"):
        scan(repo, repo / "sandbox")


def test_a_file_that_became_a_link_after_the_listing_is_not_followed(repo: Path) -> None:
    listing = scan(repo, repo / "sandbox")
    (repo / "train.py").unlink()
    (repo / "train.py").symlink_to("/etc/passwd")

    with pytest.raises(UsageError, match=r"train\.py"):
        list(listing.contents())


def test_without_git_the_fix_is_named(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="git is not on the PATH: install it"):
        scan(repo, repo / "sandbox")


def test_the_environment_of_a_hook_does_not_reach_us(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))

    assert "train.py" in _names(scan(repo, repo / "sandbox"))


def test_a_broken_repository_is_said_in_one_line(repo: Path) -> None:
    (repo / ".git" / "HEAD").write_text("nonsense")

    with pytest.raises(UsageError, match="is broken"):
        scan(repo, repo / "sandbox")
