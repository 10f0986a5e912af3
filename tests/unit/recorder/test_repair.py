"""A damaged ledger is kept beside, goes on from its last whole row, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.ledger.history_of import SID, opening

from overnight.contracts.errors import LedgerError, SessionHeldError
from overnight.contracts.rows import Control
from overnight.contracts.status import RowKind
from overnight.ledger.files import SessionFiles
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter
from overnight.recorder.repair import repair
from overnight.sessions.verify import verify


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    files = SessionFiles(tmp_path)
    writer = LedgerWriter(files, SID)
    writer.open()
    writer.append(RowKind.SESSION_OPENED, "open:1", opening())
    for number, action in enumerate(["pause", "resume", "pause", "resume"]):
        control = Control.model_validate_json(f'{{"action":"{action}","by":"test"}}')
        writer.append(RowKind.CONTROL, f"control:{number}", control)
    writer.close()
    return files


def test_a_whole_ledger_is_left_alone(files: SessionFiles) -> None:
    before = files.ledger.read_bytes()

    assert not repair(files, SID).needed
    assert files.ledger.read_bytes() == before
    assert not files.quarantine.exists()


@pytest.mark.parametrize("damage", ["flipped", "cut", "doubled", "garbage", "no_head", "torn"])
def test_any_damage_is_mended_and_the_original_kept(files: SessionFiles, damage: str) -> None:
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    bad = {
        "flipped": [*lines[:2], lines[2].replace(b"pause", b"stop!").replace(b"resume", b"pause!"),
                    *lines[3:]],
        "cut": lines[:3],
        "doubled": [*lines[:3], lines[2], *lines[3:]],
        "garbage": [*lines[:4], b"\x00\xff{}\n", lines[4]],
        "no_head": lines,
        "torn": [*lines[:4], lines[4][:20]],
    }[damage]  # fmt: skip
    files.ledger.write_bytes(b"".join(bad))
    if damage == "no_head":
        files.head.unlink()
    assert not verify(files.root).ok

    done = repair(files, SID)

    assert done.needed
    assert done.quarantine is not None
    assert done.quarantine.read_bytes() == b"".join(bad)
    assert verify(files.root).ok
    assert LedgerTail(files.ledger).poll()[-1].kind is RowKind.REPAIRED
    assert not repair(files, SID).needed


def test_a_ledger_in_use_is_refused_with_the_holders_pid(files: SessionFiles) -> None:
    writer = LedgerWriter(files, SID)
    writer.open()
    with pytest.raises(SessionHeldError, match=str(os.getpid())):
        repair(files, SID)
    writer.close()


def test_no_ledger_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger to repair"):
        repair(SessionFiles(tmp_path), SID)
