"""Poison in a real session: an executor from outside that kills the runner itself, and a person who
sees to the dead letter. The plug-in comes through the ordinary door, by its entry point."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.e2e import truth
from tests.e2e.cli_driver import Cli, make_repo
from tests.e2e.stage import Play, Stage, until
from tests.golden.make import LEDGER, VERSIONS, golden

from overnight.sessions.torture.recount import recount
from overnight.sessions.verify import verify

PLUGIN = '''\
import os, signal
from overnight.plugins import EXECUTORS, load

class Poison:
    """The process executor; an experiment that stands in the file <POISON> kills its runner."""

    def __init__(self, options):
        self._real = load(EXECUTORS, "process")(options)

    def __getattr__(self, name):
        return getattr(self._real, name)

    def prepare(self, spec):
        with open(os.environ["POISON"]) as file:
            if spec.labels["experiment"] in file.read().split():
                os.kill(os.getpid(), signal.SIGKILL)
        return self._real.prepare(spec)
'''


@pytest.fixture
def poisoned(stage: Stage) -> Stage:
    """A toy whose runner takes candidates from the plug-in; `poison` says which kill it."""
    folder = stage.folder / "plugins"
    info = folder / "poison-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "poison.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: poison\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[overnight.executors]\npoison = poison:Poison\n")
    python_path = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    stage.environment = {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in python_path if p),
        "POISON": str(stage.folder / "poison"),
    }
    stage.toy(0.2, pools={"default": {"runners": 1, "executor": "poison"}})
    return stage


def _poison(stage: Stage, *experiments: int) -> None:
    (stage.folder / "poison").write_text(" ".join(map(str, experiments)))


def _verdicts(stage: Stage) -> dict[int, str]:
    """The last decision of each experiment."""
    rows = truth.read_rows(stage.root)
    return {r["body"]["id"]: r["body"]["verdict"] for r in rows if r["kind"] == "decision"}


def _letter(stage: Stage, *words: str, code: int = 0) -> Any:
    done = stage.ask("deadletter", *words, "--dir", str(stage.repo))
    assert done.code == code, done
    assert "Traceback" not in done.errors
    return json.loads(done.output) if code == 0 and "--json" in words else done.errors


def _send_messages_of_other_versions(stage: Stage, play: Play) -> None:
    """A job and a ledger message of a newer version come in; nobody stops, both are answered."""
    stack = stage.stack()
    assert stack is not None
    sid = json.loads((stage.root / "session.json").read_text())["sid"]
    with redis.Redis.from_url(stack["redis_url"]) as client:
        data = json.dumps(["overnight.experiment", None, [golden("job", 1)], {}])
        name, pool = f"{sid}-7-2", f"experiments.default-{sid}"
        client.hset(f"rq:job:{name}", mapping={"data": data, "origin": pool})
        client.lpush(f"rq:queue:{pool}", name)
        message = golden("message", 1)
        client.xadd(f"overnight:{sid}:ledger.in", {"key": "result:7:2:r0", "message": message})
        key = f"overnight:{sid}:ack:result:7:2:r0"
        until(lambda: client.get(key), 30, "the message is answered", play)
        ack = json.loads(client.get(key))
    assert ack["refused"]
    assert "written by a newer version of Overnight" in ack["reason"]


def test_poison_is_bounded_and_a_person_sees_to_it(poisoned: Stage) -> None:
    _poison(poisoned, 2)
    play = poisoned.start("run", str(poisoned.repo), "--max", "500", "--json")
    until(lambda: {2, 4} <= _verdicts(poisoned).keys(), 120, "the others go on", play)
    assert _verdicts(poisoned)[2] == "infra"

    _send_messages_of_other_versions(poisoned, play)
    until(lambda: len(_letter(poisoned, "list", "--json")) == 2, 60, "the job is parked", play)
    two, job = _letter(poisoned, "list", "--json")
    assert [two["ref"], two["kind"], two["attempt"]] == ["2", "experiment", 3]
    assert two["why"].startswith("lost: ")
    assert (job["kind"], job["experiment"], job["attempt"]) == ("job", 7, 2)
    assert "ExperimentJob v3 was written by a newer version" in job["why"]

    _poison(poisoned)
    _letter(poisoned, "drop", job["ref"])
    _letter(poisoned, "requeue", "2", "--why", "the plug-in is mended")
    waited = poisoned.ask("wait", "2", "--dir", str(poisoned.repo), "--json")
    assert waited.code == 0, waited
    assert waited.last["status"] in ("keep", "discard")
    assert waited.last["attempt"] == 5

    assert poisoned.ask("drain", "--dir", str(poisoned.repo)).code == 0
    assert play.wait(60).code == 0
    assert _letter(poisoned, "list", "--json") == []
    _check_the_end(poisoned)


def _check_the_end(stage: Stage) -> None:
    rows = truth.read_rows(stage.root)
    attempts = [r["body"] for r in rows if r["kind"] == "result" and r["body"]["id"] == 2]
    assert [a["reason"] for a in attempts] == ["lost"] * 3 + ["gave_up", None]
    assert len([r for r in rows if r["body"].get("action") == "requeue"]) == 1
    assert verify(stage.root).ok
    assert recount(stage.root).findings == []
    lines = (stage.root / "experiments.jsonl").read_text().splitlines()
    exported = {line["id"]: line["status"] for line in map(json.loads, lines)}
    assert exported == _verdicts(stage)
    stage.check_nothing_is_left()


def test_a_poisoned_baseline_ends_the_session_with_its_reason(poisoned: Stage) -> None:
    _poison(poisoned, 1)
    finished = poisoned.run(3)

    assert finished.code == 1, finished
    assert finished.last["state"] == "closed"
    assert finished.last["why"].startswith(
        "infra:gave_up too many attempts failed by our fault; the last one: lost: "
    )
    assert poisoned.alive() == []


@pytest.mark.parametrize("verb", ["status", "run", "verify", "ledger repair", "results"])
def test_a_ledger_of_a_newer_version_is_told_as_such(tmp_path: Path, verb: str) -> None:
    """By every verb, and it stays as it is to the byte."""
    repo = make_repo(tmp_path / "repo")
    root = repo / "sandbox"
    root.mkdir()
    (root / "session.json").write_text(golden("session"))
    lines = LEDGER.read_text().splitlines(keepends=True)
    newer = {**json.loads(lines[-1]), "v": VERSIONS["row"] + 1, "seq": len(lines) + 1}
    ledger = root / "ledger.jsonl"
    ledger.write_text("".join(lines) + truth.canonical(newer) + "\n")
    before = ledger.read_bytes()
    place = [repo] if verb == "run" else ["--dir", repo]

    done = Cli(tmp_path / "private").inside(*verb.split(), *place)

    assert done.code == (1 if verb == "verify" else 3), done
    assert "written by a newer version of Overnight" in done.out + done.err
    assert "ledger repair" not in done.err
    assert len(done.err.splitlines()) == (0 if verb == "verify" else 1)
    assert ledger.read_bytes() == before
    assert not (root / "quarantine").exists()
