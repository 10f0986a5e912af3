"""program.md and report around a real session, by the command line alone."""

from __future__ import annotations

from pathlib import Path

from tests.e2e import procs
from tests.e2e.cli_driver import Cli, make_repo

KNOBS = """\
import time
LR = 0.1
WARMUP = 0.3
time.sleep(SLEEP)
print("---")
print(f"val_bpb: {abs(LR - 0.5) + abs(WARMUP - 0.2) + 1:.6f}")
print("peak_vram_mb: 512.0")
"""


def test_a_plan_a_session_its_report_and_the_next_plan(tmp_path: Path) -> None:
    cli, repo = Cli(tmp_path), make_repo(tmp_path / "repo", sleep=0.05, train=KNOBS)
    before = (repo / "train.py").read_text()

    assert cli.inside("program", "check", repo).code == 2
    new = cli("program", "new", repo)
    assert new.code == 0, new
    plan = (repo / "program.md").read_text()
    assert "`val_bpb` 1.5000, peak VRAM 0.5 GB" in plan
    assert cli.inside("program", "check", repo).code == 0
    again = cli.inside("program", "new", repo)
    assert again.code == 2
    assert "is there and stays as it is" in again.err
    assert not (repo / "sandbox").exists()

    ran = cli("run", repo, "--max", 4, "--json", seconds=120)
    assert ran.code == 0, ran
    assert "program.md" not in cli.inside("status", "--dir", repo).out
    (repo / "program.md").write_text(plan + "\nOne thing more.\n")
    assert "program.md changed since the session began" in cli.inside("status", "--dir", repo).out

    points = cli.inside("report", "--dir", repo)
    assert points.code == 0, points
    starts = [line[:18].strip() for line in points.out.splitlines() if line[:1].strip()]
    assert starts == ["best improvement", "repeated failures", "add to 'tried'", "try next"]
    best = ran.lines[-1]["best"]
    assert points.out.startswith(f"best improvement   {best['id']:03d} val_bpb 1.5000 -> ")
    told = cli.inside("report", "--full", "--json", "--html", tmp_path / "r.html", "--dir", repo)
    assert told.json["best"] == best
    assert told.json["hardware"]
    constants = {row["name"]: row["baseline"] for row in told.json["research"]["configuration"]}
    assert constants == {"LR": "0.1", "WARMUP": "0.3"}
    assert "<svg" in (tmp_path / "r.html").read_text()
    refused = cli.inside("report", "--html", repo / "train.py", "--dir", repo)
    assert refused.code == 2
    assert "is no report" in refused.err

    assert cli.inside("program", "next", repo).code == 0
    following = (repo / "program.next.md").read_text()
    assert f"experiment {best['id']:03d} of session" in following
    assert "One thing more." in following
    assert cli.inside("program", "next", repo).code == 0
    (repo / "program.next.md").write_text(following + "mine\n")
    assert cli.inside("program", "next", repo).code == 2
    assert (repo / "program.next.md").read_text() == following + "mine\n"
    assert cli.inside("program", "next", repo, "--to", tmp_path / "other.md").code == 0

    assert (repo / "train.py").read_text() == before
    procs.wait_until(lambda: not procs.marked(str(tmp_path)), 5, "no process is left", 0.1)


def test_a_baseline_that_gives_no_number_leaves_no_plan(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    repo = make_repo(tmp_path / "repo", sleep=0, train="raise SystemExit('no data')\n")

    done = cli("program", "new", repo)

    assert done.code == 1
    assert "the code as it lies ended as crash" in done.err
    assert not (repo / "program.md").exists()
    assert cli.inside("program", "new", repo, "--unmeasured").code == 0
    assert cli.inside("program", "check", repo).code == 1


def test_a_session_that_never_began_has_nothing_to_report(tmp_path: Path) -> None:
    cli, repo = Cli(tmp_path), make_repo(tmp_path / "repo")

    for words in (("report", "--dir", repo), ("program", "next", repo)):
        done = cli.inside(*words)

        assert done.code == 2
        assert "no session in" in done.err
