"""Files of a stranger's repository are read without ever waiting for one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overnight.configuration.plain_file import read_plain


def test_a_regular_file_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"\xffabc")

    assert read_plain(file, 4) == b"\xffabc"
    assert read_plain(file, 3) is None
    assert read_plain(tmp_path / "missing", 3) is None
    assert read_plain(tmp_path, 3) is None
    assert read_plain(Path("a\0b"), 3) is None


@pytest.mark.timeout(10)
def test_a_pipe_is_no_file_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert read_plain(tmp_path / "pipe", 3) is None
