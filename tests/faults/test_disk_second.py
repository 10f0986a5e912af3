"""A second of a kind on one session, and somebody's hand in its exports: the first goes on."""

from __future__ import annotations

import json
import shutil

from tests.e2e import truth
from tests.e2e.stage import Stage, until

PATIENCE_SECONDS = 90.0


def test_a_second_of_anything_is_one_line_and_a_dead_first_leaves_no_lock(stage: Stage) -> None:
    stage.toy(0.5, env={"STAGE_MARK": stage.mark})
    words = ("run", str(stage.repo), "--json", "--max")
    play = stage.start(*words, "60")
    until(lambda: (stage.root / "results.tsv").exists() and len(stage.training()) == 2,
          PATIENCE_SECONDS, "two are at work", play)  # fmt: skip
    assert stage.ask("pause", "--dir", str(stage.root)).code == 0  # it must not end meanwhile
    stack = stage.stack()
    assert stack is not None
    before = dict(stack["children"])

    place = ("--dir", str(stage.root), "--redis", stack["redis_url"])
    for words_of_second, says in (
        ((*words, "60"), f"pid {play.process.pid}"),
        (("recorder", *place), f"another recorder (pid {before['recorder']})"),
        (("orchestrator", *place), f"another orchestrator (pid {before['orchestrator']})"),
        (("ledger", "repair", "--dir", str(stage.root)), f"pid {before['recorder']}"),
    ):
        second = stage.ask(*words_of_second)
        assert second.code == 3, second
        assert len(second.errors.splitlines()) == 1, second
        assert says in second.errors
    now = stage.stack()
    assert now is not None
    assert now["children"] == before, "the first was disturbed"

    play.kill()
    finished = stage.start(*words, "3").wait(PATIENCE_SECONDS)
    assert finished.code == 0, finished
    proposed = [row for row in truth.read_rows(stage.root) if row["kind"] == "proposed"]
    assert len(proposed) >= 4
    truth.check_session(stage.root, len(proposed) - 1)
    stage.check_nothing_is_left()


def test_exports_that_somebody_touched_are_put_right_while_it_runs(stage: Stage) -> None:
    stage.toy(0.8, env={"STAGE_MARK": stage.mark}, pools={"default": {"runners": 1}})
    play = stage.start("run", str(stage.repo), "--max", "3", "--json")
    table, lines = stage.root / "results.tsv", stage.root / "experiments.jsonl"
    until(lambda: table.exists() and table.read_text().count("\n") > 1, PATIENCE_SECONDS,
          "the baseline stands in results.tsv", play)  # fmt: skip

    mine = table.read_bytes().replace(b"keep", b"best") + b"mine"
    table.write_bytes(mine)
    lines.unlink()
    lines.mkdir()
    kept = stage.root / "quarantine" / "results.tsv.1"
    until(lambda: kept.exists() and lines.is_file() and b"keep" in table.read_bytes(),
          PATIENCE_SECONDS, "the exports are put right", play)  # fmt: skip

    assert kept.read_bytes() == mine
    assert (stage.root / "quarantine" / "experiments.jsonl.1").is_dir()
    shutil.rmtree(stage.root / "quarantine")
    assert play.wait(PATIENCE_SECONDS).code == 0
    truth.check_session(stage.root, 3)
    warned = [
        json.loads(x) for x in (stage.root / "logs" / "recorder.log").read_text().splitlines()
    ]
    assert [w["file"] for w in warned if w["event"] == "export_quarantined"] == [
        "results.tsv",
        "experiments.jsonl",
    ]
    stage.check_nothing_is_left()
