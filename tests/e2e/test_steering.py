"""One real session whose ideas wait for a person: approved, rejected, steered, stopped, paid."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

from tests.e2e.stage import Play, Stage, until

ADVICE = "smaller steps,\nplease"
QUESTION = "what does the learning rate do?"
PROGRAM = """\
# Goal
val_bpb below 1.0
## Baseline
1.26, measured
## Directions
1. the learning rate
## Already tried
nothing
## Constraints
budget 5 seconds, pace.py is frozen, no new packages, 1 GB of memory, one change an experiment
"""
DEADLINE = 4.0  #: seconds that an experiment may take
LIMIT = 6.0  #: seconds that all may take together


def bind(stage: Stage, **policy: object) -> None:
    stage.bind(
        deadline_seconds=DEADLINE,
        research={"question": QUESTION},
        pools={"default": {"runners": policy.pop("runners", 1), "usd_per_hour": 3600.0}},
        policy={"approval": "hypothesis", **policy},
    )


def events(play: Play, name: str) -> list[dict[str, Any]]:
    whole = play.output.read_text().rpartition("\n")[0]  # one may just be written
    lines = map(json.loads, whole.splitlines())
    return [line for line in lines if line.get("event") == name]


def ledger(stage: Stage, root: str = "sandbox") -> list[dict[str, Any]]:
    text = (stage.repo / root / "ledger.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def bodies(stage: Stage, kind: str, root: str = "sandbox") -> list[dict[str, Any]]:
    return [row["body"] for row in ledger(stage, root) if row["kind"] == kind]


def asked(stage: Stage, *words: str) -> dict[str, Any]:
    done = stage.ask(*words, "--dir", str(stage.repo), "--json")
    assert done.code == 0, str(done)
    return done.last


def waits_for(stage: Stage, play: Play, number: int) -> None:
    def waiting() -> bool:
        return bool(events(play, "approval")) and events(play, "approval")[-1]["id"] == number

    until(waiting, 30, f"experiment {number} waits for approval", play)


def test_a_person_steers_a_session_from_the_first_idea_to_the_last_cent(stage: Stage) -> None:
    stage.toy(0.1)
    bind(stage)
    at = ("--dir", str(stage.repo))
    play = stage.start("run", str(stage.repo), "--json")

    waits_for(stage, play, 2)
    (told,) = events(play, "estimate")
    assert (told["measured"], told["until"], told["by_hand"]) == (False, None, True)
    assert stage.training() == [], "it must not run before somebody approved it"
    status = asked(stage, "status")
    assert [idea["id"] for idea in status["approvals"]] == [2]
    assert (status["in_flight"], status["question"]) == (0, QUESTION)
    late = stage.ask("wait", "2", "--timeout", "0", *at)
    assert late.code == 3, str(late)
    assert "2 waits for approval: overnight approve 2 --dir" in late.errors

    assert stage.ask("approve", "2", *at).code == 0
    waits_for(stage, play, 3)
    assert stage.ask("wait", "2", "--timeout", "0", *at).code == 0
    assert stage.ask("approve", "2", *at).code == 0, "twice is once"
    assert "was approved already" in stage.ask("reject", "2", *at).errors
    assert stage.ask("steer", ADVICE, *at).code == 0
    assert stage.ask("reject", "3", "--why", "tried last year", *at).code == 0
    waits_for(stage, play, 4)
    shown = asked(stage, "show", "3")
    assert (shown["status"], shown["reason"], shown["detail"]) == (
        "rejected", "by_person", "tried last year",
    )  # fmt: skip
    assert shown["steering"] == []
    assert asked(stage, "show", "4")["steering"] == [ADVICE]

    began = time.monotonic()
    play.process.send_signal(signal.SIGINT)
    stopped = play.wait(30)
    assert stopped.code == 0, str(stopped)
    assert time.monotonic() - began < 10, "nobody is waited for"
    assert stopped.last["interrupted"] == 1
    stage.check_nothing_is_left()
    for words in (("approve", "4"), ("steer", "x"), ("wait", "4")):
        refused = stage.ask(*words, *at)
        assert refused.code == 3, str(refused)
        assert "no stack runs for this session" in refused.errors

    limits = {"usd": LIMIT}
    bind(stage, approve_timeout=0.5, approve_then="run", limits=limits, runners=2)
    again = stage.start("run", str(stage.repo), "--json")
    ended = again.wait(60)
    assert ended.code == 0, str(ended)
    assert ended.last["state"] == "closed"
    assert ended.last["why"].startswith("policy.limits.usd: ")
    (told,) = events(again, "estimate")
    assert (told["measured"], told["until"]) == (True, "policy.limits.usd")
    results = bodies(stage, "result")
    spent = sum(result["runtime_s"] for result in results)
    assert LIMIT - DEADLINE < spent <= LIMIT + 0.5, "a kill takes a moment"
    by_clock = [b for b in bodies(stage, "control") if b["by"] == "orchestrator"]
    assert {(b["action"], b["why"]) for b in by_clock} == {("approve", "no answer in 0.5 s")}
    assert by_clock[0]["id"] == 4, "it is asked for again"
    ran = {result["id"] for result in results}
    assert 3 not in ran
    assert {b["id"] for b in by_clock} | {1, 2} == ran
    assert len((stage.root / "results.tsv").read_text().splitlines()) == 1 + len(ran)
    assert stage.ask("verify", *at).code == 0
    stage.check_nothing_is_left()


def test_a_new_session_begins_with_the_best_of_another(stage: Stage) -> None:
    stage.toy(0.02, policy={"require_program": True})
    refused = stage.run(3)
    assert refused.code == 2
    assert "no program.md" in refused.errors
    assert not stage.root.exists()
    stage.write({"program.md": PROGRAM})
    first = stage.run(6, "--tag", "first")
    assert first.code == 0, str(first)
    stage.write({"train.py": stage.repo.joinpath("train.py").read_text() + "# newer\n"})
    stage.bind(budget=9)

    play = stage.start(
        "run", str(stage.repo), "--tag", "next", "--from", "first", "--max", "0", "--json"
    )
    done = play.wait(60)
    assert done.code == 0, str(done)

    best = first.last["best"]
    trees = {b["id"]: b["tree_digest"] for b in bodies(stage, "proposed")}
    (opened,) = bodies(stage, "session_opened", "sandbox-next")
    (baseline,) = bodies(stage, "proposed", "sandbox-next")
    assert baseline["tree_digest"] == trees[best["id"]]
    assert done.last["baseline"] == best["metric"]
    assert (opened["origin"]["tag"], opened["origin"]["id"]) == ("first", best["id"])
    notes = "\n".join(note["text"] for note in events(play, "note"))
    assert "edited since first began, and not in this session: train.py" in notes
    assert "budget: 5.0 -> 9.0" in notes
    assert "# newer" in stage.repo.joinpath("train.py").read_text()
    assert (stage.repo / "sandbox-next" / "program.md").read_text() == PROGRAM
    assert stage.ask("verify", "--dir", str(stage.repo / "sandbox-next")).code == 0
    stage.check_nothing_is_left()
