"""stack.json: what runs now. One that was left behind, or that another version wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from overnight.contracts.errors import InfrastructureError
from overnight.ledger.files import SessionFiles
from overnight.sessions.stack import Stack, file_identity, not_running, read_stack


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return SessionFiles(tmp_path)


def _gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_stack_is_read_as_it_was_written(files: SessionFiles) -> None:
    stack = Stack(pid=os.getpid(), redis_url="unix:///s", children={"r0": 7})
    stack.write(files)

    assert read_stack(files) == stack
    plain = json.loads(files.stack.read_text())
    assert plain.pop("v") == 1
    files.stack.write_text(json.dumps(plain))
    assert read_stack(files) == stack, "the first version had no number"


def test_a_stack_of_a_newer_version_runs_and_is_told_as_such(files: SessionFiles) -> None:
    Stack(pid=os.getpid(), redis_url="unix:///s").write(files)
    plain = json.loads(files.stack.read_text())
    files.stack.write_text(json.dumps({**plain, "v": 2, "sockets": {}}))

    with pytest.raises(InfrastructureError, match="stack v2 was written by a newer version"):
        read_stack(files)


def test_what_a_killed_stack_of_any_version_left_is_no_stack(files: SessionFiles) -> None:
    Stack(pid=_gone(), redis_url="unix:///s").write(files)
    assert read_stack(files) is None
    files.stack.write_text(json.dumps({"v": 2, "pid": _gone(), "sockets": {}}))
    assert read_stack(files) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"pid": "x"}', "[" * 100_000])
def test_a_damaged_one_is_one_line(files: SessionFiles, text: str) -> None:
    files.stack.write_text(text)
    with pytest.raises(InfrastructureError) as caught:
        read_stack(files)
    assert len(str(caught.value).splitlines()) == 1


def test_the_stack_file_of_a_copied_session_is_not_its_own(tmp_path: Path) -> None:
    original, copy = SessionFiles(tmp_path / "one"), SessionFiles(tmp_path / "two")
    original.root.mkdir()
    original.session_lock.touch()
    lock = file_identity(original.session_lock)
    Stack(pid=os.getpid(), redis_url="unix:///s", lock=lock).write(original)
    shutil.copytree(original.root, copy.root)
    original.root.rename(tmp_path / "moved")

    assert read_stack(copy) is None
    assert read_stack(SessionFiles(tmp_path / "moved")) is not None


@pytest.mark.parametrize(
    ("left", "fix"),
    [
        ('{"pid": 0}', "docker compose up -d"),
        ('{"pid": 7}', "overnight up"),
        ("[]", "overnight up"),
        (None, "overnight up"),
    ],
)
def test_what_is_over_is_started_again_as_it_was_started(
    files: SessionFiles, left: str | None, fix: str
) -> None:
    if left is not None:
        files.stack.write_text(left)

    assert not_running(files) == f"no stack runs for this session: {fix}"
