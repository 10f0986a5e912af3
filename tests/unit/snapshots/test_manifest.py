"""The content digest: the same for the same names, modes and bytes, another for any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.snapshots.manifest import (
    Entry,
    content_digest,
    file_mode,
    folder_digest,
    path_problem,
    tree_digest,
    verify_frozen,
)

ONE = Entry("a.py", "100644", content_digest(b"a"))
TWO = Entry("b/c.py", "100755", content_digest(b"c"))


def test_order_does_not_count() -> None:
    assert tree_digest([ONE, TWO]) == tree_digest([TWO, ONE])


@pytest.mark.parametrize(
    "other",
    [
        Entry("A.py", "100644", ONE.sha256),
        Entry("a.py", "100755", ONE.sha256),
        Entry("a.py", "100644", content_digest(b"")),
    ],
)
def test_name_mode_and_bytes_each_count(other: Entry) -> None:
    assert tree_digest([other, TWO]) != tree_digest([ONE, TWO])


def test_the_digest_is_the_same_in_every_version() -> None:
    """It is stored in ledgers: a change here breaks them."""
    assert tree_digest([ONE, TWO]) == (
        "a21d53806b02b68d73dfd410eec71b2732eec1d6db96663e5dcc8519048efddf"
    )


@pytest.mark.parametrize(
    "path",
    [
        "a\nb",
        "a\x7f",
        "a\x85",
        "",
        "/a",
        "a//b",
        "../a",
        "a/./b",
        ".git/config",
        "x/.GIT/y",
        "\udcff",
    ],
)
def test_a_name_that_no_tree_can_hold_is_named(path: str) -> None:
    assert path_problem(path) is not None


@pytest.mark.parametrize(
    "path", ["a b", "ä", "a\u0308", "日本", "a\\b", 'q"q', "-x", ".gitignore", "git~1"]
)
def test_strange_but_fine_names_pass(path: str) -> None:
    assert path_problem(path) is None


def test_a_folder_is_frozen_until_a_byte_a_name_or_a_mode_changes(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    file = tmp_path / "d" / "train.py"
    file.write_bytes(b"x = 1\r\n")
    file.chmod(0o644)
    digest = folder_digest(tmp_path)
    assert digest is not None
    assert verify_frozen(tmp_path, digest)

    file.chmod(0o755)
    assert not verify_frozen(tmp_path, digest)
    file.chmod(0o644)
    file.write_bytes(b"x = 1\n")
    assert not verify_frozen(tmp_path, digest)
    file.write_bytes(b"x = 1\r\n")
    assert verify_frozen(tmp_path, digest)
    (tmp_path / "more").write_bytes(b"")
    assert not verify_frozen(tmp_path, digest)


def test_a_folder_with_a_link_is_never_an_export(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").symlink_to("a")

    assert folder_digest(tmp_path) is None


def test_a_folder_that_is_gone_is_not_frozen(tmp_path: Path) -> None:
    assert not verify_frozen(tmp_path / "gone", "0" * 64)


def test_the_owner_decides_whether_a_file_is_executable() -> None:
    assert [file_mode(mode) for mode in (0o100644, 0o100654, 0o100700)] == [
        "100644",
        "100644",
        "100755",
    ]
