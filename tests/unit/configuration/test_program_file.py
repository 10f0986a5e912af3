"""program.md is a short text of a person's, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overnight.configuration import PROGRAM_FILE, program_of, resolve_loop
from overnight.contracts.errors import ConfigError


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, None),
        (b"", None),
        (b" \n\t\n", None),
        (b"# Goal\n", "# Goal\n"),
        ("\ufeff# Ziel \u00e4\n".encode(), "# Ziel \u00e4\n"),
    ],
)
def test_its_text_or_nothing(tmp_path: Path, data: bytes | None, text: str | None) -> None:
    if data is not None:
        (tmp_path / PROGRAM_FILE).write_bytes(data)

    assert program_of(tmp_path) == text


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("folder", "is no file"),
        ("pipe", "is no file"),
        ("long", "is longer than 64 KiB: shorten it"),
        ("binary", "is not UTF-8 text"),
    ],
)
def test_what_is_no_text_is_told_and_never_waited_for(tmp_path: Path, kind: str, told: str) -> None:
    path = tmp_path / PROGRAM_FILE
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x" * 65537 if kind == "long" else b"\xff\xfe")

    with pytest.raises(ConfigError, match=told):
        program_of(tmp_path)


def test_no_proposal_may_edit_it(tmp_path: Path) -> None:
    (tmp_path / PROGRAM_FILE).write_text("# Goal\n")
    text = "metric: val_bpb\nrun_cmd: python train.py\neditable_files: program.md\n"
    (tmp_path / "train.py").write_text("")
    with pytest.raises(ConfigError, match=r"loop.run.yaml:3: editable_files: program.md is what a"):
        resolve_loop(tmp_path, flags={}, environ={}, loop_text=text)
