"""What is read below the user's home has its place below the candidate's."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.executors.binds import below_home


def test_only_what_lies_below_home_and_each_place_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    reads = [
        tmp_path / ".cache/a",
        tmp_path / ".cache/a/inner",  # seen with the one above it
        tmp_path / "data/../datasets",
        tmp_path,  # a home is never shown whole
        Path("/mnt/data"),
    ]

    assert below_home(reads) == (
        (".cache/a", f"{tmp_path}/.cache/a"),
        ("datasets", f"{tmp_path}/datasets"),
    )
