"""Whole sessions on cards that are lost, leak, or fail fast: no idea pays for it.

The cards are those of a stand-in for NVML: not run on a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import procs
from tests.fake_gpus import LOST, FakeGpus, uuid

PROFILE = "cards"
SERVICES = str(Path(__file__).parents[2] / "services")
TRAIN = """\
import os, time
LR = 0.1
time.sleep({seconds})
print("sees", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["NVIDIA_VISIBLE_DEVICES"])
print(f"val_bpb: {{1 + abs(LR - 0.5)}}")
"""


class Night:
    """One `overnight run`, and the cards of its machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gpus = FakeGpus(folder / "nvml.json")
        self.process: subprocess.Popen[str] | None = None
        self.more: dict[str, str] = {}

    def start(self, ideas: int, seconds: float, **keys: Any) -> None:
        repo = self.folder / "repo"
        repo.mkdir()
        (repo / "train.py").write_text(TRAIN.format(seconds=seconds))
        loop = {"metric": "val_bpb", "run_cmd": "python train.py", "editable_files": "train.py",
                "budget": 20, "proposer": {"name": "random"}, **keys}  # fmt: skip
        (repo / "loop.run.yaml").write_text(json.dumps(loop))
        self.process = self.call("run", str(repo), "--max", str(ideas))

    def call(self, *words: str) -> subprocess.Popen[str]:
        own = {
            "OVERNIGHT_STATE": str(self.folder / "state"),
            "OVERNIGHT_DEVICE_LOCKS": str(self.folder / "locks"),
            "PYTHONPATH": SERVICES,
            **self.more,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "overnight.cli", *words],
            env=self.gpus.environ({**os.environ, **own}), cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def rows(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "repo" / "sandbox" / "ledger.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]
        return [row["body"] for row in map(json.loads, lines) if row["kind"] == kind]

    def runs(self, *ids: int) -> bool:
        """Has the command of each begun? Its log is opened just before."""
        sandbox = self.folder / "repo" / "sandbox"
        return all(any((sandbox / f"iter{number}").glob("run*.log")) for number in ids)

    def until(self, seen: Callable[[], object], what: str) -> None:
        procs.wait_until(lambda: bool(seen()), 60, what, 0.05)

    def end(self) -> str:
        assert self.process is not None
        said, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, said
        return said

    def close(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.communicate()
        procs.wait_until(lambda: not procs.marked(str(self.folder)), 5, "no process is left", 0.1)


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    made = Night(tmp_path)
    yield made
    made.close()


def test_each_candidate_sees_its_own_cards_and_its_row_names_them(night: Night) -> None:
    for number in range(5):
        night.gpus.add(number)
    night.start(4, 0.5, gpus=2)
    night.end()
    results = night.rows("result")
    groups = {("r0", (uuid(0), uuid(1))), ("r1", (uuid(2), uuid(3)))}

    assert len(results) == 5
    assert {(row["runner"], tuple(row["devices"])) for row in results} == groups
    assert {row["hardware"] for row in results} == {
        "gpu NVIDIA H100 80GB HBM3 x2, driver 570.133.20"
    }
    for row in results:
        log = night.folder / "repo" / "sandbox" / f"iter{row['id']}" / "run.log"
        mine = ",".join(row["devices"])
        assert f"sees {mine} {mine}\n" in log.read_text()


def test_a_card_that_is_lost_mid_run_costs_time_and_no_idea(night: Night) -> None:
    """P22: a card that is lost without any Xid. Its worker takes no further job, and says why."""
    for number in range(2):
        night.gpus.add(number)
    night.start(4, 1.5)
    night.until(lambda: night.runs(2, 3), "ideas run")
    night.gpus.change(uuid(0), errors={"*": LOST})
    night.until(
        lambda: any(row["reason"] == "device_lost" for row in night.rows("result")), "it is seen"
    )
    seen = len(night.rows("result"))
    said = night.end()
    later = night.rows("result")[seen:]

    assert f"{uuid(0)} is quarantined: NVML says: GPU is lost" in said.replace("\n", " ")
    assert {row["runner"] for row in later} == {"r1"}
    decisions = night.rows("decision")
    assert sorted(row["id"] for row in decisions) == [1, 2, 3, 4, 5]
    assert {row["verdict"] for row in decisions} <= {"keep", "discard"}
    status = json.loads(night.call("status", "--json", "--dir", "repo").communicate()[0])
    assert status["counts"]["infra"] == 0


def test_memory_that_a_killed_run_holds_keeps_the_next_one_away(night: Night) -> None:
    """P21: in a whole session. The card is freed when its memory is back."""
    night.gpus.add(0)
    night.more["OVERNIGHT_DEVICES_CLEAR_SECONDS"] = "0.5"
    night.start(2, 1.0)
    night.until(lambda: night.runs(1), "the baseline runs")
    night.gpus.change(uuid(0), used_mb=30_000)
    notice = night.folder / "locks" / f"{uuid(0)}.quarantined"
    night.until(notice.exists, "it is quarantined")
    issued = len(night.rows("result"))
    time.sleep(2.0)
    assert len(night.rows("result")) == issued == 1, "nothing ran meanwhile"
    night.gpus.change(uuid(0), used_mb=4)
    said = night.end()

    assert "29996 MiB of its memory are held by no process that we see" in said.replace("\n  ", "")
    assert len(night.rows("decision")) == 3
    assert not notice.exists()


def test_a_card_that_fails_fast_does_not_eat_the_queue(night: Night) -> None:
    """P22: a card that eats the queue. It would fail each attempt within milliseconds, three times,
    and every idea were given up."""
    for number in range(2):
        night.gpus.add(number)
    night.start(5, 1.0)
    night.until(lambda: len(night.rows("result")) >= 1, "the baseline has ended")
    # No sandbox can be made with it, and still it is there and empty.
    night.gpus.change(uuid(0), errors={"nvmlDeviceGetName": 4})
    night.end()
    failed = [row for row in night.rows("result") if row["status"] == "infra"]
    decisions = night.rows("decision")

    assert {row["runner"] for row in failed} == {"r0"}, "else the card did not fail at all"
    assert len(failed) <= 2
    assert {row["verdict"] for row in decisions} <= {"keep", "discard"}
    assert len(decisions) == 6
