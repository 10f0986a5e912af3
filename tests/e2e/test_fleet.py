"""One parent, one worker a device: stable slots, restarted, ended with the parent. Real processes.

GPUs are those of a stand-in for NVML: not run on a GPU.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import procs
from tests.fake_gpus import LOST, FakeGpus, uuid

from overnight.sessions.opening import Request, open_session
from redis_server import RedisServer

SERVICES = str(Path(__file__).parents[2] / "services")
TRAIN = """\
import os
LR = 0.1
print("sees", os.environ.get("CUDA_VISIBLE_DEVICES"))
print(f"val_bpb: {1 + LR}")
"""


@dataclass
class Scene:
    """A session that was opened, a Redis, and no services yet."""

    folder: Path
    redis: str
    gpus: FakeGpus
    more: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "repo" / "sandbox"

    def environ(self) -> dict[str, str]:
        own = {
            "OVERNIGHT_STATE": str(self.folder / "state"),
            "OVERNIGHT_DEVICE_LOCKS": str(self.folder / "locks"),
            "PYTHONPATH": SERVICES,
            "REDIS_URL": self.redis,
        }
        return self.gpus.environ({**os.environ, **own, **self.more})

    def open(self, **keys: Any) -> None:
        repo = self.folder / "repo"
        repo.mkdir()
        (repo / "train.py").write_text(TRAIN)
        loop = {"metric": "val_bpb", "run_cmd": "python train.py", "editable_files": "train.py",
                "budget": 20, "pools": {"default": {"runners": 1}}, **keys}  # fmt: skip
        (repo / "loop.run.yaml").write_text(json.dumps(loop))
        opened = open_session(
            Request(repo=repo, flags={}, environ=self.environ(), today=date(2026, 1, 1),
                    services=True)
        )  # fmt: skip
        opened.release()

    def fleet(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "overnight.runner", "--dir", str(self.root),
                "--redis", self.redis, *words]  # fmt: skip
        process = subprocess.Popen(
            argv, env=self.environ(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def workers(self) -> dict[str, procs.Process]:
        """Live workers by slot."""
        found = {}
        for process in procs.marked(str(self.folder)):
            argv = process.argv
            if "overnight.runner" in argv and "--slot" in argv:
                found[argv[argv.index("--slot") + 1]] = process
        return found

    def holders(self) -> dict[str, int]:
        """Who holds which device, by what stands in the locks."""
        locks = (self.folder / "locks").glob("*.lock")
        return {
            path.stem: int(path.read_text() or 0)
            for path in locks
            if not path.stem.startswith("turn")
        }

    def log(self, slot: str) -> list[dict[str, Any]]:
        text = (self.root / "logs" / f"{slot}.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def url(self, slot: str) -> str:
        """Of its metrics."""
        said = (e["url"] for e in self.log(slot) if e["event"] == "metrics_endpoint_up")
        return str(next(said))

    def ready(self, number: int) -> None:
        """So many workers take jobs."""

        def all_ready() -> bool:
            names = [f"r{n}" for n in range(number)]
            return all(
                (self.root / "logs" / f"{n}.log").exists()
                and any(e["event"] == "metrics_endpoint_up" for e in self.log(n))
                for n in names
            )

        procs.wait_until(all_ready, 30, f"{number} workers are ready", 0.1)

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
        procs.wait_until(lambda: not self.workers(), 5, "no worker is left", 0.05)


@pytest.fixture
def scene(tmp_path: Path, redis_server: RedisServer) -> Iterator[Scene]:
    made = Scene(tmp_path, redis_server.url, FakeGpus(tmp_path / "nvml.json"))
    yield made
    made.close()


def test_each_card_has_a_worker_and_slots_follow_the_cards(scene: Scene) -> None:
    for number in range(3):
        scene.gpus.add(number)
    scene.gpus.host["cards"][1] = None  # a gap in the indices
    scene.gpus.save()
    scene.open()
    fleet = scene.fleet("--gpus", "all")
    scene.ready(2)

    pids = {slot: process.pid for slot, process in scene.workers().items()}
    assert scene.holders() == {uuid(0): pids["r0"], uuid(2): pids["r1"]}

    scene.workers()["r0"].kill()
    procs.wait_until(lambda: scene.workers().get("r0", procs.Process(0, 0)).pid != pids["r0"]
                     and "r0" in scene.workers(), 20, "r0 is started again", 0.1)  # fmt: skip
    procs.wait_until(
        lambda: scene.holders()[uuid(0)] == scene.workers()["r0"].pid, 20, "with its card", 0.1
    )
    assert scene.workers()["r1"].pid == pids["r1"], "the other one goes on"

    fleet.send_signal(signal.SIGTERM)
    assert fleet.wait(20) == 0
    assert scene.workers() == {}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_the_parent(number: signal.Signals, scene: Scene) -> None:
    """And with a fixed port, each worker listens at one of its own, after the parent's."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scene.more["OVERNIGHT_RUNNER_METRICS_PORT"] = str(port)
    scene.open()
    fleet = scene.fleet("--workers", "2")
    scene.ready(2)

    assert set(scene.holders()) == {"cpu-0", "cpu-1"}
    assert [scene.url(f"r{n}") for n in range(2)] == [
        f"http://127.0.0.1:{port + 1 + n}/metrics" for n in range(2)
    ]
    fleet.send_signal(number)
    fleet.wait(20)
    procs.wait_until(lambda: not scene.workers(), 3, "no worker is left", 0.05)


def test_experiments_of_several_cards_make_fewer_workers(scene: Scene) -> None:
    for number in range(5):
        scene.gpus.add(number)
    scene.open(gpus=2)
    scene.fleet("--gpus", "all")
    scene.ready(2)
    pids = {slot: process.pid for slot, process in scene.workers().items()}

    assert set(pids) == {"r0", "r1"}
    assert scene.holders() == {
        uuid(0): pids["r0"], uuid(1): pids["r0"], uuid(2): pids["r1"], uuid(3): pids["r1"],
    }  # fmt: skip

    # A card that is lost while nothing runs: its worker takes the one that was left over.
    scene.gpus.change(uuid(1), errors={"*": LOST})

    def swapped() -> bool:
        again = scene.workers().get("r0")
        held = scene.holders()
        both = {held.get(uuid(0)), held.get(uuid(4))}
        return again is not None and again.pid != pids["r0"] and both == {again.pid}

    procs.wait_until(swapped, 20, "the spare is held", 0.1)
    assert scene.workers()["r1"].pid == pids["r1"]


def test_a_lost_card_without_a_spare_is_told_and_alerted_and_its_worker_takes_no_job(
    scene: Scene,
) -> None:
    for number in range(2):
        scene.gpus.add(number)
    scene.open()
    scene.fleet("--gpus", "all")
    scene.ready(2)
    urls = [scene.url(f"r{n}") for n in range(2)]
    scene.gpus.change(uuid(1), errors={"*": LOST})
    procs.wait_until(lambda: sample(urls[1], "overnight_device_quarantined") == 1, 20, "told", 0.1)
    procs.wait_until(lambda: sample(urls[1], "overnight_device_healthy") == 0, 20, "seen", 0.1)

    assert sample(urls[0], "overnight_device_quarantined") == 0
    assert sample(urls[0], "overnight_device_healthy") == 1
    assert sample(urls[0], "overnight_device_memory_used_bytes") == 4 * 2**20
    assert sample(urls[0], "overnight_device_memory_bytes") == 81559 * 2**20
    notice = json.loads((scene.folder / "locks" / f"{uuid(1)}.quarantined").read_text())
    assert notice["reason"] == f"{uuid(1)}: NVML says: GPU is lost"

    scene.gpus.change(uuid(1), errors={})
    procs.wait_until(lambda: sample(urls[1], "overnight_device_quarantined") == 0, 20, "back", 0.1)
    assert not (scene.folder / "locks" / f"{uuid(1)}.quarantined").exists()


def sample(url: str, name: str) -> float | None:
    """The one series of that name."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if re.match(rf"{name}[{{ ]", line)]
    return float(found[0].rpartition(" ")[2]) if found else None


def test_what_can_t_be_is_one_line_and_no_worker(scene: Scene) -> None:
    scene.gpus.add(0)
    scene.open()
    fleet = scene.fleet("--gpus", "GPU-7")
    assert fleet.stderr is not None
    code = fleet.wait(30)
    said = [json.loads(text) for text in fleet.stderr.read().splitlines()]

    assert code == 2
    assert said[-1]["reason"] == f"--gpus GPU-7: no such device here; there are {uuid(0)}"
    assert scene.workers() == {}
