"""What is said of an engine that can't be reached."""

from __future__ import annotations

import errno
import os
from typing import Any

import docker
import pytest
from docker.errors import DockerException

from overnight.spawner.engine import Engine, EngineDownError


@pytest.mark.parametrize(
    ("number", "fix"),
    [(errno.EACCES, "join the group docker and log in anew"), (errno.ENOENT, "start it")],
)
def test_an_engine_out_of_reach_names_what_helps(
    number: int, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: Any) -> None:
        raise DockerException("wrapped") from OSError(number, os.strerror(number))

    monkeypatch.setattr(docker, "APIClient", fail)
    with pytest.raises(EngineDownError) as down:
        Engine("unix:///s")

    assert os.strerror(number) in str(down.value)
    assert str(down.value).endswith(fix)
