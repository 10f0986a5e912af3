"""Which edits become candidates, and the reason that the others are rejected for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from overnight.contracts.errors import EditRejectedError
from overnight.snapshots.edits import MAX_FILE_BYTES, CandidateEdit, check_edit
from overnight.snapshots.manifest import blob_id
from overnight.snapshots.stored import StoredTree
from overnight.snapshots.tree import LeftOut, TreeFile

EDITABLE = ("train.py", "run.sh", "new.py", "train.py/x", "lib", "link.py", "sub", "loop.run.yaml")


def _file(path: str, content: bytes, mode: str = "100644", link_to: str | None = None) -> TreeFile:
    return TreeFile(
        path=path, mode=mode, size_bytes=len(content), blob=blob_id(content), link_to=link_to
    )


PARENT = StoredTree(
    files=(
        _file("lib/a.py", b"a"),
        _file("link.py", b"p", link_to="prepare.py"),
        _file("prepare.py", b"p"),
        _file("run.sh", b"r", "100755"),
        _file("train.py", b"t"),
    ),
    left_out=(LeftOut("sub", "a submodule"),),
)


def _edit(changes: Mapping[str, str]) -> CandidateEdit:
    return CandidateEdit(
        id=2, parent_commit="0" * 40, changes=changes, editable=EDITABLE, hypothesis="h"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prepare.py": "x"}, "paths"),
        ({"train.py": "x", "prepare.py": "x"}, "paths"),
        ({"absent.py": "x"}, "paths"),
        ({"../train.py": "x"}, "paths"),
        ({"./train.py": "x"}, "paths"),
        ({"/train.py": "x"}, "paths"),
        ({"train.py/x": "x"}, "paths"),
        ({"lib": "x"}, "paths"),
        ({"link.py": "x"}, "paths"),
        ({"sub": "x"}, "paths"),
        ({"loop.run.yaml": "x"}, "paths"),
        ({".git/hooks/x": "x"}, "paths"),
        ({"train.py": "a\0b"}, "not_text"),
        ({"train.py": "\ud800"}, "not_text"),
        ({"train.py": "ä" * (MAX_FILE_BYTES // 2 + 1)}, "size"),
        ({"train.py": "t"}, "no_change"),
        ({"train.py": "t", "run.sh": "r"}, "no_change"),
        ({}, "no_change"),
    ],
)
def test_a_bad_edit_is_rejected_with_its_reason(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(EditRejectedError) as caught:
        check_edit(_edit(changes), PARENT)

    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


def test_only_what_differs_is_a_change_and_modes_stay() -> None:
    changes = check_edit(_edit({"train.py": "t", "run.sh": "R", "new.py": ""}), PARENT)

    assert [(change.path, change.mode, change.content) for change in changes] == [
        ("new.py", "100644", b""),
        ("run.sh", "100755", b"R"),
    ]


def test_the_largest_file_that_is_allowed_passes() -> None:
    assert check_edit(_edit({"train.py": "x" * MAX_FILE_BYTES}), PARENT)


def test_a_tree_that_was_tried_before_is_a_duplicate() -> None:
    edit = CandidateEdit(
        id=9, parent_commit="", changes={}, editable=(), hypothesis="", known={"d" * 64: 4}
    )
    with pytest.raises(EditRejectedError, match="duplicate: the same tree as experiment 4"):
        edit.refuse_known("d" * 64)

    edit.refuse_known("e" * 64)
