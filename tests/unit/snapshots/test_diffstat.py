"""Lines and places of a diff, against git's own diffs of small files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from overnight.snapshots.diffstat import DiffStat, diffstat

LINES = [f"line {n}" for n in range(60)]


def _diff(folder: Path, changed: list[str]) -> bytes:
    (folder / "a").write_text("\n".join(LINES) + "\n")
    (folder / "b").write_text("\n".join(changed) + "\n")
    done = subprocess.run(
        ["git", "diff", "--no-index", "-U0", "--text", "a", "b"],
        cwd=folder, capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout


def _replaced(*at: int) -> list[str]:
    return [f"++ {line}" if number in at else line for number, line in enumerate(LINES)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (LINES, DiffStat(0, 0, 0)),
        (_replaced(0), DiffStat(1, 1, 1)),
        (_replaced(5, 6, 7), DiffStat(3, 3, 1)),
        (_replaced(5, 9), DiffStat(2, 2, 2)),
        (_replaced(5, 8), DiffStat(2, 2, 1)),
        (_replaced(*range(0, 60, 6)), DiffStat(10, 10, 10)),
        ([*LINES[:10], "@@ -1 +1 @@", "diff --git", *LINES[10:]], DiffStat(2, 0, 1)),
        (LINES[:10] + LINES[30:], DiffStat(0, 20, 1)),
    ],
)
def test_a_diff_in_numbers(tmp_path: Path, changed: list[str], expected: DiffStat) -> None:
    assert diffstat(_diff(tmp_path, changed)) == expected


def test_files_are_counted_apart() -> None:
    one = b"diff --git a/x b/x\n@@ -4 +4 @@\n-a\n+b\n"

    assert diffstat(one * 3) == DiffStat(3, 3, 3)
