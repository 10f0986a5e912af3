"""A damaged ledger is kept beside, goes on from its last whole row, and says so."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.unit.ledger.history_of import SID, opening

from overnight import faultpoints
from overnight.contracts.errors import InfrastructureError, LedgerError, SessionHeldError
from overnight.contracts.rows import Control
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step
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


def _damage(files: SessionFiles) -> bytes:
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    files.ledger.write_bytes(b"".join([*lines[:2], lines[2][:-9] + b"\n", *lines[3:]]))
    return files.ledger.read_bytes()


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


@pytest.mark.parametrize("step", [s for s in Step if s.service == "repair"])
def test_killed_at_any_step_it_can_be_done_again_and_nothing_is_lost(
    files: SessionFiles, step: Step
) -> None:
    damaged = _damage(files)

    def kill(here: Step) -> None:
        if here is step:
            raise Killed

    faultpoints.arm(kill)
    try:
        with pytest.raises(Killed):
            repair(files, SID)
    finally:
        faultpoints.arm(None)

    whole = verify(files.root).ok
    assert damaged in [path.read_bytes() for path in files.quarantine.iterdir()]
    assert repair(files, SID).needed is not whole
    rows = LedgerTail(files.ledger).poll()
    assert [row.kind for row in rows].count(RowKind.REPAIRED) == 1
    assert rows[-1].kind is RowKind.REPAIRED
    assert verify(files.root).ok
    assert not repair(files, SID).needed
    writer = LedgerWriter(files, SID)
    writer.open()
    writer.close()


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_without_space_all_is_as_it_was(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Head and ledger are copied, then staged anew: four files; the disk has room for some."""
    _damage(files)
    before = {p: p.read_bytes() for p in files.root.rglob("*") if p.is_file()}
    left = room

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        path.write_bytes(content if left else content[:7])
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left -= 1

    monkeypatch.setattr("overnight.recorder.repair._write", write)
    with pytest.raises(InfrastructureError, match="No space left"):
        repair(files, SID)
    monkeypatch.undo()

    assert {p: p.read_bytes() for p in files.root.rglob("*") if p.is_file()} == before
    assert repair(files, SID).needed
