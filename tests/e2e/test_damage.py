"""Damage between and during runs, and a user who is quicker than the start: one line, no loss."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest
from tests.e2e.cli_driver import LOOP, Cli, finish, make_repo, until


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "private")


def _finished(cli: Cli, folder: Path) -> Path:
    repo = make_repo(folder)
    assert cli("run", repo, "--max", 1, "--json").code == 0
    return repo


def test_an_interrupt_during_the_start_stops_the_run(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", sleep=0.5)
    process = cli.start("run", repo, "--max", 50, "--json")
    patience = time.monotonic() + 30
    while not (repo / "sandbox" / "stack.json").exists() and time.monotonic() < patience:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    done = finish(process)

    assert done.code == 0, done
    assert done.lines[-1]["state"] == "closed"
    assert done.lines[-1]["candidates"] < 5


@pytest.mark.parametrize("damage", ["emptied", "deleted", "garbage head", "no head"])
def test_a_lost_ledger_never_begins_anew_by_itself(cli: Cli, tmp_path: Path, damage: str) -> None:
    repo = _finished(cli, tmp_path / "repo")
    sandbox = repo / "sandbox"
    if damage == "emptied":
        (sandbox / "ledger.jsonl").write_text("")
    elif damage == "deleted":
        (sandbox / "ledger.jsonl").unlink()
    elif damage == "garbage head":
        (sandbox / "ledger.head").write_text("x")
    else:
        (sandbox / "ledger.head").unlink()

    done = cli("run", repo, "--max", 2)

    assert done.code == 3, done
    assert "overnight ledger repair" in done.err
    assert len(done.err.splitlines()) == 1
    assert sorted(p.name for p in repo.iterdir() if "failed" in p.name) == []


def test_a_repaired_ledger_goes_on(cli: Cli, tmp_path: Path) -> None:
    repo = _finished(cli, tmp_path / "repo")
    ledger = repo / "sandbox" / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    damaged = re.sub(rb'"v":(\d+)', lambda v: b'"v":%d' % (int(v[1]) + 1), lines[-2])
    ledger.write_bytes(b"".join([*lines[:-2], damaged, lines[-1]]))
    assert cli("run", repo, "--max", 1).code == 3

    assert cli("ledger", "repair", "--dir", repo).code == 0
    done = cli("run", repo, "--max", 2, "--json")

    assert done.code == 0, done
    assert done.lines[-1]["candidates"] == 2
    assert cli("verify", "--dir", repo).code == 0


def test_a_lost_identity_is_found_in_the_ledger(cli: Cli, tmp_path: Path) -> None:
    repo = _finished(cli, tmp_path / "repo")
    identity = repo / "sandbox" / "session.json"
    before = identity.read_text()
    identity.unlink()

    done = cli("run", repo, "--max", 2, "--json")

    assert done.code == 0, done
    assert identity.read_text() == before


def test_lost_objects_are_one_line_and_no_endless_wait(cli: Cli, tmp_path: Path) -> None:
    repo = _finished(cli, tmp_path / "repo")
    for path in (repo / "sandbox" / "objects.git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"\0" * 16)

    done = cli("run", repo, "--max", 2, seconds=90.0)

    assert done.code == 3, done
    assert "objects.git is damaged" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_claim_that_cannot_be_read_is_set_aside(cli: Cli, tmp_path: Path) -> None:
    repo = _finished(cli, tmp_path / "repo")
    runner = repo / "sandbox" / "runners" / "r0"
    (runner / "claimed").mkdir()
    (runner / "outbox" / "odd.json").mkdir(parents=True)

    assert cli("run", repo, "--max", 2, "--json").lines[-1]["candidates"] == 2


@pytest.mark.parametrize(
    ("loop", "says"),
    [
        (LOOP + "proposer: {name: search, options: {a: [1]}}\n", "a"),
        (LOOP + f"sandbox_root: {'x' * 300}\n", "name too long"),
    ],
)
def test_what_can_be_known_before_is_said_before(
    cli: Cli, tmp_path: Path, loop: str, says: str
) -> None:
    repo = make_repo(tmp_path / "repo", loop=loop)
    done = cli("run", repo, "--max", 1)

    assert done.code in (2, 3), done
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert not (repo / "sandbox").exists()


def test_a_hostile_stack_file_is_one_line(cli: Cli, tmp_path: Path) -> None:
    repo = _finished(cli, tmp_path / "repo")
    for text in ('{"pid": 1000000000000000000000, "redis_url": "x"}', "[" * 200_000, "{"):
        (repo / "sandbox" / "stack.json").write_text(text)
        done = cli("status", "--dir", repo)
        assert "Traceback" not in done.err, done
        assert len(done.err.splitlines()) <= 1


def test_a_row_that_is_changed_while_it_runs_is_no_success(cli: Cli, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", sleep=1.5)
    process = cli.start("run", repo, "--max", 3, "--json")
    until(process, event="decision")
    ledger = repo / "sandbox" / "ledger.jsonl"
    with ledger.open("r+b") as file:
        file.seek(ledger.read_bytes().index(b"baseline"))
        file.write(b"bas3line")
    done = finish(process)

    assert done.code == 1, done


def test_without_its_name_a_session_is_found_by_its_ledger(cli: Cli, tmp_path: Path) -> None:
    repo = _finished(cli, tmp_path / "repo")
    sandbox = repo / "sandbox"
    (sandbox / "session.json").unlink()
    looked = cli("verify", "--dir", repo)
    (sandbox / "ledger.jsonl").rename(tmp_path / "kept")
    gone = cli("run", repo, "--max", 2)
    (tmp_path / "kept").rename(sandbox / "ledger.jsonl")
    again = cli("run", repo, "--max", 2, "--json")

    assert looked.code == 3, looked
    assert "session.json is gone, the ledger is there: `overnight run` writes it" in looked.err
    assert gone.code == 3, gone
    assert "ledger.jsonl is gone, ledger.head says that there was one" in gone.err
    assert len(gone.err.splitlines()) == len(looked.err.splitlines()) == 1
    assert again.code == 0, again
    assert again.lines[-1]["candidates"] == 2
