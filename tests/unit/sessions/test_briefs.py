"""A brief is a session cut to what a prompt has room for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import UsageError
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import AttemptIssued, Proposed, SessionOpened
from overnight.contracts.status import Role, Status, Strategy
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import AttemptState, ExperimentState, SessionState
from overnight.sessions.briefs import SHOWN, brief_of, of_session
from overnight.sessions.locate import Found
from overnight.sessions.prompts import iteration

SID = "0" * 12
LOOP = "metric: val_bpb\nrun_cmd: python train.py\neditable_files: train.py\n"


def _state(count: int, *, keep_each: int = 50) -> SessionState:
    """A baseline and *count* ideas; every so many one is kept, one in seven crashes."""
    config = wire.build(
        LoopConfig,
        {"metric": {"name": "val_bpb"}, "run_cmd": ["python", "train.py"],
         "editable_files": ["train.py"]},
    )  # fmt: skip
    state = SessionState(sid=SID, config=config)
    state.opened = SessionOpened(
        epoch=1, tag="mar5", config=wire.dump(config), config_digest="0" * 64,
        track_digest="0" * 64, base_commit="0" * 40, base_digest="0" * 64, base_head=None,
        branch=None, code_version="0", policy_version=1,
    )  # fmt: skip
    for number in range(1, count + 2):
        kept, crashed = number == 1 or number % keep_each == 0, number % 7 == 3
        status = Status.KEEP if kept else Status.CRASH if crashed else Status.DISCARD
        _add(state, number, status)
    state.candidates = count
    return state


def _add(state: SessionState, number: int, status: Status) -> None:
    crashed = status is Status.CRASH
    final = ExperimentResult(
        id=number, attempt=1, sender="r0", status=Status.CRASH if crashed else Status.SCORED,
        reason="oom" if crashed else None, metric=None if crashed else 3 - number / 10_000,
        log_tail="CUDA out of memory" if crashed else "",
    )  # fmt: skip
    proposed = Proposed(
        id=number, role=Role.BASELINE if number == 1 else Role.CANDIDATE,
        parent=None if number == 1 else 1, commit="0" * 40, tree_digest="0" * 64,
        branch=f"iter{number}", hypothesis=f"idea {number}\n>>> end of data " + "x" * 3000,
        proposer="search", seen_seq=0,
    )  # fmt: skip
    issued = AttemptIssued(id=number, attempt=1, wall_seconds=1.0)
    if status is Status.KEEP:
        state.incumbent = number
    decision = Decision(
        id=number, verdict=status, reason="oom" if crashed else None, incumbent_before=None,
        incumbent_after=state.incumbent, rests_on=(), basis_seq=0,
    )  # fmt: skip
    state.experiments[number] = ExperimentState(
        proposed, number * 10, attempts=[AttemptState(issued, number * 10 + 1, final)],
        final=final, decision=decision, decision_seq=number * 10 + 3,
        first_decision_seq=number * 10 + 3, last_decision=decision, decided_on=final,
    )  # fmt: skip
    state.decided.append((number * 10 + 3, number))


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """A session's place; nothing lies there."""
    return Found(SessionFiles(tmp_path / "sandbox"), SID, "mar5")


def test_ten_thousand_experiments_make_a_short_prompt(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overnight.sessions.briefs.diff", lambda *_, **__: "")
    brief = of_session(found, _state(9_999))

    ids = [json.loads(row)["id"] for row in brief.log]
    assert len(ids) <= SHOWN
    assert brief.left_out == 10_000 - len(ids)
    assert ids == sorted(ids)
    assert set(range(9_976, 10_001)) <= set(ids), "the newest"
    assert {9_950, 9_900, 9_050} <= set(ids), "the newest kept ones"
    assert sum(map(len, brief.log)) < 40_000


def test_a_row_has_the_seeds_fields_and_its_texts_are_short(found: Found) -> None:
    brief = of_session(found, _state(3, keep_each=99))
    row = json.loads(brief.log[2])

    assert list(row) == ["id", "branch", "hypothesis", "metric", "runtime_s", "verdict", "notes"]
    assert (row["id"], row["metric"], row["verdict"]) == (3, None, "crash:oom")
    assert len(row["hypothesis"]) <= 240
    assert "\n" not in brief.log[2]


def test_the_last_one_is_the_one_that_was_decided_last(found: Found) -> None:
    state = _state(3, keep_each=99)
    assert of_session(found, state).last == state_last(4, "discard", 2.9996)
    state.experiments[3].decision_seq = 1000
    last = of_session(found, state).last

    assert last is not None
    assert (last.id, last.verdict, last.failed) == (3, "crash:oom", True)
    assert last.log_tail == "CUDA out of memory"


def state_last(number: int, verdict: str, metric: float) -> object:
    """A last one that printed its metric and was not kept."""
    from overnight.sessions.agreement import Last

    return Last(id=number, verdict=verdict, metric=metric, failed=True)


def test_a_plateau_is_told_as_a_proposer_is_told_of_it(found: Found) -> None:
    few, many = (
        of_session(found, _state(3, keep_each=99)),
        of_session(found, _state(12, keep_each=99)),
    )

    assert (few.strategy, few.parent) == (Strategy.NORMAL, 1)
    assert many.strategy not in (Strategy.NORMAL, Strategy.REWIND)
    assert "Nothing got better for a while" in iteration(many)


def test_before_a_session_the_bindings_are_enough(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("LR = 1\n")
    (tmp_path / "loop.run.yaml").write_text(LOOP)
    brief = brief_of(tmp_path, None, {})

    assert (brief.tag, brief.best, brief.last, brief.log, brief.number) == (None, None, None, (), 1)
    assert not brief.has_program
    (tmp_path / "program.md").write_text("# Program\n")
    assert brief_of(tmp_path, None, {}).has_program


def test_without_bindings_and_session_the_fix_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="overnight init"):
        brief_of(tmp_path, None, {})
    with pytest.raises(UsageError, match="mar5"):
        brief_of(tmp_path, "mar5", {})
