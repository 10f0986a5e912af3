"""A real Docker engine for tests, by ci/engine.sh. Knows nothing of pytest."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import docker

ROOT = Path(__file__).resolve().parents[2]
SCRIPT_SECONDS = 600.0  # with the installation of Debian's packages, on a busy machine


@dataclass(frozen=True)
class Engine:
    """An engine that answers, and how children reach it."""

    client: docker.DockerClient
    #: The value of DOCKER_HOST.
    host: str


def answers() -> bool:
    """Whether an engine answers at DOCKER_HOST or at the default socket."""
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def script(*words: str, **changed: str) -> str:
    """Run ci/engine.sh with these words; returns what it printed.

    Raises:
        RuntimeError: it failed; the message is what it said.
    """
    return _bash("ci/engine.sh", *words, **changed)


def build_images() -> None:
    """Build overnight-sandbox:cpu and overnight-services:latest, as far as something changed.

    Raises:
        RuntimeError: one was not built, e.g. because a base image is missing.
    """
    _bash("docker/build.sh")


def _bash(file: str, *words: str, **changed: str) -> str:
    done = subprocess.run(
        ["bash", str(ROOT / file), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=SCRIPT_SECONDS,
        env={**os.environ, **changed},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{file} ended with {done.returncode}")
    return done.stdout.strip()
