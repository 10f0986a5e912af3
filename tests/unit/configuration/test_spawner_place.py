"""The spawner's socket is a file, in a container most likely at a fixed place."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from overnight.configuration import SpawnerSettings, load_settings, spawner_socket
from overnight.contracts.errors import ConfigError


def test_a_socket_that_is_there_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))

        assert spawner_socket({"OVERNIGHT_SPAWNER": str(path)}) == path


def test_a_relative_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="absolute"):
        spawner_socket({"OVERNIGHT_SPAWNER": "socket"})


def test_one_user_s_id_is_text() -> None:
    settings = load_settings(SpawnerSettings, {"OVERNIGHT_SPAWNER_CLIENTS": "1000"})

    assert settings.clients == "1000"
