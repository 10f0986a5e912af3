"""Real sessions of search: on the track that is not ML, as asked, and with nothing to tune."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.e2e.cli_driver import LOOP, Cli, make_repo

TRACK = Path(__file__).parents[2] / "harness" / "tracks" / "code_speed"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    made.env["PYTHONDONTWRITEBYTECODE"] = "1"
    return made


def test_search_makes_the_track_that_is_not_ml_faster(cli: Cli, tmp_path: Path) -> None:
    repo = tmp_path / "code_speed"
    shutil.copytree(TRACK, repo)
    cli.env["OVERNIGHT_BUDGET"] = "0.3"
    ran = cli("run", repo, "--max", 3, "--json", seconds=150.0)
    assert ran.code == 0, ran.err
    ended = ran.lines[-1]
    rows = {row["id"]: row for row in cli.inside("results", "--dir", repo, "--json").json}

    assert [rows[n]["hypothesis"].split(":")[0] for n in (2, 3, 4)] == [
        'LAYOUT "dict" -> "list"', "HALF False -> True", "CELLS 8 -> 20",
    ]  # fmt: skip
    assert {row["status"] for row in rows.values()} <= {"keep", "discard"}, rows
    assert ended["best"]["metric"] == min(row["metric"] for row in rows.values()), rows
    # A machine that gets busier slows each run, and the frozen check in it as much.
    took = {n: relative_time(cli.inside("log", n, "--dir", repo).out) for n in rows}
    print(took)
    assert min(took[3], took[4]) < 0.8 * took[1], took


def relative_time(log: str) -> float:
    """Median of the solution over that of the frozen check, in one run."""
    found = dict(re.findall(r"(?m)^(median_ms|reference_ms): +(\S+)$", log))
    return float(found["median_ms"]) / float(found["reference_ms"])


def test_a_person_s_hypothesis_is_experiment_two_and_no_tunables_is_said(
    cli: Cli, tmp_path: Path
) -> None:
    asked = "research: {starting_hypothesis: 'raise LR to 0.45'}\n"
    repo = make_repo(tmp_path / "repo", sleep=0.0, loop=LOOP + asked)
    ran = cli("run", repo, "--max", 1, "--json")
    shown = cli.inside("show", 2, "--dir", repo, "--json").json

    assert ran.code == 0, ran.err
    assert ran.lines[-1]["best"] == {"id": 2, "metric": 1.05}
    assert shown["hypothesis"] == "LR 0.1 -> 0.45: the starting hypothesis of this session"

    plain = make_repo(tmp_path / "plain", train="print('val_bpb: 1.5')\n")
    ran = cli("run", plain, "--max", 3)

    assert ran.code == 0
    assert "exhausted (nothing to tune in train.py: name constants there" in ran.out
