"""A user's own folder: git-ignored data, edits while a session stands, cores that are taken."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from tests.e2e.cli_driver import LOOP, Cli, finish, make_repo, until

READS_DATA = """\
LR = 0.1
weight = float(open("data/xy.csv").read())
try:
    open("data/xy.csv", "w")
except OSError as error:
    print("refused:", error.strerror)
print(f"val_bpb: {abs(LR - 0.5) + weight:.6f}")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "private")


def test_ignored_data_named_by_reads_lies_where_the_script_looks(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", train=READS_DATA, loop=LOOP + "reads: [data]\n")
    (repo / "data").mkdir()
    (repo / "data" / "xy.csv").write_text("1.5\n")
    (repo / ".gitignore").write_text("data/\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=repo, check=True)

    done = cli("run", repo, "--max", 1, "--json")

    assert done.code == 0, done
    assert done.lines[-1]["baseline"] == 1.9
    assert "refused: Read-only" in (repo / "sandbox" / "iter1" / "run.log").read_text()
    assert (repo / "data" / "xy.csv").read_text() == "1.5\n"


def test_going_on_says_that_newer_edits_are_not_in_the_session(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    assert cli("run", repo, "--max", 0, "--json").code == 0
    quiet = cli("run", repo, "--max", 0)
    (repo / "train.py").write_text((repo / "train.py").read_text() + "# newer\n")

    told = cli("run", repo, "--max", 0)

    assert "changed since" not in quiet.out
    assert "changed since this session began: train.py" in told.out
    assert "--tag" in told.out


def test_a_run_that_waits_for_a_core_says_who_has_it(cli: Cli, tmp_path: Path) -> None:
    first = make_repo(tmp_path / "first", sleep=60.0)
    second = make_repo(tmp_path / "second")
    holder = cli.start("run", first, "--max", 0, "--json")
    until(holder, event="attempt_issued")
    waiter = cli.start("run", second, "--max", 0, "--json")
    said = until(waiter, event="waiting")[-1]

    assert said["service"] == "r0"
    assert "cpu-0 is held by pid" in said["why"]
    holder.send_signal(signal.SIGINT)
    assert finish(holder).code == 0
    assert finish(waiter).code == 0
