"""What a runner keeps on its own disk, and what happens to files that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.make import golden
from tests.unit.contracts.test_wire import _job

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import RowKind
from overnight.runner.durable import ClaimFile, Outbox


def _message(number: int) -> LedgerMessage:
    return LedgerMessage(key=f"result:{number}:1:r0", kind=RowKind.RESULT, body={"n": number})


def test_a_message_waits_until_it_is_done(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    assert list(outbox.waiting()) == []
    outbox.put(_message(1))
    outbox.put(_message(2))
    outbox.put(_message(1))

    assert [m.key for m in Outbox(tmp_path / "outbox").waiting()] == [
        "result:1:1:r0",
        "result:2:1:r0",
    ]

    outbox.done(_message(1))
    assert [m.key for m in outbox.waiting()] == ["result:2:1:r0"]


def test_a_refused_or_damaged_message_is_kept_beside(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.put(_message(1))
    outbox.put(_message(2))
    outbox.refused(_message(1), "never issued")
    (tmp_path / "result_3_1_r0.json").write_text('{"key":')

    assert [m.key for m in outbox.waiting()] == ["result:2:1:r0"]
    aside = tmp_path / "refused"
    assert sorted(p.name for p in aside.glob("*.json")) == [
        "result_1_1_r0.json",
        "result_3_1_r0.json",
    ]
    assert (aside / "result_1_1_r0.why").read_text() == "never issued\n"
    assert "not strict JSON" in (aside / "result_3_1_r0.why").read_text()


def test_what_is_refused_takes_the_place_of_nothing(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    for number in range(3):
        outbox.put(_message(1))
        outbox.refused(_message(1), f"reason {number}")

    aside = tmp_path / "refused"
    assert sorted(p.name for p in aside.glob("*.json")) == [
        "result_1_1_r0.2.json", "result_1_1_r0.3.json", "result_1_1_r0.json",
    ]  # fmt: skip
    assert (aside / "result_1_1_r0.2.why").read_text() == "reason 1\n"


@pytest.mark.parametrize("step", [-1, 1])
def test_files_of_another_version_are_kept_aside_and_the_others_delivered(
    tmp_path: Path, step: int
) -> None:
    outbox = Outbox(tmp_path)
    text = golden("message", step)
    (tmp_path / "result_1_1_r0.json").write_text(text)
    outbox.put(_message(2))
    claim = ClaimFile(tmp_path / "claimed")
    claim.path.write_text(golden("job", step))

    assert [m.key for m in outbox.waiting()] == ["result:2:1:r0"]
    assert (tmp_path / "refused" / "result_1_1_r0.json").read_text() == text
    assert "version of Overnight" in (tmp_path / "refused" / "result_1_1_r0.why").read_text()
    assert claim.read() is None
    assert [p.name[:11] for p in tmp_path.glob("claimed*")] == ["claimed.bad"]


def test_a_claim_is_read_back_once_and_a_damaged_one_is_forgotten(tmp_path: Path) -> None:
    claim = ClaimFile(tmp_path / "slot" / "claimed")
    assert claim.read() is None
    claim.write(_job())
    assert claim.read() == _job()
    claim.clear()
    assert claim.read() is None

    claim.path.write_text(wire.encode(_job())[:-5])
    assert claim.read() is None
    assert not claim.path.exists()


def test_a_disk_that_refuses_is_our_fault(tmp_path: Path) -> None:
    (tmp_path / "slot").write_text("")
    with pytest.raises(InfrastructureError):
        ClaimFile(tmp_path / "slot" / "claimed").write(_job())
