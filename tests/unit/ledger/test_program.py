"""A session goes on with the program.md that it began with, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError
from overnight.ledger.files import SessionFiles
from overnight.ledger.program import kept_program
from overnight.sessions.opening import _replace
from tests.unit.orchestrator.world import World


@pytest.mark.parametrize("text", ["# Goal\n", "a\r\nb\rc\u2028d", "\u00e4" * 10])
def test_every_character_of_it_is_kept(tmp_path: Path, text: str) -> None:
    files = SessionFiles(tmp_path)
    _replace(files.program, text)

    assert kept_program(files, wire.digest(text)) == text


def test_a_session_without_one_has_none_whatever_lies_there(tmp_path: Path) -> None:
    (tmp_path / "program.md").write_text("# Other\n")

    assert kept_program(SessionFiles(tmp_path), None) is None


@pytest.mark.parametrize("now", [None, b"", b"# Other\n", b"\xff"])
def test_another_one_is_told_and_not_taken(tmp_path: Path, now: bytes | None) -> None:
    if now is not None:
        (tmp_path / "program.md").write_bytes(now)

    with pytest.raises(LedgerError, match="put it back, or open another session with --tag"):
        kept_program(SessionFiles(tmp_path), wire.digest("# Goal\n"))


def test_a_proposer_is_told_its_text() -> None:
    world = World(runners=1, experiments=1, program="# Goal\n")
    world.settle()

    assert [history.program for history in world.told] == ["# Goal\n"]
