"""Entries of a stored tree, links in it, and which folder makes a tree too large."""

from __future__ import annotations

import pytest

from overnight.contracts.errors import UsageError
from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.stored import build_tree, link_target, parse_tree
from overnight.snapshots.tree import (
    LeftOut,
    TreeFile,
    check_editable,
    largest_folder,
    refuse_large,
)


def _sized(path: str, size_bytes: int = 1) -> TreeFile:
    return TreeFile(path=path, mode="100644", size_bytes=size_bytes)


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a", "b", "b"),
        ("d/a", "b", "d/b"),
        ("d/a", "../b", "b"),
        ("d/a", "../../b", None),
        ("a", "/etc/passwd", None),
        ("d/e/a", ".././../x//y", "x/y"),
        ("a", ".", ""),
    ],
)
def test_a_link_is_followed_inside_the_tree_only(path: str, target: str, inside: str) -> None:
    assert link_target(path, target) == inside


def test_a_stored_tree_has_files_and_links_to_files() -> None:
    ids = [f"{number:040x}" for number in range(9)]
    lines = [
        f"100644 blob {ids[1]}       3\ta.py",
        f"100755 blob {ids[2]}       4\td/run.sh",
        f"100644 blob {ids[3]}       5\tloop.run.yaml",
        f"120000 blob {ids[4]}       8\td/link.py",
        f"120000 blob {ids[5]}       8\tlost",
        f"120000 blob {ids[6]}       8\tout",
        f"120000 blob {ids[7]}       8\tfolder",
        f"160000 commit {ids[8]}       -\tsub",
    ]
    targets = {ids[4]: "../a.py", ids[5]: "gone", ids[6]: "../x", ids[7]: "d"}

    tree = build_tree(parse_tree("\0".join(lines).encode()), targets)

    assert [(file.path, file.mode, file.blob, file.link_to) for file in tree.files] == [
        ("a.py", "100644", ids[1], None),
        ("d/link.py", "100644", ids[1], "a.py"),
        ("d/run.sh", "100755", ids[2], None),
    ]
    assert {item.path: item.refused for item in tree.left_out} == {
        "lost": False,
        "out": True,
        "folder": True,
        "sub": False,
    }


def test_a_stored_name_that_leads_out_of_the_tree_is_damage() -> None:
    line = f"100644 blob {'1' * 40}       3\t../a.py".encode()
    with pytest.raises(SnapshotMissingError):
        parse_tree(line)


def test_the_largest_folder_is_the_deepest_one_with_more_than_half() -> None:
    files = [_sized("train.py", 10), *(_sized(f"runs/out/{n}.bin", 100) for n in range(9))]
    files += [_sized(f"many/{n}") for n in range(50)]

    assert largest_folder(files, by_count=False) == "runs/out/"
    assert largest_folder(files, by_count=True) == "many/"
    assert largest_folder([_sized("a"), _sized("b")], by_count=True) == "."
    spread = [_sized(f"d{n}/x", n + 1) for n in range(5)]
    assert largest_folder(spread, by_count=False) == "d4/"


@pytest.mark.parametrize(
    "files",
    [
        [_sized(f"data/{n}") for n in range(20_001)],
        [_sized("data/a", 300 * 1024**2), _sized("data/b", 213 * 1024**2)],
    ],
)
def test_a_tree_too_large_names_the_folder_and_the_way_out(files: list[TreeFile]) -> None:
    with pytest.raises(UsageError, match=r"data/.*`reads:`"):
        refuse_large(files)


def test_one_file_that_is_too_large_is_named_itself() -> None:
    with pytest.raises(UsageError, match=r"most of it is in big\.bin: have git ignore that file"):
        refuse_large([_sized("train.py", 100), _sized("big.bin", 513 * 1024**2)])


def test_the_largest_tree_that_is_allowed_passes() -> None:
    refuse_large([_sized(f"data/{n}") for n in range(20_000)])
    refuse_large([_sized("a", 512 * 1024**2)])


class _Tree:
    files = (
        _sized("train.py"),
        TreeFile(path="link.py", mode="100644", size_bytes=1, link_to="model.py"),
        _sized("model.py"),
    )
    left_out = (LeftOut("fifo", "not a regular file"),)


@pytest.mark.parametrize("path", ["absent.py", "link.py", "model.py", "fifo", "../x"])
def test_a_file_that_can_not_be_edited_is_named(path: str) -> None:
    with pytest.raises(UsageError, match=path.replace(".", r"\.")):
        check_editable(_Tree(), ["train.py", path])


def test_an_ordinary_file_can_be_edited() -> None:
    check_editable(_Tree(), ["train.py"])
