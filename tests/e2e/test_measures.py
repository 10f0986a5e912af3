"""A real session whose metric comes from a frozen command, with a constraint and a guard."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.e2e import procs, truth
from tests.e2e.stage import Stage

TRAIN = """\
import os
LR = 0.1
WIDTH = 3.0
os.makedirs("out", exist_ok=True)
with open("out/answer.txt", "w") as file:
    file.write(f"{abs(LR - 0.05) + abs(WIDTH - 2.0)} {LR} {WIDTH}")
print(f"step:9/9 mem:{WIDTH * 100:.0f}MiB")
print("val_bpb: 0.0")
"""
SCORE = "print('val_bpb:', 1 + float(open('out/answer.txt').read().split()[0]))\n"
#: Passes for the baseline; a candidate with another WIDTH below it is refused.
GUARD = """\
import sys, time
gap, rate, width = open("out/answer.txt").read().split()
print("width", width)
sys.exit(0 if float(width) >= 1.5 else 1)
"""


def _bind(stage: Stage, guard: str = GUARD) -> None:
    stage.write({"train.py": TRAIN, "score.py": SCORE, "guard.py": guard})
    stage.bind(
        metric={
            "name": "val_bpb",
            "direction": "minimize",
            "source": {"command": ["python", "score.py", stage.mark]},
        },
        constraints=[{"name": "mem", "max": 350, "regex": r"mem:(\d+)MiB"}],
        guard=["python", "guard.py", stage.mark],
    )


@pytest.mark.timeout(200)
def test_every_verdict_of_a_session_rests_on_what_was_measured(stage: Stage) -> None:
    _bind(stage)
    finished = stage.run(12)
    rows = truth.check_session(stage.root, 12)
    finals, decisions = truth.final_of(rows), truth.decision_of(rows)

    assert finished.code == 0, finished
    best = finals[1]["metric"]
    assert best == pytest.approx(2.05), "what the run prints itself is nothing"
    seen = set()
    for number, decision in sorted(decisions.items()):
        final = finals[number]
        told = (decision["verdict"], decision["reason"])
        seen.add(told)
        log = Path(stage.root, f"iter{number}", "guard.log")
        assert log.exists() == (final["guard"] is not None)
        if final["guard"] is not None:
            width = float(log.read_text().split()[1])
            assert final["guard"] == ("passed" if width >= 1.5 else "failed")
            assert final["measures"]["mem"] == pytest.approx(width * 100, abs=0.5)
        if told[0] == "keep":
            assert final["guard"] == "passed"
            assert final["measures"]["mem"] <= 350
        if told[1] == "constraint":
            assert final["measures"]["mem"] > 350
        if told[1] == "guard":
            assert final["guard"] == "failed"
    assert ("keep", None) in seen
    assert seen & {("discard", "constraint"), ("discard", "guard")}, seen
    assert any(final["guard"] is None for final in finals.values()), "the worst are not guarded"
    _check_logs(stage, finals)
    assert stage.ask("verify", "--dir", str(stage.root)).code == 0
    stage.check_nothing_is_left()


def _check_logs(stage: Stage, finals: dict[int, truth.Row]) -> None:
    """`log` shows what failed, and each part when it is asked for."""
    failed = [number for number, final in finals.items() if final["guard"] == "failed"]
    for number in failed[:1]:
        assert stage.ask("log", str(number), "--dir", str(stage.root)).output.startswith("width ")
    asked = {
        part: stage.ask("log", "1", "--of", part, "--dir", str(stage.root)).output
        for part in ("run", "score", "guard")
    }
    assert asked == {
        "run": "step:9/9 mem:300MiB\nval_bpb: 0.0\n",
        "score": "val_bpb: 2.05\n",
        "guard": "width 3.0\n",
    }
    refused = stage.ask("log", "1", "--of", "nothing", "--dir", str(stage.root))
    assert (refused.code, refused.errors) == (
        2,
        "overnight: --of nothing: there are run, score, guard\n",
    )


@pytest.mark.timeout(200)
def test_a_runner_that_is_killed_during_the_guard_loses_the_attempt_alone(stage: Stage) -> None:
    """What of the guard lives is ended by the next runner; the experiment is run again."""
    _bind(stage, "import time\ntime.sleep(1.5)\n")
    play = stage.start("run", str(stage.repo), "--max", "0", "--json")
    procs.wait_until(lambda: bool(_guards(stage)), 60, "the guard runs", 0.05)
    (runner,) = {name for name in ("r0", "r1") if _busy(stage, name)}
    held = stage.service(runner)
    assert held is not None
    held.kill()
    procs.wait_until(lambda: not _guards(stage), 2.0, "its sandbox is gone", 0.05)
    finished = play.wait(120)
    rows = truth.check_session(stage.root, 0)

    assert finished.code == 0, finished
    assert truth.final_of(rows)[1]["guard"] == "passed"
    assert truth.final_of(rows)[1]["attempt"] == 2
    stage.check_nothing_is_left()


@pytest.mark.timeout(200)
def test_ctrl_c_during_the_guard_cancels_the_experiment(stage: Stage) -> None:
    _bind(stage, "import time\ntime.sleep(60)\n")
    play = stage.start("run", str(stage.repo), "--max", "0", "--json")
    procs.wait_until(lambda: bool(_guards(stage)), 60, "the guard runs", 0.05)
    began = time.monotonic()
    play.process.send_signal(2)
    finished = play.wait(60)

    assert finished.code == 0, finished
    assert time.monotonic() - began < 30
    rows = truth.read_rows(stage.root)
    (result,) = [row["body"] for row in rows if row["kind"] == "result"]
    assert (result["status"], result["metric"], result["guard"]) == ("cancelled", None, None)
    stage.check_nothing_is_left()


def _guards(stage: Stage) -> list[procs.Process]:
    return [p for p in stage.alive() if p.argv[1:3] == ["guard.py", stage.mark]]


def _busy(stage: Stage, name: str) -> bool:
    return (stage.root / "runners" / name / "claimed").exists()
