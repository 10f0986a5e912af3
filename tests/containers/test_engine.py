"""The engine that tests get: found or started; only what was started is ended."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import docker
import docker_engine
from docker_engine import Engine

BRIDGE = Path("/sys/class/net/docker0/address")


def test_an_engine_that_answers_is_used_and_not_ended(engine: Engine, tmp_path: Path) -> None:
    host = docker_engine.script("start", str(tmp_path / "none"))
    docker_engine.script("stop", str(tmp_path / "none"))

    assert host == engine.host
    assert not (tmp_path / "none").exists()
    assert engine.client.ping()


def test_an_engine_of_ones_own_ends_with_stop_and_leaves_the_other_its_bridge(
    engine: Engine,
) -> None:
    bridge = BRIDGE.read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="ovd-") as folder:
        try:
            host = docker_engine.script("start", folder, "--alone")
            pid = (Path(folder) / "dockerd.pid").read_text("utf-8").strip()
            with closing(docker.DockerClient(base_url=host)) as own:
                own_root = own.info()["DockerRootDir"]
        finally:
            docker_engine.script("stop", folder)

        assert own_root != engine.client.info()["DockerRootDir"]
        assert not Path(f"/proc/{pid}").exists()
        assert BRIDGE.read_text("utf-8") == bridge
