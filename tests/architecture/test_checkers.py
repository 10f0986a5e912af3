"""The checkers that recount a session know nothing of the product that they check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOM = Path(__file__).resolve().parents[2] / "services" / "overnight" / "sessions" / "torture"
CHECKERS = ("recount.py", "leftovers.py")
PARTS = ("judged.py",)  #: run by a checker, from beside it


@pytest.mark.parametrize("name", CHECKERS + PARTS)
def test_a_checker_imports_the_standard_library_alone(name: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse((ROOM / name).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id not in ("__import__", "exec", "eval"), node.id

    assert imported <= sys.stdlib_module_names
    assert "importlib" not in imported


@pytest.mark.parametrize("name", CHECKERS)
def test_a_checker_runs_where_no_package_can_be_found(name: str, tmp_path: Path) -> None:
    alone = tmp_path / name
    alone.write_bytes((ROOM / name).read_bytes())

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone), "--help"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
