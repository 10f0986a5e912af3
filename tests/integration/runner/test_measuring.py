"""Each source of a metric, constraints and the guard, by real attempts in real sandboxes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from overnight.contracts.errors import SessionHeldError
from overnight.contracts.status import Status
from overnight.runner.hardware import DeviceLock
from overnight.sessions.once import Once, Wanted, run_once

JSON = "{json: out/all_results.json, key: eval.loss}"
WRITES = "import json, os\nos.makedirs('out', exist_ok=True)\n"
DUMP = WRITES + "json.dump({'eval': {'loss': 0.75}}, open('out/all_results.json', 'w'))\n"
LEAVES = WRITES + "open('out/answers.txt', 'w').write('4')\n"
SCORE = "import json\nprint('loss:', float(open('out/answers.txt').read()) / 8)\n"


class Place:
    """A folder with bindings, outside git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "repo").mkdir()

    def once(self, train: str, source: str = "stdout_line", more: str = "", **files: str) -> Once:
        repo = self.root / "repo"
        loop = (
            f"metric: {{name: loss, direction: minimize, source: {source}}}\n"
            f"run_cmd: [python, train.py]\neditable_files: train.py\nbudget: 10\n{more}"
        )
        for name, text in {"train.py": train, "loop.run.yaml": loop, **files}.items():
            path = repo / name.replace("__", "/").replace("_py", ".py").replace("_json", ".json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        environ = {**os.environ, "OVERNIGHT_DEVICE_LOCKS": str(self.root / "locks")}
        done = run_once(Wanted(repo=repo, flags={}, environ=environ), lambda start: None)
        assert [p.name for p in repo.iterdir() if p.name.startswith((".", "sandbox"))] == []
        return done


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def told(done: Once) -> tuple[str, str | None, float | None]:
    return done.result.status.value, done.result.reason, done.result.metric


def test_a_pattern_finds_the_metric_and_the_constraint(place: Place) -> None:
    train = "for s in range(9):\n    print(f'step:{s}/9 val_loss:{2 - s / 10} mem:{s * 10}MiB')\n"
    more = "constraints: [{name: mem, max: 50, regex: 'mem:(\\d+)MiB'}]\n"
    done = place.once(train, r"{regex: 'val_loss:(\S+)', take: min}", more)

    assert told(done) == ("scored", None, 1.2)
    assert done.result.measures == {"mem": 80.0}
    assert not done.good
    assert (done.decision.verdict, done.decision.reason) == (Status.DISCARD, "constraint")
    assert "mem is 80" in done.why


def test_a_number_in_a_file_that_the_run_wrote_is_the_metric(place: Place) -> None:
    done = place.once(DUMP, JSON)

    assert told(done) == ("scored", None, 0.75)
    assert done.good


def test_a_file_from_before_does_not_count(place: Place) -> None:
    """It lay in the tree, in a folder that is frozen but for it, and the run wrote none."""
    stale = json.dumps({"eval": {"loss": 0.001}})
    done = place.once("print('done')\n", JSON, out__all_results_json=stale, out__note_json="{}")

    assert told(done) == ("crash", "no_metric", None)
    assert done.result.detail.startswith("the run wrote no out/all_results.json")
    again = place.once(DUMP, JSON)
    assert told(again) == ("scored", None, 0.75)
    mine = place.root / "repo" / "out" / "all_results.json"
    assert mine.read_text() == stale, "the user's own file is never touched"


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (WRITES + "os.symlink('/etc/hostname', 'out/all_results.json')\n", "no_metric"),
        (WRITES + "os.mkfifo('out/all_results.json')\n", "no_metric"),
        (DUMP + "os.link('out/all_results.json', 'out/twin')\n", "no_metric"),
        (DUMP.replace("0.75", "float('nan')"), "nonfinite"),
        (DUMP.replace("0.75", "'0.75'"), "metric_unparsable"),
        (DUMP + "raise SystemExit(3)\n", "exit_code"),
    ],
)
def test_a_file_that_can_not_be_believed_is_a_crash(place: Place, train: str, reason: str) -> None:
    assert told(place.once(train, JSON)) == ("crash", reason, None)


def test_a_frozen_command_scores_what_the_run_left(place: Place) -> None:
    done = place.once(LEAVES + "print('loss: 0')\n", "{command: python score.py}", score_py=SCORE)

    assert told(done) == ("scored", None, 0.5), "what the run prints itself is nothing"
    assert done.result.survivors == 0
    assert set(done.result.timings) >= {"run", "score"}


def test_a_run_can_not_judge_itself(place: Place) -> None:
    """It changes what would score it, and leaves modules that would be imported instead."""
    cheat = "print('loss: 0')\nraise SystemExit(0)\n"
    train = LEAVES + (
        f"cheat = {cheat!r}\n"
        "for name in ('score.py', 'json.py', 'sitecustomize.py', 'x/__init__.py'):\n"
        "    try:\n"
        "        os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n"
        "        open(name, 'w').write(cheat)\n"
        "    except OSError:\n"
        "        pass\n"
    )
    assert told(place.once(train, "{command: python score.py}", score_py=SCORE))[2] == 0.5


@pytest.mark.parametrize(
    ("score", "status", "reason", "words"),
    [
        ("raise ValueError('empty answers')", "crash", "exit_code", "ValueError: empty answers"),
        ("print('los: 1')", "crash", "no_metric", "no line 'loss: <number>'"),
        ("print('loss: nan')", "crash", "nonfinite", "'loss: nan'"),
        (
            "import urllib.request as u\nu.urlopen('http://example.org')",
            "crash",
            "exit_code",
            "candidates have no network",
        ),
    ],
)
def test_a_command_that_fails_is_the_candidates_crash(
    place: Place, score: str, status: str, reason: str, words: str
) -> None:
    done = place.once(LEAVES, "{command: python score.py}", score_py=score)

    assert told(done) == (status, reason, None)
    assert done.result.detail.startswith("metric's command: ")
    assert words in done.result.detail
    assert done.result.signature is not None
    assert done.result.signature.startswith("score:")


def test_a_command_is_not_asked_about_a_run_that_crashed(place: Place) -> None:
    done = place.once(LEAVES + "1 / 0\n", "{command: python score.py}", score_py=SCORE)

    assert told(done) == ("crash", "exit_code", None)
    assert done.result.detail == "ZeroDivisionError: division by zero"
    assert "score" not in done.result.timings
    assert done.result.log_tail.endswith("ZeroDivisionError: division by zero")


GUARD = "import sys\nsys.exit(0 if open('out/answers.txt').read() == '4' else 'wrong answer')\n"


@pytest.mark.parametrize(
    ("train", "guard", "good"),
    [
        (LEAVES + "print('loss: 1')\n", "passed", True),
        (LEAVES.replace("'4'", "'5'") + "print('loss: 1')\n", "failed", False),
        (LEAVES + "raise SystemExit(1)\n", None, False),
    ],
)
def test_the_guard_has_the_last_word_on_a_scored_run(
    place: Place, train: str, guard: str | None, good: bool
) -> None:
    done = place.once(train, more="guard: python guard.py\n", guard_py=GUARD)

    assert (done.result.guard, done.good) == (guard, good)
    if guard == "failed":
        assert done.result.status is Status.SCORED, "measured all the same"
        assert (done.decision.verdict, done.decision.reason) == (Status.DISCARD, "guard")
        assert done.why == "guard: exit code 1: wrong answer"
        assert done.log_tail == "wrong answer"


def test_a_hanging_guard_is_a_failed_one_and_nothing_of_it_lives(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overnight.contracts.experiment.LEAST_CHECK_SECONDS", 0.5)
    seconds = f"600.{os.getpid()}"
    guard = f"import subprocess\nsubprocess.run(['sleep', '{seconds}'])\n"
    more = "guard: python guard.py\nkill_factor: 1\ndeadline_seconds: 2\n"
    done = place.once("print('loss: 1')\n", more=more, guard_py=guard)

    assert done.result.guard == "failed"
    assert "killed after 2." in done.why
    found = subprocess.run(["pgrep", "-f", f"sleep {seconds}"], capture_output=True, check=False)
    assert found.stdout == b""


def test_a_want_of_the_network_is_told_in_one_line(place: Place) -> None:
    train = "import urllib.request as u\nu.urlopen('https://data.example.org/train.bin')\n"
    done = place.once(train)

    assert told(done)[:2] == ("crash", "exit_code")
    assert done.why.startswith(
        "wanted data.example.org (train.bin), but candidates have no network"
    )
    assert "wanted_network" in done.result.flags


def test_memory_of_a_crash_is_short_and_from_the_end(place: Place) -> None:
    train = "for i in range(9999):\n    print('line', i, '\\x1b[31mred')\nraise ValueError('end')\n"
    tail = place.once(train).result.log_tail

    assert len(tail) <= 4000
    assert tail.endswith("ValueError: end")
    assert "line 9998 red" in tail
    assert "\x1b" not in tail


def test_a_session_that_holds_every_device_is_not_disturbed(place: Place) -> None:
    held = [DeviceLock(place.root / "locks", f"cpu:{n}") for n in range(os.cpu_count() or 1)]
    assert all(lock.try_acquire() for lock in held)
    with pytest.raises(SessionHeldError, match="every device is in use"):
        place.once("print('loss: 1')\n")
    assert {p.name for p in (place.root / "repo").iterdir()} == {"loop.run.yaml", "train.py"}
    for lock in held:
        lock.release()
