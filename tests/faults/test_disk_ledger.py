"""A damaged ledger is named to the line, mended by one verb, and the session goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.cli_driver import Cli, make_repo

from overnight.sessions.torture import recount

Lines = list[bytes]
CANDIDATES = 2


def _flip(line: bytes, bit: int = 4) -> bytes:
    middle = len(line) // 2
    return line[:middle] + bytes([line[middle] ^ bit]) + line[middle + 1 :]


#: What becomes of line i. Each must be noticed wherever it happens.
DAMAGES: dict[str, Callable[[Lines, int], Lines]] = {
    "flip": lambda x, i: [*x[:i], _flip(x[i]), *x[i + 1 :]],
    "cut": lambda x, i: [*x[:i], x[i][: len(x[i]) // 2] + b"\n", *x[i + 1 :]],
    "glued": lambda x, i: [*x[:i], x[i][: len(x[i]) // 2], *x[i + 1 :]],
    "doubled": lambda x, i: [*x[: i + 1], x[i], *x[i + 1 :]],
    "deleted": lambda x, i: [*x[:i], *x[i + 1 :]],
    "swapped": lambda x, i: (
        [*x[: i - 1], x[i], x[i - 1], *x[i + 1 :]] if i else [x[1], x[0], *x[2:]]
    ),
    "crlf": lambda x, i: [*x[:i], x[i][:-1] + b"\r\n", *x[i + 1 :]],
    "nul": lambda x, i: [*x[:i], bytes(len(x[i]) - 1) + b"\n", *x[i + 1 :]],
    "garbage": lambda x, i: [*x[: i + 1], b"what is this\n", *x[i + 1 :]],
    "torn": lambda x, i: [*x[:i], x[i][: len(x[i]) // 2]],
}
PLACES = ("first", "middle", "last")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with a session that is over."""
    base = tmp_path_factory.mktemp("finished")
    repo = make_repo(base / "repo", sleep=0.05)
    cli = Cli(base / "private")
    assert cli("run", repo, "--max", CANDIDATES, "--json").code == 0
    yield repo
    shutil.rmtree(base)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_is_named_and_mended(
    finished: Path, tmp_path: Path, damage: str, place: str
) -> None:
    cli, repo = Cli(tmp_path / "private"), tmp_path / "repo"
    shutil.copytree(finished, repo)
    ledger = repo / "sandbox" / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    at = {"first": 0, "middle": len(lines) // 2, "last": len(lines) - 1}[place]
    damaged = b"".join(DAMAGES[damage](lines, at))
    ledger.write_bytes(damaged)

    checked = cli.inside("verify", "--dir", repo, "--json")
    assert checked.code == 1, checked
    assert [p["line"] for p in checked.json["problems"]] == [_first_bad(lines, damaged)]

    refused = cli.inside("run", repo, "--max", CANDIDATES)
    assert refused.code == 3, refused
    assert len(refused.err.splitlines()) == 1
    assert "`overnight ledger repair" in refused.err
    assert ledger.read_bytes() == damaged

    mended = cli.inside("ledger", "repair", "--dir", repo, "--json")
    assert mended.code == 0, mended
    assert Path(mended.json["quarantine"]).read_bytes() == damaged
    rows, findings = recount.read_ledger(repo / "sandbox")
    assert findings == []
    assert rows[-1]["kind"] == "repaired"
    assert b"".join(lines).startswith(b"".join(ledger.read_bytes().splitlines(True)[:-1]))
    assert cli.inside("verify", "--dir", repo).code == 0
    again = cli.inside("ledger", "repair", "--dir", repo, "--json")
    assert (again.code, again.json["repaired"]) == (0, False)


def _first_bad(lines: Lines, damaged: bytes) -> int:
    """The number of the first line that is not as it was; also one that is missing, or too much."""
    found = damaged.splitlines(keepends=True)
    same = (here == good for here, good in zip(found, lines, strict=False))
    return next(
        (i for i, ok in enumerate(same, start=1) if not ok), min(len(found), len(lines)) + 1
    )


@pytest.mark.parametrize("place", PLACES)
def test_after_the_repair_the_session_goes_on_and_runs_again_what_was_lost(
    finished: Path, tmp_path: Path, place: str
) -> None:
    cli, repo = Cli(tmp_path / "private"), tmp_path / "repo"
    shutil.copytree(finished, repo)
    ledger = repo / "sandbox" / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    at = {"first": 0, "middle": len(lines) // 2, "last": len(lines) - 1}[place]
    ledger.write_bytes(b"".join(DAMAGES["flip"](lines, at)))
    assert cli.inside("ledger", "repair", "--dir", repo).code == 0

    done = cli("run", repo, "--max", CANDIDATES, "--json")

    assert done.code == 0, done
    assert done.lines[-1]["candidates"] == CANDIDATES
    found = recount.recount(repo / "sandbox")
    assert found.findings == []
    decided = {body["id"] for body in recount.bodies(found.rows, "decision")}
    assert decided == set(range(1, CANDIDATES + 2))
    assert cli.inside("verify", "--dir", repo, "--json").json["ok"]
