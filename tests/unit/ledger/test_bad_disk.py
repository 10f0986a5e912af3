"""A disk that refuses: no acked row is lost, no half row stays, and readers are never confused."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.contracts.errors import InfrastructureError, LedgerError
from overnight.contracts.rows import Control, LedgerMessage
from overnight.contracts.status import ControlAction, RowKind
from overnight.ledger.aside import KEPT_EACH, keep_aside
from overnight.ledger.files import SessionFiles
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter
from overnight.recorder.service import Recorder
from overnight.sessions.verify import verify
from tests.unit.ledger.history_of import SID, opening

PAUSE = Control(action=ControlAction.PAUSE, by="test")


class Disk:
    """Stands between the writer and the real disk; fails where it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ledger: Path) -> None:
        self.fsync_fails = self.rename_fails = False
        self.write_fails: int | None = None
        self.synced = b""  #: what is surely on the disk
        self._ledger = ledger
        self._fsync, self._write, self._replace = os.fsync, os.write, os.replace
        for name in ("fsync", "write", "replace"):
            monkeypatch.setattr(f"overnight.ledger.writer.os.{name}", getattr(self, name))

    def fsync(self, fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") == str(self._ledger):
            if self.fsync_fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._fsync(fd)
            self.synced = self._ledger.read_bytes()

    def write(self, fd: int, data: bytes) -> int:
        if self.write_fails is not None:
            raise OSError(self.write_fails, os.strerror(self.write_fails))
        return self._write(fd, data)

    def replace(self, source: Path, target: Path) -> None:
        if self.rename_fails:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self._replace(source, target)


def pausing(number: int) -> LedgerMessage:
    action = "pause" if number % 2 else "resume"
    return LedgerMessage(
        key=f"control:{number}", kind=RowKind.CONTROL, body={"action": action, "by": "t", "why": ""}
    )


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    writer = LedgerWriter(SessionFiles(tmp_path), SID)
    writer.open()
    writer.append(RowKind.SESSION_OPENED, "open:1", opening())
    writer.close()
    return SessionFiles(tmp_path)


@pytest.mark.parametrize("broken", ["fsync_fails", "rename_fails"])
def test_a_row_that_may_not_be_on_the_disk_is_finished_before_anything_else(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    writer = LedgerWriter(files, SID)
    writer.open()
    told: list[int] = []
    recorder = Recorder(writer, lambda row: told.append(row.seq))
    tail = LedgerTail(files.ledger)
    disk = Disk(monkeypatch, files.ledger)
    setattr(disk, broken, True)

    for _ in range(3):
        with pytest.raises(InfrastructureError):
            recorder.handle(pausing(1))
    seen = tail.poll()[-1]  # a reader is quicker than the disk
    assert (told, writer.state.seq) == ([], 1)  # nobody was told, nothing builds on it

    setattr(disk, broken, False)
    other = recorder.handle(pausing(2))  # the first sender's message got lost meanwhile
    again = recorder.handle(pausing(1))

    assert (again.seq, other.seq, told) == (2, 3, [2, 3])
    assert tail.poll()[0].prev == seen.hash  # what was seen is what stands there
    assert disk.synced == files.ledger.read_bytes()
    writer.close()
    assert verify(files.root).ok


def test_the_bytes_are_written_again_after_a_failed_fsync(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel drops what it could not write, and the next fsync says that all is well."""
    writer = LedgerWriter(files, SID)
    writer.open()
    disk = Disk(monkeypatch, files.ledger)
    disk.fsync_fails = True
    before = files.ledger.stat().st_size
    with pytest.raises(InfrastructureError):
        writer.append(RowKind.CONTROL, "control:1", PAUSE)
    good = files.ledger.read_bytes()
    with files.ledger.open("r+b") as file:  # as a dropped page reads
        file.seek(before)
        file.write(bytes(len(good) - before))

    disk.fsync_fails = False
    row = writer.settle()

    assert row is not None
    assert disk.synced == good
    writer.close()
    assert verify(files.root).ok


def test_a_row_without_its_head_is_written_again_at_the_next_start(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LedgerWriter(files, SID)
    writer.open()
    disk = Disk(monkeypatch, files.ledger)
    disk.fsync_fails = True
    with pytest.raises(InfrastructureError):
        writer.append(RowKind.CONTROL, "control:1", PAUSE)
    writer.close()  # the recorder dies here

    again = LedgerWriter(files, SID)
    with pytest.raises(InfrastructureError):
        again.open()
    disk.fsync_fails = False
    again.open()  # the lock was let go
    assert disk.synced == files.ledger.read_bytes()
    assert again.state.seq == 2
    again.close()
    assert verify(files.root).ok


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_write_that_is_refused_leaves_no_trace(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    writer = LedgerWriter(files, SID)
    writer.open()
    before = files.ledger.read_bytes()
    disk = Disk(monkeypatch, files.ledger)
    disk.write_fails = number
    with pytest.raises(InfrastructureError, match=os.strerror(number)):
        writer.append(RowKind.CONTROL, "control:1", PAUSE)

    assert files.ledger.read_bytes() == before
    assert writer.settle() is None
    disk.write_fails = None
    writer.append(RowKind.CONTROL, "control:1", PAUSE)
    writer.close()
    assert verify(files.root).ok


def test_a_reader_survives_a_torn_row_that_is_taken_back(files: SessionFiles) -> None:
    tail = LedgerTail(files.ledger)
    good = files.ledger.read_bytes()
    with files.ledger.open("ab") as file:
        file.write(b'{"body":{"action":"pause","by":"torn')
    assert [row.seq for row in tail.poll()] == [1]
    with files.ledger.open("r+b") as file:
        file.truncate(len(good))
    writer = LedgerWriter(files, SID)
    writer.open()
    writer.append(RowKind.CONTROL, "control:1", PAUSE)
    writer.close()

    assert [row.seq for row in tail.poll()] == [2]


def test_a_reader_takes_all_rows_or_none_when_the_disk_fails(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = LedgerTail(files.ledger)
    rows = LedgerTail.rows

    def failing(self: LedgerTail) -> object:
        yield from rows(self)
        raise InfrastructureError("EIO")

    monkeypatch.setattr(LedgerTail, "rows", failing)
    with pytest.raises(InfrastructureError):
        tail.poll()
    monkeypatch.undo()
    assert [row.seq for row in tail.poll()] == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes() + b"x\n"),
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("elsewhere")),
    ],
    ids=["emptied", "appended", "deleted", "moved"],
)
def test_a_ledger_that_somebody_else_changed_gets_no_row(
    files: SessionFiles, change: Callable[[Path], object]
) -> None:
    writer = LedgerWriter(files, SID)
    writer.open()
    change(files.ledger)
    after = files.ledger.read_bytes() if files.ledger.exists() else None
    with pytest.raises(LedgerError):
        writer.append(RowKind.CONTROL, "control:1", PAUSE)
    writer.close()
    assert (files.ledger.read_bytes() if files.ledger.exists() else None) == after


def test_a_ledger_that_vanishes_while_a_row_is_in_doubt_is_not_waited_for(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LedgerWriter(files, SID)
    writer.open()
    disk = Disk(monkeypatch, files.ledger)
    disk.fsync_fails = True
    with pytest.raises(InfrastructureError):
        writer.append(RowKind.CONTROL, "control:1", PAUSE)
    files.ledger.unlink()
    with pytest.raises(LedgerError):
        writer.settle()
    writer.close()


def test_quarantine_keeps_the_newest_of_each_name(tmp_path: Path) -> None:
    for number in range(KEPT_EACH + 5):
        keep_aside(tmp_path / "q", "torn-tail", f"{number}".encode())
    keep_aside(tmp_path / "q", "other", b"")

    kept = {path.name: path.read_bytes() for path in (tmp_path / "q").iterdir()}
    assert len(kept) == KEPT_EACH + 1
    assert f"torn-tail.{KEPT_EACH + 5}" in kept
    assert "torn-tail.5" not in kept
