"""A short torture: random faults against a session of hostile candidates, recounted from outside.

SPINE_SEED repeats a run. Ended early by Ctrl-C, which is part of what is tested.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e import procs

FAULTS_SECONDS = 10.0
PATIENCE_SECONDS = 120.0


@pytest.mark.timeout(400)
def test_a_short_torture_loses_doubles_and_leaves_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("SPINE_SEED") or random.randrange(2**31))
    print(f"\nSPINE_SEED={seed}", flush=True)
    words = ["bench", "torture", "--minutes", "60", "--seed", str(seed), "--dir", str(tmp_path)]
    with (tmp_path.with_suffix(".err")).open("w+") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "overnight.cli", *words, "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=told, text=True,
        )  # fmt: skip
        try:
            began = Path(told.name)
            procs.wait_until(
                lambda: "faults begin" in began.read_text() or process.poll() is not None,
                PATIENCE_SECONDS, "the faults begin",
            )  # fmt: skip
            time.sleep(FAULTS_SECONDS)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE_SECONDS * 2)
        finally:
            process.kill()  # and the session with it
        print(began.read_text())

    report = json.loads(output)
    print(json.dumps(report, indent=1))
    assert (report["lost"], report["doubled"], report["orphans"]) == (0, 0, 0)
    assert report["problems"] == []
    assert process.returncode == 0
    assert report["seed"] == seed
    assert began.read_text().startswith(f"torture   seed {seed}")
    assert report["faults"] >= 3
    assert report["experiments"] >= 3, "it went on after the faults"
    assert sum(report["by_kind"].values()) == report["faults"]
    assert sum(report["verdicts"].values()) == report["experiments"]
    rows = (Path(report["session_dir"]) / "ledger.jsonl").read_bytes().count(b"\n")
    assert report["rows"] == rows
    assert procs.marked(str(tmp_path)) == [], "a process is left"


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    done = subprocess.run(
        [sys.executable, "-m", "overnight.cli", "bench", "torture", "--dir", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2, done
    assert done.stderr.splitlines()[-1].endswith("is not empty: give --dir another folder")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
