"""What a container costs is measured beside what a process costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from docker_engine import Engine

IMAGE = "python:3.11-slim-bookworm"


def test_a_bare_process_a_sandboxed_one_and_a_container_are_compared(engine: Engine) -> None:
    words = ("bench", "startup", "--pairs", "2", "--image", IMAGE, "--json")
    done = subprocess.run(
        [sys.executable, "-m", "overnight.cli", *words],
        env={**os.environ, "DOCKER_HOST": engine.host}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert found["missing"] is None
    assert found["image"] == engine.client.images.get(IMAGE).id
    bare, process, container = found["rows"]
    assert [row["isolation"] for row in (bare, process, container)] == [
        "none", "namespaces", "container",
    ]  # fmt: skip
    assert bare["total_s"] < process["total_s"] < container["total_s"] < 30
    left = engine.client.containers.list(all=True, filters={"label": "overnight.bench=startup"})
    assert left == []
