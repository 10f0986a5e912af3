"""The chain, the writer and `verify` on real files."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, LedgerError, SessionHeldError
from overnight.contracts.rows import Control, SessionOpened
from overnight.contracts.status import RowKind
from overnight.ledger import chain
from overnight.ledger.files import SessionFiles
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter
from overnight.recorder.repair import repair
from overnight.sessions.locate import read_state
from overnight.sessions.verify import verify
from tests.unit.ledger import history_of

SID = "0123456789ab"


def _control(number: int) -> Control:
    action = "pause" if number % 2 else "resume"
    return wire.build(Control, {"action": action, "by": "test", "why": f"n{number}"})


def _written(root: Path, rows: int = 5) -> SessionFiles:
    files = SessionFiles(root)
    writer = LedgerWriter(files, SID)
    writer.open()
    writer.append(RowKind.SESSION_OPENED, "open:1", history_of.opening())
    for number in range(1, rows):
        writer.append(RowKind.CONTROL, f"control:{number}", _control(number))
    writer.close()
    return files


def test_a_reopened_ledger_goes_on_where_it_ended(tmp_path: Path) -> None:
    files = _written(tmp_path)
    writer = LedgerWriter(files, SID)
    writer.open()
    row = writer.append(RowKind.CONTROL, "control:9", _control(5))
    writer.close()

    assert row.seq == 6
    assert [r.seq for r in LedgerTail(files.ledger).poll()] == [1, 2, 3, 4, 5, 6]
    assert verify(tmp_path).ok


def test_verify_names_the_line_of_any_changed_byte(tmp_path: Path) -> None:
    """Every byte of the file, newlines included, one at a time."""
    files = _written(tmp_path, rows=3)
    good = files.ledger.read_bytes()
    for position in range(len(good)):
        line = good[:position].count(b"\n") + 1
        files.ledger.write_bytes(
            good[:position] + bytes([good[position] ^ 0x01]) + good[position + 1 :]
        )
        found = verify(tmp_path)
        assert not found.ok, f"byte {position} was not noticed"
        assert found.problems[0].line == line, f"byte {position}: {found.problems}"


def test_verify_names_the_line_after_whole_rows_were_cut_off(tmp_path: Path) -> None:
    files = _written(tmp_path)
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    files.ledger.write_bytes(b"".join(lines[:3]))

    found = verify(tmp_path)

    assert [p.line for p in found.problems] == [4]
    assert "rows 4 to 5 are missing" in found.problems[0].what


def test_a_torn_tail_heals_itself_and_is_kept_beside(tmp_path: Path) -> None:
    files = _written(tmp_path)
    good = files.ledger.read_bytes()
    files.ledger.write_bytes(good + b'{"v":1,"seq":6')
    writer = LedgerWriter(files, SID)
    writer.open()
    writer.close()

    assert files.ledger.read_bytes() == good
    assert writer.healed_bytes == 14
    assert [p.read_bytes() for p in files.quarantine.iterdir()] == [b'{"v":1,"seq":6']


def test_the_head_may_lag_by_one_row_but_never_lead(tmp_path: Path) -> None:
    files = _written(tmp_path)
    lagging = [json.loads(line) for line in files.ledger.read_text().splitlines()][-2]
    files.head.write_text(wire.canonical({"hash": lagging["hash"], "seq": lagging["seq"]}) + "\n")
    assert verify(tmp_path).ok
    writer = LedgerWriter(files, SID)
    writer.open()
    writer.close()
    assert json.loads(files.head.read_text())["seq"] == 5

    files.head.write_text(wire.canonical({"hash": "0" * 64, "seq": 4}) + "\n")
    assert not verify(tmp_path).ok


@pytest.mark.parametrize("damage", ["broken_line", "cut_tail", "no_head"])
def test_any_other_damage_stops_the_recorder(tmp_path: Path, damage: str) -> None:
    files = _written(tmp_path)
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    if damage == "broken_line":
        files.ledger.write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    elif damage == "cut_tail":
        files.ledger.write_bytes(b"".join(lines[:2]))
    else:
        files.head.unlink()
    with pytest.raises(LedgerError, match="overnight ledger repair"):
        LedgerWriter(files, SID).open()


def test_a_second_writer_is_refused_with_the_holders_pid(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    first = LedgerWriter(files, SID)
    first.open()
    with pytest.raises(SessionHeldError, match=str(os.getpid())):
        LedgerWriter(files, SID).open()
    first.close()
    second = LedgerWriter(files, SID)
    second.open()
    second.close()


@pytest.mark.parametrize("short", [False, True], ids=["refused", "torn"])
def test_a_full_disk_leaves_no_trace_and_the_row_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    files = _written(tmp_path)
    writer = LedgerWriter(files, SID)
    writer.open()
    before = files.ledger.read_bytes()
    real_write = os.write

    def full(fd: int, data: bytes) -> int:
        if short:
            return real_write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("overnight.ledger.writer.os.write", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        writer.append(RowKind.CONTROL, "control:9", _control(5))
    monkeypatch.undo()
    assert files.ledger.read_bytes() == before
    assert verify(tmp_path).ok

    writer.append(RowKind.CONTROL, "control:9", _control(5))
    writer.close()
    assert verify(tmp_path).ok
    assert not files.head.with_suffix(".tmp").exists()


def test_a_tail_leaves_an_unterminated_line_for_later(tmp_path: Path) -> None:
    files = _written(tmp_path, rows=3)
    good = files.ledger.read_bytes()
    files.ledger.write_bytes(good[:-10])
    tail = LedgerTail(files.ledger)

    assert [r.seq for r in tail.poll()] == [1, 2]
    with files.ledger.open("ab") as file:
        file.write(good[-10:])
    assert [r.seq for r in tail.poll()] == [3]
    assert tail.poll() == []


def test_every_row_is_one_canonical_ascii_line(tmp_path: Path) -> None:
    body = wire.build(Control, {"action": "pause", "by": "x", "why": "Ünïcode \u2028 \t tab"})
    row = chain.link(
        seq=1, ts="t", session=SID, kind=RowKind.CONTROL, key="k", body=body, prev=chain.GENESIS
    )
    line = chain.to_line(row)

    assert line.count(b"\n") == 1
    assert line.isascii()
    assert chain.from_line(line[:-1], seq=1, prev=chain.GENESIS, session=SID) == row


def test_an_opening_of_a_newer_schema_is_one_clear_error() -> None:
    plain = wire.dump(history_of.opening())
    with pytest.raises(wire.WireError, match="later_field"):
        wire.build(SessionOpened, {**plain, "later_field": 1})


def test_a_whole_row_that_nothing_before_it_began_is_one_clear_error(tmp_path: Path) -> None:
    """Somebody edited the ledger by hand and made the chain anew: named, never a traceback."""
    files = _written(tmp_path)
    last = json.loads(files.head.read_text())
    forged = chain.link(
        seq=6, ts="t", session=SID, kind=RowKind.RESULT, key="result:9:1:r0",
        body=history_of.result(9), prev=last["hash"],
    )  # fmt: skip
    with files.ledger.open("ab") as file:
        file.write(chain.to_line(forged))
    files.head.write_text(wire.canonical({"hash": forged.hash, "seq": 6}) + "\n")

    with pytest.raises(LedgerError, match=r"row 6 names .*; run `overnight ledger repair`"):
        read_state(files)
    assert [problem.line for problem in verify(tmp_path).problems] == [6]
    mended = repair(files, SID)
    assert (mended.kept_rows, mended.dropped_lines) == (5, 1)
    assert verify(tmp_path).ok
