"""What a run left stands beside the tree for the commands after it, and never steers them."""

from __future__ import annotations

from pathlib import Path

from overnight.runner.checks import put_beside


def lay(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_data_is_put_beside_and_code_is_not(tmp_path: Path) -> None:
    tree = lay(tmp_path / "tree", {"train.py": "candidate", "score.py": "frozen", "n.txt": "old"})
    left = lay(
        tmp_path / "left",
        {
            "out/deep/predictions.csv": "1",
            "n.txt": "new",
            "train.py": "changed by itself",
            "json.py": "print('val_bpb: 0')",
            "pkg/json.cpython-312.so": "x",
            "evil.pth": "x",
            "pytest.ini": "[pytest]\naddopts = --collect-only\n",
            "sub/setup.cfg": "x",
            "pyproject.toml": "x",
            ".hidden/x": "x",
            "__pycache__/score.cpython-312.pyc": "x",
            "Makefile": "x",
        },
    )
    put_beside(left, tree, ("train.py",))

    found = {
        str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()
    }
    assert found == {
        "train.py": "candidate",
        "score.py": "frozen",
        "n.txt": "new",
        "out/deep/predictions.csv": "1",
    }


def test_nothing_goes_through_a_link_out_of_the_tree(tmp_path: Path) -> None:
    outside = tmp_path / "users-own-data"
    lay(outside, {"a.txt": "precious"})
    tree = lay(tmp_path / "tree", {"train.py": ""})
    (tree / "data").symlink_to(outside)
    (tree / "b.txt").symlink_to(outside / "a.txt")
    put_beside(lay(tmp_path / "left", {"data/a.txt": "x", "data/c": "x", "b.txt": "x"}), tree, ())

    assert {p.name: p.read_text() for p in outside.iterdir()} == {"a.txt": "precious"}
    assert (tree / "b.txt").is_symlink()


def test_a_folder_in_the_way_of_a_file_is_left_as_it_is(tmp_path: Path) -> None:
    tree = lay(tmp_path / "tree", {"a/b.txt": "tree", "c": "tree"})
    put_beside(lay(tmp_path / "left", {"a/b.txt/x": "left", "c/d": "left"}), tree, ())
    put_beside(lay(tmp_path / "left2", {"a": "left"}), tree, ())

    assert (tree / "a" / "b.txt").read_text() == "tree"
    assert (tree / "c").read_text() == "tree"


def test_a_run_that_left_nothing_changes_nothing(tmp_path: Path) -> None:
    tree = lay(tmp_path / "tree", {"a": "1"})
    put_beside(tmp_path / "no-such-folder", tree, ())

    assert [p.name for p in tree.iterdir()] == ["a"]
