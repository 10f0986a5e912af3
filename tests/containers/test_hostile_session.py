"""A whole session of hostile candidates in containers: the ledger is right, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from docker_engine import ROOT, Engine
from tests.conformance.invariant import left_below
from tests.e2e import procs, truth
from tests.e2e.stage import Stage, stage

__all__ = ["stage"]

PROFILE = "docker"
IMAGE = "python:3.11-slim-bookworm"
#: What it does -> how that ends. Most are the moods of `overnight bench torture`.
KINDS: dict[str, tuple[str, str | None]] = {
    "honest": ("scored", None),
    "deaf": ("timeout", "train"),
    "daemon": ("scored", None),
    "memory_bomb": ("crash", "oom"),
    "kills_all": ("crash", "exit_code"),
    "fork_storm": ("scored", None),
    "flood": ("scored", None),
    "strange_files": ("scored", None),
    "forges": ("scored", None),
    "reaches": ("scored", None),
}
TRAIN = f"""\
import moods
import reach

KIND = "honest"

assert KIND in {tuple(KINDS)}

moods.reaches = reach.reaches
moods.act(KIND, 1 + len(KIND) / 100)
"""
#: Looks for every socket of the host; one that answers costs it its metric.
REACH = """\
import os, socket, stat

import moods


def reaches(val_bpb):
    for folder, names, files in os.walk("/"):
        names[:] = [name for name in names if os.path.join(folder, name) not in ("/proc", "/sys")]
        for name in files:
            path = os.path.join(folder, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                raise SystemExit(f"found {path}")
    for port in (2375, 2376, 6379):
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port)) != 0
    moods.report(val_bpb)
"""


def test_a_night_of_hostile_candidates_ends_with_one_right_record_of_each(
    stage: Stage, engine: Engine
) -> None:
    """P01: a session's record of it. P02: the same. P05: the same. P07: the same. P08: the same.

    P16: the same. P20: the same. P17: sockets of engine, spawner and Redis.
    """
    _repository(stage)
    stage.environment = {"DOCKER_HOST": engine.host}
    candidates = len(KINDS) - 1
    play = stage.start("run", str(stage.repo), "--max", str(candidates), "--json")
    finished = play.wait(240)
    rows = truth.read_rows(stage.root)
    assert finished.code == 0, f"{finished}\n{rows[-3:]}"

    truth.check_session(stage.root, candidates)
    finals = truth.final_of(rows)
    found = {_kind(stage.root, n): (b["status"], b["reason"]) for n, b in finals.items()}
    assert found == KINDS
    assert {body["survivors"] for body in finals.values()} == {0}
    assert {body["isolation"] for body in finals.values()} == {"container"}
    assert len(truth.decision_of(rows)) == len(KINDS)
    assert stage.ask("verify", "--dir", str(stage.root)).code == 0
    _check_nothing_is_left(stage, engine)

    healthy = stage.ask("once", str(stage.repo), "--json")
    assert healthy.code == 0, healthy
    assert healthy.last["status"] == "scored"
    _check_nothing_is_left(stage, engine)


def _repository(stage: Stage) -> None:
    stage.write({"train.py": TRAIN, "reach.py": REACH})
    shutil.copy(ROOT / "harness/tracks/torture/moods.py", stage.repo)
    stage.bind(
        image=IMAGE, budget=2, deadline_seconds=4, memory_mb=256,
        pools={"default": {"runners": 2, "executor": "docker"}},
        env={
            "TORTURE_HOST": str(os.stat("/proc/self/ns/pid").st_ino),
            "TORTURE_LEDGER": str(stage.root / "ledger.jsonl"),
        },
    )  # fmt: skip


def _kind(root: Path, experiment: int) -> str:
    code = (root / f"iter{experiment}" / "code_snapshot" / "train.py").read_text()
    kind = re.search(r'^KIND = "(\w+)"', code, re.M)
    assert kind is not None
    return kind[1]


def _check_nothing_is_left(stage: Stage, engine: Engine) -> None:
    """No process, container, folder of a sandbox, mount or socket folder of the session."""
    procs.wait_until(lambda: not stage.alive(), 3, "no process is left", 0.1)
    sid = json.loads((stage.root / "session.json").read_text())["sid"]
    mine: list[Any] = engine.client.containers.list(
        all=True, filters={"label": f"overnight.sid={sid}"}
    )
    assert [container.attrs["State"] for container in mine] == []
    assert left_below(stage.folder) == []
    assert list((stage.root / "spawner" / "sandboxes").iterdir()) == []
    sockets = [str(path) for path in stage.folder.rglob("*") if path.is_socket()]
    assert sockets == []
