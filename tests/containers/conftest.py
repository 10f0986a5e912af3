"""Every test here gets a real Docker engine, or fails: none is skipped."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import docker_engine
from docker_engine import Engine


@pytest.fixture(scope="session")
def engine(worker_id: str) -> Iterator[Engine]:
    """The engine at DOCKER_HOST or at the default socket, else one that lives as long as the tests.

    DOCKER_HOST is set meanwhile, for children.

    Raises:
        RuntimeError: none answers and none could be started.
    """
    if worker_id != "master" and not docker_engine.answers():
        raise RuntimeError(
            "several workers share one engine; start it first: "
            "export DOCKER_HOST=$(ci/engine.sh start DIR)"
        )
    with (
        tempfile.TemporaryDirectory(prefix="ovd-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        try:
            host = docker_engine.script("start", folder)
            patch.setenv("DOCKER_HOST", host)
            client = docker.DockerClient(base_url=host, timeout=60)
            try:
                yield Engine(client, host)
            finally:
                client.close()
        finally:
            docker_engine.script("stop", folder)


@pytest.fixture(scope="session")
def images(engine: Engine) -> None:
    """Both of our images, of the code as it lies here; what is built already costs seconds."""
    docker_engine.build_images()


@pytest.fixture
def label(engine: Engine) -> Iterator[str]:
    """`key=value` for what a test makes by hand; containers that carry it are gone afterwards."""
    text = f"overnight.test={uuid4().hex}"
    yield text
    for container in engine.client.containers.list(all=True, filters={"label": text}):
        container.remove(force=True, v=True)
