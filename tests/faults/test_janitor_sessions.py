"""A stack killed with two runners at work, then started with one: nothing of the other stays."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from tests.e2e import procs, truth
from tests.e2e.stage import RECORDS, Stage, until


def _records(stage: Stage) -> list[str]:
    """Tokens of the session's sandboxes that have a record now."""
    return [path.stem.removeprefix("sandbox-") for path in stage._records()]


def _orphan(stage: Stage, token: str) -> procs.Process:
    """A process that carries *token* and that nobody started any more."""
    words = ["sh", "-c", 'TOKEN="$0" sleep 300 >/dev/null 2>&1 & echo $!', token]
    env = {"STAGE_MARK": stage.mark, "PATH": os.environ["PATH"]}
    started = subprocess.run(words, env=env, stdout=subprocess.PIPE, check=True)
    found = procs.look(int(started.stdout))
    assert found is not None
    return found


@pytest.mark.timeout(180)
def test_a_slot_that_is_gone_leaves_no_process_no_claim_and_no_folder(stage: Stage) -> None:
    stage.toy(1.0, env={"STAGE_MARK": stage.mark})
    play = stage.start("run", str(stage.repo), "--max", "3", "--json")
    claims = [stage.root / "runners" / slot / "claimed" for slot in ("r0", "r1")]
    until(lambda: len(stage.training()) == 2, 60, "two candidates train", play)
    until(lambda: all(claim.exists() for claim in claims), 10, "both are claimed", play)
    tokens = _records(stage)
    play.kill()
    procs.wait_until(lambda: not stage.alive(), 5, "all died with their supervisor")
    assert all(claim.exists() for claim in claims)
    assert len(tokens) == 2

    # What is worse than a clean death: a record that nobody can read, and processes that outlived
    # theirs, one with a record and one without.
    damaged = RECORDS / f"sandbox-{tokens[0]}.json"
    damaged.write_text('{"labels": {"sid"')
    gone = subprocess.Popen(["true"])
    gone.wait()
    unrecorded = f"{tokens[0][:8]}{gone.pid:08x}{os.urandom(8).hex()}"
    orphans = [_orphan(stage, token) for token in (*tokens, unrecorded)]
    stranger = _orphan(stage, f"{'0' * 8}{unrecorded[8:]}")  # another record folder's
    began = time.monotonic()

    finished = stage.run(3, "--runners", "1")
    print(f"\nover after {time.monotonic() - began:.1f} s")
    rows = truth.check_session(stage.root, 3)
    results = [row["body"] for row in rows if row["kind"] == "result"]
    lost = sorted(r["sender"] for r in results if r["reason"] == "lost")
    status = stage.ask("status", "--dir", str(stage.root), "--json").last
    alive = [orphan.alive for orphan in orphans]
    was_left = stranger.alive
    stranger.kill()

    assert finished.code == 0, finished
    assert lost == ["r0", "r1"], "each claim was reported by who came after, none by the 15 s rule"
    assert {r["status"] for r in results} <= {"scored", "infra"}
    assert alive == [False, False, False]
    assert was_left, "what another folder's token names is somebody else's"
    assert not damaged.exists()
    assert (status["in_flight"], status["interrupted"]) == (0, 0)
    stage.check_nothing_is_left()
