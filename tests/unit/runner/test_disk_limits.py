"""A candidate's disk is generous, and never more than half of what is free."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from overnight.runner import specs
from overnight.runner.specs import Bench

GIB = 1024**3


@pytest.mark.parametrize(
    ("free_bytes", "free_files", "all_files", "space", "files"),
    [
        (500 * GIB, 10**8, 10**9, 20 * GIB, 1_000_000),
        (10 * GIB, 1_000_000, 10**9, 5 * GIB, 500_000),
        (0, 0, 10**9, 256 * 1024**2, 10_000),  # a full disk is no candidate's fault
        (500 * GIB, 0, 0, 20 * GIB, 1_000_000),  # no fixed number of inodes
    ],
)
def test_half_of_what_is_free_at_most(
    free_bytes: int, free_files: int, all_files: int, space: int, files: int,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    found = SimpleNamespace(
        f_bavail=free_bytes // 4096, f_frsize=4096, f_favail=free_files, f_files=all_files
    )
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    bench = SimpleNamespace(disk_bytes=Bench.disk_bytes, disk_files=Bench.disk_files)
    limits = specs._disk(bench, tmp_path)  # type: ignore[arg-type]

    assert (limits.disk_bytes, limits.disk_files) == (space, files)
