"""A session's folder that is moved, or parts of it removed or replaced, while it runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.e2e.cli_driver import LOOP, Cli, finish, make_repo, until


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "private")


def test_a_moved_session_ends_and_goes_on_where_it_lies(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.5)
    process = cli.start("run", repo, "--max", 50, "--json")
    until(process, event="decision")
    repo.rename(tmp_path / "elsewhere")

    done = finish(process)

    assert done.code == 3, done
    assert "is gone: it was moved or removed while the session ran" in done.err
    assert not repo.exists()
    going_on = cli("run", tmp_path / "elsewhere", "--max", 0, "--json")
    assert going_on.code == 0, going_on
    assert cli("verify", "--dir", tmp_path / "elsewhere").code == 0


def test_a_move_is_seen_while_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    """Every service holds its files open: only the supervisor's own look can tell."""
    loop = LOOP.replace("budget: 20", "budget: 900")
    repo = make_repo(tmp_path / "repo", sleep=900, loop=loop)
    process = cli.start("run", repo, "--max", 1, "--json")
    until(process, event="ready")
    repo.rename(tmp_path / "elsewhere")
    moved = time.monotonic()

    done = finish(process)
    print(f"\nseen {time.monotonic() - moved:.1f} s after the move")

    assert done.code == 3, done
    assert "is gone: it was moved or removed while the session ran" in done.err


def test_logs_that_are_removed_come_back_with_the_next_service(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", sleep=1.5)
    process = cli.start("run", repo, "--max", 3, "--json")
    until(process, event="decision")
    shutil.rmtree(repo / "sandbox" / "logs")
    stack = json.loads((repo / "sandbox" / "stack.json").read_text())
    os.kill(stack["children"]["recorder"], signal.SIGKILL)

    done = finish(process)

    assert done.code == 0, done
    assert (repo / "sandbox" / "logs" / "recorder.log").is_file()


def test_a_stack_file_that_cannot_be_removed_costs_no_run(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    assert cli("run", repo, "--max", 0, "--json").code == 0
    (repo / "sandbox" / "stack.json" / "in the way").mkdir(parents=True)

    done = cli("run", repo, "--max", 1, "--json")

    assert done.code == 0, done
    assert not (tmp_path / "private" / "state").exists()


def test_a_store_that_lost_the_code_is_named_with_what_to_do(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    assert cli("run", repo, "--max", 0, "--json").code == 0
    shutil.rmtree(repo / "sandbox" / "objects.git" / "objects")

    done = cli("run", repo, "--max", 0)

    assert done.code == 3, done
    assert "objects.git is damaged" in done.err
    assert "--tag" in done.err
    assert len(done.err.splitlines()) == 1
