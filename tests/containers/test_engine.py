"""The engine that tests get: found or started; only what was started is ended."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

import docker
import docker_engine
import pytest
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


def test_nothing_of_a_stopped_engine_stands_in_the_way_of_removing_its_folder() -> None:
    """The first `--network host` of an engine makes a mount that the engine forgets at its end."""
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    folder = tempfile.mkdtemp(prefix="ovd-")
    try:
        host = docker_engine.script("start", folder, "--alone")
        with closing(docker.DockerClient(base_url=host)) as own:
            own.api.import_image_from_data(empty.getvalue(), repository="nothing")
            with pytest.raises(docker.errors.APIError, match=r"not found|no such file"):
                own.containers.run("nothing", ["/nothing"], network_mode="host")
        assert folder in Path("/proc/self/mountinfo").read_text("utf-8")
    finally:
        docker_engine.script("stop", folder)

    assert folder not in Path("/proc/self/mountinfo").read_text("utf-8")
    shutil.rmtree(folder)
