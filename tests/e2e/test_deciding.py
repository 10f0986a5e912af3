"""Real sessions by a proposer from outside: what is kept, mended, blamed on the environment."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from tests.e2e import truth
from tests.e2e.stage import Stage, until

PLUGIN = '''\
import json, os
from overnight.contracts.errors import ProposerError
from overnight.contracts.experiment import Proposal

class Scripted:
    """Plays a list of [hypothesis, text of train.py]; `mend` answers a crash, `!x` removes x."""

    name, repairs = "scripted", True

    def __init__(self, options):
        self._lines = options["lines"]

    def propose(self, history):
        try:
            told, text = self._lines[history.next_id - 2]
        except IndexError:
            raise ProposerError("the script is over") from None
        if told.startswith("!"):
            told, path = told[1:].split(" ", 1)
            if os.path.exists(path):
                os.rename(path, path + ".away")
        fields = {"hypothesis": told, "changes": {"train.py": text}, "parent": history.incumbent}
        if told == "mend":
            assert "NameError" in history.repair.log_tail, history.repair
            fields["repairs"] = history.repair.id
        return Proposal(proposer="scripted", **fields)
'''

#: 30 statements that do nothing, in places that are far apart.
BODY = "\n".join(f"x{n} = {n}\n# {n}\n#\n#\n#" for n in range(30)) + "\n"
HACKS = "\n".join(f"_hack{n} = {n}" for n in range(20)) + "\n"


def _train(metric: float, body: str = BODY, vram: float = 100.0, params: float = 5.0) -> str:
    return (
        f"{body}print('---')\nprint('val_bpb: {metric}')\nprint('peak_vram_mb: {vram}')\n"
        f"print('params: {params}')\n"
    )


@pytest.fixture
def scripted(stage: Stage) -> Stage:
    """A stage that finds the plug-in."""
    folder = stage.folder / "plugins"
    info = folder / "scripted-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "scripted.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[overnight.proposers]\nscripted = scripted:Scripted\n")
    python_path = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    stage.environment = {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in python_path if p)
    }
    return stage


def _bind(stage: Stage, lines: list[tuple[str, str]], **keys: Any) -> None:
    stage.bind(
        proposer={"name": "scripted", "options": {"lines": [list(line) for line in lines]}},
        pools={"default": {"runners": 1}},
        **keys,
    )


def _results(stage: Stage) -> list[dict[str, Any]]:
    done = stage.ask("results", "--dir", str(stage.repo), "--json")
    rows: list[dict[str, Any]] = json.loads(done.output)
    return sorted(rows, key=lambda row: row["id"])


def _said(row: dict[str, Any]) -> str:
    return ":".join(filter(None, (row["status"], row["reason"])))


def test_a_night_of_the_new_policy(scripted: Stage) -> None:
    lines = [
        ("hacks", _train(0.9969, BODY + HACKS)),
        ("typo", _train(0.95).replace("print('---')", "prin('---')")),
        ("mend", _train(0.95)),
        ("delete", _train(0.95, BODY[: len(BODY) // 2])),
        ("too many parameters", _train(0.5, params=50.0)),
        ("wider", _train(0.9, vram=200.0)),
        ("rewrite", _train(0.89, BODY.replace("= 1", "= 2"))),
    ]
    scripted.write({"train.py": _train(0.9979)})
    _bind(
        scripted, lines,
        constraints=[{"name": "params", "max": 10.0}], policy={"prefetch": 0},
    )  # fmt: skip
    done = scripted.run(len(lines))

    assert done.code == 0, done
    truth.check_session(scripted.root, len(lines))
    rows = _results(scripted)
    assert [_said(row) for row in rows] == [
        "keep", "discard:not_worth_it", "crash:exit_code", "keep", "keep:simplification",
        "discard:constraint", "keep", "keep",
    ]  # fmt: skip
    assert [row["flags"] for row in rows][6:] == [["vram_warning"], ["many_changes"]]
    assert (rows[3]["repairs"], rows[3]["parent"]) == (3, 1)
    assert rows[7]["parent"] == 7
    table = (scripted.root / "results.tsv").read_text().splitlines()
    assert [line.split("\t")[3:] for line in table[1:]] == [
        ["keep", "baseline"], ["discard", "hacks"], ["crash", "typo"], ["keep", "mend"],
        ["keep", "delete"], ["discard", "too many parameters"], ["keep", "wider"],
        ["keep", "rewrite"],
    ]  # fmt: skip
    told = scripted.ask("results", "--dir", str(scripted.repo)).output
    for words in (
        "gain not worth its added code", "simpler and as good", "breaks a constraint",
        "keep (much more VRAM)", "keep (many changes at once)",
    ):  # fmt: skip
        assert words in told
    shown = scripted.ask("show", "6", "--dir", str(scripted.repo)).output
    assert "because   params is 50, `constraints` allows at most 10" in shown
    assert "mends     003" in scripted.ask("show", "4", "--dir", str(scripted.repo)).output
    assert scripted.ask("verify", "--dir", str(scripted.repo)).code == 0
    scripted.check_nothing_is_left()


def test_a_broken_environment_pauses_and_goes_on_once_it_is_mended(scripted: Stage) -> None:
    """The data goes away: ideas crash alike, the best run again does too. Nobody is blamed."""
    data = scripted.folder / "data" / "corpus.txt"
    data.parent.mkdir()
    data.write_text("text")

    def train(metric: float) -> str:
        return f"open({str(data)!r}).read()\n" + _train(metric)

    lines = [("good", train(0.9)), (f"!gone {data}", train(0.8))]
    lines += [(f"idea {n}", train(0.8 - n / 100)) for n in range(4, 10)]
    scripted.write({"train.py": train(1.0)})
    _bind(scripted, lines, reads=[str(data.parent)], policy={"prefetch": 0, "repair_tries": 0})
    play = scripted.start("run", str(scripted.repo), "--max", "4", "--json")
    until(lambda: _state(scripted) == "paused", 60, "the session pauses itself", play)
    status = json.loads(scripted.ask("status", "--dir", str(scripted.repo), "--json").output)

    assert status["why"].startswith("environment broken: ideas 3, 4, 5 crashed alike (")
    assert "No such file" in status["why"]
    said = [_said(row) for row in _results(scripted)]
    assert said[2:] == ["infra:environment"] * 4
    assert status["candidates"] == 1
    assert status["best"]["id"] == 2

    os.rename(f"{data}.away", data)
    assert scripted.ask("resume", "--dir", str(scripted.repo)).code == 0
    done = play.wait(60)

    assert done.code == 0, done
    truth.check_session(scripted.root, 8)
    rows = _results(scripted)
    assert [_said(row) for row in rows][6:] == ["keep"] * 3
    assert (rows[5]["role"], rows[5]["of"]) == ("replicate", 2)
    table = (scripted.root / "results.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in table[1:]] == [
        "iter1",
        "iter2",
        "iter7",
        "iter8",
        "iter9",
    ]
    assert scripted.ask("verify", "--dir", str(scripted.repo)).code == 0
    scripted.check_nothing_is_left()


def _state(stage: Stage) -> str:
    done = stage.ask("status", "--dir", str(stage.repo), "--json")
    return str(json.loads(done.output)["state"]) if done.code == 0 else ""


def test_a_baseline_out_of_its_bounds_ends_with_one_line(scripted: Stage) -> None:
    scripted.write({"train.py": _train(1.0, params=50.0)})
    _bind(scripted, [], constraints=[{"name": "params", "max": 10.0}])
    play = scripted.start("run", str(scripted.repo), "--max", "1")
    done = play.wait(60)

    assert done.code == 1, done
    assert "params is 50, `constraints` allows at most 10" in done.output + done.errors
    assert "Traceback" not in done.output + done.errors
    scripted.check_nothing_is_left()
