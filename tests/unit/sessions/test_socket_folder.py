"""The folder of a stack's sockets is private, short-lived, and never shared with a dead stack."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from overnight.contracts.errors import InfrastructureError
from overnight.sessions.stack import fresh_socket_folder, hold_socket_folder, remove_socket_folder

SID, OTHER = "0123456789ab", "ba9876543210"


def test_a_killed_stack_s_folder_goes_and_another_session_s_stays(tmp_path: Path) -> None:
    base = tmp_path / "state"
    killed = fresh_socket_folder(base, SID)
    (killed / "redis.sock").touch()
    neighbour = fresh_socket_folder(base, OTHER)

    fresh = fresh_socket_folder(base, SID)

    assert sorted(base.iterdir()) == sorted([neighbour, fresh])
    assert fresh != killed, "a dying service must not find the new server under the old name"
    assert stat.S_IMODE(fresh.stat().st_mode) == stat.S_IMODE(base.stat().st_mode) == 0o700


def test_a_folder_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")

    with pytest.raises(InfrastructureError, match="somebody else"):
        fresh_socket_folder(tmp_path / "state", SID)

    assert os.listdir(tmp_path / "real") == []


def test_the_last_one_leaves_nothing_behind(tmp_path: Path) -> None:
    base = tmp_path / "state"
    one, other = fresh_socket_folder(base, SID), fresh_socket_folder(base, OTHER)

    remove_socket_folder(one)
    assert list(base.iterdir()) == [other]
    remove_socket_folder(other)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_stack_that_lives_is_not_a_dead_one_s(tmp_path: Path) -> None:
    """Two copies of one session have one name, and each may run."""
    base = tmp_path / "state"
    alive = fresh_socket_folder(base, SID)
    lock = hold_socket_folder(alive)

    fresh = fresh_socket_folder(base, SID)
    assert sorted(base.iterdir()) == sorted([alive, fresh])

    os.close(lock)  # as its death does
    last = fresh_socket_folder(base, SID)
    assert list(base.iterdir()) == [last]
