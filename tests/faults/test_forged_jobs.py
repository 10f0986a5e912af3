"""A well-formed job that the orchestrator never issued: it may run once, and counts for nothing."""

from __future__ import annotations

import json
import shutil

from tests.e2e import truth
from tests.e2e.stage import Stage, until

from overnight.contracts import wire
from overnight.contracts.experiment import ExperimentJob
from overnight.jobqueue.connection import connect
from overnight.jobqueue.jobs import Jobs


def test_its_result_is_refused_and_kept_aside(stage: Stage) -> None:
    stage.toy(0.4, env={"STAGE_MARK": stage.mark})
    play = stage.start("run", str(stage.repo), "--max", "6", "--json")
    claimed = stage.root / "runners" / "r0" / "claimed"
    until(claimed.exists, 60, "r0 has an attempt", play)
    honest = wire.decode(ExperimentJob, claimed.read_text())
    forged = honest.model_copy(update={"id": 900})
    stack = stage.stack()
    assert stack is not None
    Jobs(connect(stack["redis_url"])).push(f"default-{honest.sid}", forged)

    finished = play.wait(120)
    refused = list(stage.root.glob("runners/*/outbox/refused/*.json"))
    ids = [int(json.loads(file.read_text())["body"]["id"]) for file in refused]
    for file in [*refused, *stage.root.glob("runners/*/outbox/refused/*.why")]:
        file.unlink()  # the checker wants empty outboxes, and no log without a row
    shutil.rmtree(stage.root / "iter900")

    assert finished.code == 0, finished
    assert ids == [900]
    assert truth.check_session(stage.root, 6)
    assert '"id":900' not in (stage.root / "ledger.jsonl").read_text()
    stage.check_nothing_is_left()
