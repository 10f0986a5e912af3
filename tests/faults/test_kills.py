"""Whatever is killed whenever: exactly the experiments asked for, each once, and the chain whole.

SPINE_FORM: small (part of the test suite), short (CI's acceptance), long (the promise to the
letter). SPINE_SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from tests.e2e import truth
from tests.e2e.stage import Stage
from tests.faults.killing import Killer


@dataclass(frozen=True)
class Form:
    """How much of it."""

    experiments: int  #: candidates; the baseline comes on top
    train_seconds: float
    kills: int  #: Redis itself not counted
    at_least: int  #: of each kind
    clocks: dict[str, str]  #: the fallback's clocks; empty: as shipped


SCALED = {
    "OVERNIGHT_ORCHESTRATOR_LOST_AFTER_SECONDS": "3",
    "OVERNIGHT_RUNNER_LEASE_SECONDS": "3",
    "OVERNIGHT_RUNNER_RENEW_SECONDS": "1",
}
FORMS = {
    "small": Form(16, 0.4, 8, 2, SCALED),
    "short": Form(60, 0.4, 40, 5, SCALED),
    "long": Form(60, 2.0, 40, 5, {}),
}
KINDS = ("runner", "recorder", "redis", "supervisor")


@pytest.mark.timeout(1500)
def test_a_session_survives_kills_at_random_instants(stage: Stage) -> None:
    form = FORMS[os.environ.get("SPINE_FORM", "small")]
    seed = int(os.environ.get("SPINE_SEED") or random.randrange(2**32))
    print(f"\nSPINE_SEED={seed} {form}", flush=True)
    rng = random.Random(seed)
    stage.environment = {"OVERNIGHT_ORCHESTRATOR_MAX_ATTEMPTS": "100", **form.clocks}
    stage.toy(form.train_seconds, env={"STAGE_MARK": stage.mark})
    began = time.monotonic()
    plan = [kind for kind in KINDS for _ in range(form.at_least)]
    plan += rng.choices(KINDS, weights=(3, 3, 3, 1), k=form.kills - len(plan))
    rng.shuffle(plan)
    moments = sorted(rng.uniform(0, form.experiments - 3) for _ in plan)

    killer = Killer(stage, form.experiments, rng, form.train_seconds)
    strike = {
        "runner": killer.runner_while_training,
        "recorder": killer.recorder_while_writing,
        "redis": killer.something_while_redis_is_down,
        "supervisor": killer.supervisor,
    }
    for kind, moment in zip(plan, moments, strict=True):
        killer.wait_for(int(moment))
        strike[kind]()
    finished = killer.play.wait(300)
    seconds = time.monotonic() - began
    rows = truth.read_rows(stage.root)
    print(f"{len(plan)} kills in {seconds:.0f} s: {dict(Counter(plan))}\n{killer.report()}")
    print(f"all dead {max(killer.lasted_seconds):.2f} s after a supervisor at most; "
          f"up again in {max(killer.restarts_seconds):.1f} s at most")  # fmt: skip
    print(f"attempts: {_attempts(rows)}, {len(rows)} rows", flush=True)

    assert finished.code == 0, finished
    truth.check_session(stage.root, form.experiments)
    assert {d["verdict"] for d in truth.decision_of(rows).values()} <= {"keep", "discard"}
    assert finished.last["counts"]["keep"] + finished.last["counts"]["discard"] == (
        form.experiments + 1
    )
    verified = stage.ask("verify", "--dir", str(stage.root), "--json")
    assert json.loads(verified.output) == {"ok": True, "rows": len(rows), "problems": []}
    assert Counter(plan).most_common()[-1][1] >= form.at_least
    assert sum(killer.histogram.values()) - killer.histogram[
        "redis", "itself, to take it down"
    ] == (form.kills)
    stage.check_nothing_is_left()


def _attempts(rows: list[truth.Row]) -> dict[int, int]:
    """How many experiments took how many attempts."""
    each = Counter(row["body"]["id"] for row in rows if row["kind"] == "attempt_issued")
    return dict(sorted(Counter(each.values()).items()))
