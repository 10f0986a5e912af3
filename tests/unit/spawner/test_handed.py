"""What a runner hands over is looked at before the spawner, which may be root, touches it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from overnight.contracts.errors import SandboxUnavailableError, WireError
from overnight.spawner import handed

RUNNER = 4242


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Descriptors that are no list in a file."""
    with ExitStack() as stack:
        ends = socket.socketpair()
        pipe = os.pipe()
        (tmp_path / "written").touch()
        found = {
            "folder": os.open(tmp_path, os.O_RDONLY),
            "path": os.open(tmp_path, os.O_PATH),
            "pipe": os.dup(pipe[0]),
            "socket": os.dup(ends[0].fileno()),
            "for writing": os.open(tmp_path / "written", os.O_WRONLY),
            "device": os.open("/dev/zero", os.O_RDONLY),
        }
        for descriptor in (*found.values(), *pipe):
            stack.callback(os.close, descriptor)
        for end in ends:
            stack.callback(end.close)
        yield found


@pytest.mark.parametrize("what", ["folder", "path", "pipe", "socket", "for writing", "device"])
def test_a_list_of_names_is_a_file_that_can_be_read(opened: dict[str, int], what: str) -> None:
    with pytest.raises(WireError, match="what is frozen"):
        handed.names(opened[what])


@pytest.mark.parametrize("name", ["\ud800", "", "/x", "a/../b", "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    descriptor = os.memfd_create("names")
    try:
        os.write(descriptor, json.dumps([name]).encode())
        with pytest.raises(WireError, match="no relative path"):
            handed.names(descriptor)
    finally:
        os.close(descriptor)


def test_a_tree_is_one_that_its_holder_could_open(opened: dict[str, int]) -> None:
    """The name of a closed folder is enough for O_PATH."""
    with pytest.raises(SandboxUnavailableError, match="open for reading"):
        handed.tree(opened["path"])

    assert handed.tree(opened["folder"]).is_dir()


def test_nothing_is_put_into_another_users_folder(
    tmp_path: Path, opened: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody can open /etc/cron.d; a spawner that is root could write there."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    mine = tmp_path.stat().st_uid

    with pytest.raises(SandboxUnavailableError, match=f"for user {RUNNER}"):
        handed.target(opened["folder"], RUNNER)
    assert handed.target(opened["folder"], mine).is_dir()
    assert handed.target(opened["folder"], 0).is_dir()
