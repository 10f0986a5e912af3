"""What a slot held that nobody serves any more is delivered or reported by another."""

from __future__ import annotations

from pathlib import Path

from tests.unit.contracts.test_wire import _job
from tests.unit.ledger.history_of import result

from overnight.contracts.experiment import ExperimentResult
from overnight.runner.durable import ClaimFile, Outbox
from overnight.runner.hardware import SlotLock
from overnight.runner.inheritance import inherit, result_message


def _outbox(runners: Path, slot: str) -> Outbox:
    (runners / slot).mkdir(parents=True, exist_ok=True)
    return Outbox(runners / slot / "outbox")


def _waiting(outbox: Outbox) -> list[str]:
    return [message.key for message in outbox.waiting()]


def _ended(experiment: int, slot: str) -> ExperimentResult:
    return result(experiment, sender=slot)


def test_results_and_claims_of_dead_slots_move_to_the_living_one(tmp_path: Path) -> None:
    _outbox(tmp_path, "r1").put(result_message(_ended(7, "r1")))
    ClaimFile(tmp_path / "r1" / "claimed").write(_job())
    (tmp_path / "r2" / "work-3-1" / "snapshot").mkdir(parents=True)
    (tmp_path / "a-file").write_text("")

    inherit(tmp_path, "r0", _outbox(tmp_path, "r0"))
    lost = next(m for m in _outbox(tmp_path, "r0").waiting() if m.key == "result:1:1:r1")

    assert _waiting(_outbox(tmp_path, "r0")) == ["result:1:1:r1", "result:7:1:r1"]
    assert (lost.body["status"], lost.body["reason"]) == ("infra", "lost")
    assert _waiting(_outbox(tmp_path, "r1")) == []
    assert not (tmp_path / "r1" / "claimed").exists()
    assert list((tmp_path / "r2").glob("work-*")) == []


def test_a_result_that_was_kept_before_the_claim_was_cleared_is_not_lost(tmp_path: Path) -> None:
    _outbox(tmp_path, "r1").put(result_message(_ended(1, "r1")))
    ClaimFile(tmp_path / "r1" / "claimed").write(_job())
    inherit(tmp_path, "r0", _outbox(tmp_path, "r0"))
    (message,) = _outbox(tmp_path, "r0").waiting()

    assert message.body["status"] == "scored"


def test_a_living_slot_keeps_what_is_its_own(tmp_path: Path) -> None:
    _outbox(tmp_path, "r1").put(result_message(_ended(7, "r1")))
    (tmp_path / "r1" / "work-7-1").mkdir()
    living = SlotLock(tmp_path / "r1")
    assert living.try_acquire()
    inherit(tmp_path, "r0", _outbox(tmp_path, "r0"))

    assert _waiting(_outbox(tmp_path, "r0")) == []
    assert _waiting(_outbox(tmp_path, "r1")) == ["result:7:1:r1"]
    assert (tmp_path / "r1" / "work-7-1").exists()
    living.release()


def test_the_first_session_of_all_has_nothing_to_inherit(tmp_path: Path) -> None:
    inherit(tmp_path / "runners", "r0", _outbox(tmp_path, "r0"))

    assert _waiting(_outbox(tmp_path, "r0")) == []
