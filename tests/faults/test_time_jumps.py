"""The services' wall clock jumps an hour ahead and back in mid-run; their monotonic clock goes on.
Every kill comes at its deadline, no attempt is taken twice, the ledger verifies.

libfaketime stands before the services alone: candidates have an environment of their own, and
Redis runs beside, since its expiry is its own matter.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from tests.e2e import truth
from tests.e2e.stage import Stage, until

from redis_server import RedisServer

#: libfaketime 0.9.10 refuses the absolute monotonic sleep that Python's own is made of.
SLEEP_OTHERWISE = """\\
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
INSTALL = "needs libfaketime: apt-get install faketime"
LATE_SECONDS = 2.0  #: after its deadline nothing may be alive
TRAIN = """\
import pace

LR = 0.1

pace.train()
if LR != 0.1:
    import time
    time.sleep(600)
print("---")
print("val_bpb: 1.0")
"""


class Clock:
    """The wall clock that services see: the real one, moved."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._path = folder / "clock"
        (folder / "sitecustomize.py").write_text(SLEEP_OTHERWISE)
        self.move("+0s")

    def move(self, by: str) -> None:
        """Renamed into place: nobody reads half of it."""
        beside = self._path.with_suffix(".new")
        beside.write_text(f"{by}\n")
        os.replace(beside, self._path)

    def environment(self) -> dict[str, str]:
        """For a process that shall see it."""
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        assert found, INSTALL
        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        places = [str(self._path.parent), *known]
        return {
            "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in places if p),
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
        }


def test_jumps_of_an_hour_kill_nothing_early_or_late_and_cost_no_attempt(
    stage: Stage, redis_server: RedisServer
) -> None:
    deadline_seconds = 3.0
    clock = Clock(stage.folder / "fake")
    stage.environment = {**clock.environment(), "REDIS_URL": redis_server.url}
    stage.toy(1.5, deadline_seconds=deadline_seconds)
    stage.write({"train.py": TRAIN})
    play = stage.start("run", str(stage.repo), "--max", "2", "--json")

    until(stage.training, 60, "the baseline trains", play)
    clock.move("+1h")
    until(lambda: truth.decision_of(truth.read_rows(stage.root)), 60, "it is decided", play)
    until(stage.training, 60, "a candidate trains", play)
    clock.move("-1h")
    finished = play.wait(60)
    rows = truth.check_session(stage.root, 2)
    finals = truth.final_of(rows)
    attempts = [row["body"]["attempt"] for row in rows if row["kind"] == "attempt_issued"]
    hung = [final for experiment, final in finals.items() if experiment > 1]
    print(f"\nkilled after {[final['runtime_s'] for final in hung]} s")

    assert finished.code == 0, finished
    assert _jumps(rows) == ["ahead", "back"], "the services did not see the clock jump"
    assert attempts == [1] * 3
    assert finals[1]["status"] == "scored"
    assert finals[1]["runtime_s"] < deadline_seconds
    assert {final["status"] for final in hung} == {"timeout"}
    for final in hung:
        assert deadline_seconds <= final["runtime_s"] < deadline_seconds + LATE_SECONDS
    verified = stage.ask("verify", "--dir", str(stage.root), "--json")
    assert json.loads(verified.output)["ok"], verified
    stage.check_nothing_is_left()


def _jumps(rows: list[truth.Row]) -> list[str]:
    """Where two neighbours' labels are more than half an hour apart."""
    stamps = [datetime.fromisoformat(row["ts"].replace("Z", "+00:00")) for row in rows]
    steps = [after - before for before, after in pairwise(stamps)]
    far = [step for step in steps if abs(step) > timedelta(minutes=30)]
    return ["ahead" if step > timedelta() else "back" for step in far]
