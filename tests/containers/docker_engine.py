"""A real Docker engine for tests, by ci/engine.sh. Knows nothing of pytest."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import docker

ROOT = Path(__file__).resolve().parents[2]
SCRIPT_SECONDS = 300.0  # with the installation of Debian's packages


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
    done = subprocess.run(
        ["bash", str(ROOT / "ci/engine.sh"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=SCRIPT_SECONDS,
        env={**os.environ, **changed},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"ci/engine.sh ended with {done.returncode}")
    return done.stdout.strip()
