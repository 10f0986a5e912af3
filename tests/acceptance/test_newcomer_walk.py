"""A researcher's first evening: one walk through the verbs, in the order in which they are met."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from tests.e2e.cli_driver import Cli, fingerprint, finish, until, wait_for_none

TRAIN = """\
import time

from prepare import TIME_BUDGET, TARGET, load

LR = 0.02
WARMUP = 0.3
DEPTH = 4
MOMENTUM = 0.8

data = load()
time.sleep(TIME_BUDGET)
gap = abs(LR - 0.05) * 3 + abs(WARMUP - TARGET) + abs(DEPTH - 6) / 40 + abs(MOMENTUM - 0.9)
print("---")
print(f"val_bpb:          {1 + gap:.6f}")
print("peak_vram_mb:     512.0")
"""
PREPARE = """\
from pathlib import Path

TIME_BUDGET = 1
TARGET = 0.2
CACHE = Path.home() / ".cache/walkdata"


def load():
    return (CACHE / "shard.txt").read_text()


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "shard.txt").write_text("tokens")
"""
README = """\
# Toy

    python train.py

The metric is val_bpb, lower is better. Each run has a time budget of 1 second.
"""


def git(repo: Path, *words: str) -> str:
    """One git command of the user's."""
    done = subprocess.run(["git", *words], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command line of somebody with a home of their own."""
    home = tmp_path / "home"
    (home / ".cache/walkdata").mkdir(parents=True)
    (home / ".cache/walkdata/shard.txt").write_text("tokens")
    cli = Cli(tmp_path)
    cli.env |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    (home / ".gitconfig").write_text("[user]\nname = A Researcher\nemail = a@example.org\n")
    return cli


@pytest.fixture
def repo(tmp_path: Path, cli: Cli) -> Path:
    """A git repository with an edit that is not committed and a note that is not tracked."""
    repo = tmp_path / "research"
    repo.mkdir()
    for name, text in {"train.py": TRAIN, "prepare.py": PREPARE, "README.md": README}.items():
        (repo / name).write_text(text)
    git(repo, "init", "-q", "-b", "mar5")
    git(repo, "add", ".")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    git(repo, *identity, "commit", "-q", "-m", "first")
    (repo / "train.py").write_text(TRAIN.replace("MOMENTUM = 0.8", "MOMENTUM = 0.85"))
    (repo / "notes.md").write_text("mine\n")
    return repo


def users_own(repo: Path) -> dict[str, str]:
    """What only the user may change: the work tree beside our files, index, HEAD and branch."""
    tree = fingerprint(repo)
    ours = ("sandbox", "loop.run.yaml", "program.md", "program.next.md")
    git_own = (".git/objects", ".git/refs", ".git/logs", ".git/packed-refs", ".git/info")
    return {
        name: value
        for name, value in tree.items()
        if not name.startswith(ours) and not name.startswith(git_own)
    }


def test_from_init_to_apply(cli: Cli, repo: Path) -> None:
    """init, doctor, once, program new, run, Ctrl-C, run, report, program next, apply."""
    before, branch = users_own(repo), git(repo, "rev-parse", "mar5")

    done = cli("init", repo, "--yes")
    assert done.code == 0, done
    assert "train.py" in done.out
    assert "val_bpb" in done.out

    doctor = cli("doctor", repo, "--json")
    assert doctor.code == 0, doctor.out
    assert doctor.json["ok"]
    assert {c["status"] for c in doctor.json["checks"]} <= {"ok", "warn"}

    once = cli("once", repo, "--json")
    assert once.code == 0, once
    assert once.json["metric"] == pytest.approx(1.29)
    assert once.json["peak_vram_mb"] == 512.0
    assert not (repo / "sandbox").exists()

    done = cli("program", "new", repo)
    assert done.code == 0, done
    assert "1.29" in (repo / "program.md").read_text()
    assert "for at most" not in done.out, "once had measured this very tree: nothing runs again"
    assert users_own(repo) == before

    running = cli.start("run", repo, "--max", 8, "--runners", 2, "--json")
    until(running, event="decision")
    running.send_signal(signal.SIGINT)
    stopped = finish(running, 120)
    assert stopped.code == 0, stopped
    assert wait_for_none(str(repo), 20) == []

    again = cli("run", repo, "--max", 8, "--runners", 2, "--json", seconds=240)
    assert again.code == 0, again
    status = again.lines[-1]
    assert status["candidates"] == 8
    assert wait_for_none(str(repo), 20) == []
    assert cli("verify", "--dir", repo, "--json").json["ok"]

    report = cli("report", "--dir", repo)
    assert report.code == 0, report
    html = repo.parent / "report.html"
    assert cli("report", "--dir", repo, "--full", "--html", html).code == 0
    assert "val_bpb" in html.read_text()

    done = cli("program", "next", repo)
    assert done.code == 0, done
    assert (repo / "program.next.md").is_file()

    best = status["best"]
    assert best["id"] > 1, "eight ideas on four plain knobs, and none was better"
    applied = cli("apply", "best", "--dir", repo, "--json")
    assert applied.code == 0, applied
    name = applied.json["branch"]
    message = git(repo, "log", "-1", "--format=%B", name)
    assert f"{best['metric']:.4f}"[:5] in message
    theirs = git(repo, "show", f"{name}:train.py")
    assert theirs == (repo / f"sandbox/iter{best['id']}/code_snapshot/train.py").read_text().strip()
    assert users_own(repo) == before
    assert git(repo, "rev-parse", "mar5") == branch
    assert git(repo, "branch", "--show-current") == "mar5"
