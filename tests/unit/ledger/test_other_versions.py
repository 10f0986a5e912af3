"""Rows of another version: nobody goes on after them, and no repair cuts them off."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError
from overnight.contracts.rows import Head, LedgerMessage
from overnight.contracts.status import RowKind, Status
from overnight.ledger.admission import Refuse, admit
from overnight.ledger.chain import refuse_other_version
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import RunState, SessionState
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter
from overnight.orchestrator.policy import decide
from overnight.recorder.repair import repair
from overnight.sessions.verify import verify
from tests.golden.make import LEDGER, VERSIONS, golden
from tests.unit.ledger.history_of import CONFIG, SID, opening

Plain = dict[str, Any]
NEWER = VERSIONS["row"] + 1


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    """The golden session, as a folder."""
    files = SessionFiles(tmp_path)
    shutil.copy(LEDGER, files.ledger)
    last = _lines(files)[-1]
    files.head.write_text(wire.encode(Head(seq=last["seq"], hash=last["hash"])) + "\n")
    return files


def _lines(files: SessionFiles) -> list[Plain]:
    return [json.loads(line) for line in files.ledger.read_bytes().splitlines()]


def _add(files: SessionFiles, change: Callable[[Plain], Plain]) -> None:
    """One more row, whole, changed as another release might write it."""
    last = _lines(files)[-1]
    body: Plain = {"action": "resume", "by": "cli", "why": ""}
    row = {**last, "seq": last["seq"] + 1, "kind": "control", "key": "control:new", "body": body}
    row = change({**row, "prev": last["hash"]})
    row.pop("hash")
    row["hash"] = wire.digest(row["prev"] + wire.canonical(row))
    with files.ledger.open("ab") as file:
        file.write(wire.canonical(row).encode() + b"\n")


def _opened(row: Plain) -> Plain:
    newer = {**CONFIG, "of_a_newer_version": 1}
    body = {**wire.dump(opening(2)), "config": newer}
    return {**row, "kind": "session_opened", "key": "open:2", "body": body}


OTHERS: dict[str, Callable[[Plain], Plain]] = {
    "format": lambda row: {**row, "v": NEWER, "algorithm": "blake3"},
    "older format": lambda row: {"v": 0, "prev": row["prev"], "hash": ""},
    "kind": lambda row: {**row, "kind": "approved"},
    "field": lambda row: {**row, "body": {**row["body"], "until": "noon"}},
    "action": lambda row: {**row, "body": {**row["body"], "action": "fork"}},
    "body's version": lambda row: {**row, "kind": "result", "body": {"v": VERSIONS["result"] + 1}},
    "binding": _opened,
}


def test_the_golden_session_folds_as_it_always_did(files: SessionFiles) -> None:
    state = SessionState()
    for row in LedgerTail(files.ledger).poll():
        state.apply(row)

    assert (state.seq, state.epoch, state.incumbent, state.candidates) == (26, 1, 2, 2)
    assert state.run_state is RunState.CLOSED
    assert [e.status for e in state.experiments.values()] == [
        Status.KEEP, Status.KEEP, Status.INFRA,
    ]  # fmt: skip
    assert [len(e.attempts) for e in state.experiments.values()] == [1, 2, 4]
    assert state.experiments[3].superseded == 1
    assert {row["kind"] for row in _lines(files)} == {kind.value for kind in RowKind}
    assert verify(files.root).ok
    assert not repair(files, SID).needed


@pytest.mark.parametrize("other", OTHERS)
def test_nobody_goes_on_after_a_row_of_another_version(files: SessionFiles, other: str) -> None:
    _add(files, OTHERS[other])
    age = "an older" if other == "older format" else "a newer"
    for go_on in (
        lambda: LedgerTail(files.ledger).poll(),
        LedgerWriter(files, SID).open,
        lambda: repair(files, SID),
    ):
        before = {p.name: p.read_bytes() for p in files.root.iterdir() if p.suffix != ".lock"}
        with pytest.raises(LedgerError, match=rf"row 27\b.*written by {age} version") as caught:
            go_on()
        assert caught.value.exit_code == 3
        assert "ledger repair" not in str(caught.value)
        after = {p.name: p.read_bytes() for p in files.root.iterdir() if p.suffix != ".lock"}
        assert after == before

    found = verify(files.root)
    assert (found.ok, found.rows, found.problems[0].line) == (False, 26, 27)
    assert f"written by {age} version of Overnight" in found.problems[0].what


@pytest.mark.parametrize("other", OTHERS)
def test_no_repair_drops_rows_of_another_version_behind_a_broken_one(
    files: SessionFiles, other: str
) -> None:
    _add(files, OTHERS[other])
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:4], lines[4].replace(b"keep", b"kept"), *lines[5:]])
    files.ledger.write_bytes(damaged)
    with pytest.raises(LedgerError, match=r"row 27\b.*version of Overnight"):
        repair(files, SID)

    assert files.ledger.read_bytes() == damaged
    assert not files.quarantine.exists()


def test_a_message_with_a_body_of_another_version_becomes_no_row(files: SessionFiles) -> None:
    state = SessionState()
    for row in LedgerTail(files.ledger).poll():
        state.apply(row)
    body = json.loads(golden("result", 1))
    message = LedgerMessage(key="result:7:2:r0", kind=RowKind.RESULT, body=body)

    verdict = admit(state, message)

    assert isinstance(verdict, Refuse)
    newer = f"ExperimentResult v{VERSIONS['result'] + 1} was written by a newer version"
    assert verdict.reason.startswith(newer)


def test_nobody_decides_by_a_policy_of_a_newer_version(files: SessionFiles) -> None:
    state = SessionState()
    for row in LedgerTail(files.ledger).poll():
        state.apply(row)
    assert state.opened is not None
    state.opened = state.opened.model_copy(update={"policy_version": 99})

    with pytest.raises(LedgerError, match="policy v99 was written by a newer version"):
        decide(state, 2)


def test_a_damaged_version_number_is_damage(files: SessionFiles) -> None:
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    own = f'"v":{VERSIONS["row"]}}}'.encode()
    assert lines[-1].endswith(own + b"\n")
    files.ledger.write_bytes(b"".join([*lines[:-1], lines[-1].replace(own, b'"v":9}')]))
    with pytest.raises(LedgerError, match="overnight ledger repair"):
        LedgerTail(files.ledger).poll()

    assert repair(files, SID).dropped_lines == 1
    assert verify(files.root).ok


def test_a_damaged_row_of_this_version_is_no_other_version(files: SessionFiles) -> None:
    _add(files, OTHERS["kind"])
    text = files.ledger.read_bytes()
    files.ledger.write_bytes(text.replace(b'"approved"', b'"approvee"'))

    assert repair(files, SID).needed


def test_no_flipped_bit_makes_a_row_one_of_another_version(files: SessionFiles) -> None:
    """Damage must stay repairable: one bit of every byte, of a row of each length."""
    for number, line in enumerate(files.ledger.read_bytes().splitlines()[:5], start=1):
        for position in range(len(line)):
            for bit in (1, 2, 4):
                changed = bytearray(line)
                changed[position] ^= bit
                refuse_other_version(bytes(changed), number)
