"""runs: every session beside each other in a line, whatever their names and states."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.snapshots.user_repositories import write
from tests.unit.sessions.told import Told

from overnight.cli.__main__ import main
from overnight.contracts import wire
from overnight.contracts.errors import UsageError
from overnight.ledger.identity import Identity
from overnight.sessions.runs import runs


def _session(repo: Path, tag: str, name: str, metric: float | None = None) -> Told:
    told = Told(repo, tag=tag, root=repo / name)
    if metric is not None:
        told.idea({"train.py": f"LR = {metric}\n"}, metric)
    told.close()
    return told


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "work" / "repo"
    write(repo, {"train.py": "LR = 0.1\n"})
    _session(repo, "mar5", "sandbox", 0.7)
    _session(repo, "mar6", "sandbox-mar6")
    _session(repo, "old", "sandbox.failed-1")
    _session(repo, "other", "sandbox2")  # not beside: another sandbox_root
    return repo


def test_all_sessions_beside_each_other_newest_first(repo: Path) -> None:
    found = runs(repo)

    assert [run.tag for run in found] == ["old", "mar6", "mar5"]
    last = found[-1]
    assert (last.best, last.best_id, last.baseline, last.experiments) == (0.7, 2, 1.0, 1)
    assert last.state == "interrupted"
    assert last.size_bytes > 1000
    assert [run.tag for run in runs(repo.parent)] == ["old", "mar6", "mar5"]
    assert [run.tag for run in runs(repo / "sandbox")] == ["old", "mar6", "mar5"]


def test_one_that_cannot_be_read_hides_no_other(repo: Path) -> None:
    ledger = repo / "sandbox-mar6" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"baseline", b"basement"))
    (repo / "sandbox.failed-1" / "session.json").write_text("{")

    found = {run.root.name: run for run in runs(repo)}

    assert found["sandbox"].best == 0.7
    assert found["sandbox-mar6"].state == "unreadable"
    assert "ledger repair" in (found["sandbox-mar6"].problem or "")
    assert found["sandbox.failed-1"].tag == "sandbox.failed-1"


def test_hostile_names_drive_no_terminal(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J\x07\u202e" + "x" * 300
    (repo / "sandbox-mar6").rename(repo / "sandbox-\x1b]0;pwned\x07")
    identity = repo / "sandbox" / "session.json"
    identity.write_text(wire.encode(Identity(sid="0123456789ab", tag=evil)))

    assert main(["runs", str(repo)]) == 0
    text = capsys.readouterr().out
    assert main(["runs", str(repo), "--json"]) == 0

    assert all(char == "\n" or char.isprintable() for char in text)
    assert max(len(line) for line in text.splitlines()) < 600
    assert len(text.splitlines()) == 4
    assert json.loads(capsys.readouterr().out)[0]["tag"] == "old"


def test_a_folder_without_any_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="start one with `overnight run`"):
        runs(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        runs(tmp_path / "nowhere")
