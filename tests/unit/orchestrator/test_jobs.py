"""Every message that the orchestrator can write can be built, and is what its kind says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts import wire
from overnight.contracts.rows import BODIES, AttemptIssued, LedgerMessage, Proposed
from overnight.contracts.status import GAVE_UP, Role, RowKind, Status
from overnight.ledger.fold import SessionState
from overnight.orchestrator import jobs
from tests.unit.orchestrator.story import Story

MESSAGES = [
    (RowKind.CONTROL, jobs.pause_message(SessionState(), "ten in a row " + "x" * 900)),
    (RowKind.SESSION_CLOSED, jobs.close_message(SessionState(), "done", "y" * 9000, 1)),
    (RowKind.RESULT, jobs.own_result(2, 1, Status.INFRA, "lost")),
    (RowKind.RESULT, jobs.own_result(2, 1, Status.INFRA, GAVE_UP)),
    (RowKind.RESULT, jobs.own_result(2, 1, Status.CANCELLED, None)),
]


@pytest.mark.parametrize(("kind", "message"), MESSAGES)
def test_a_message_survives_the_wire(kind: RowKind, message: LedgerMessage) -> None:
    assert message.kind is kind
    assert wire.decode(LedgerMessage, wire.encode(message)) == message
    assert wire.dump(wire.build(BODIES[kind], message.body)) == message.body


@given(st.data(), st.sampled_from(["minimize", "maximize"]))
def test_whatever_may_be_kept_was_not_too_bad_for_the_guard(data: st.DataObject, way: str) -> None:
    """By what was known when it was issued, a few decisions before its own."""
    metric = {"name": "val_bpb", "direction": way}
    story = Story(metric=metric, guard=["pytest"], policy={"simplicity": {"tie_epsilon": 0.02}})
    limits: list[float | None] = []
    for _ in range(data.draw(st.integers(2, 12))):
        limits.append(jobs._worst_guarded(story.state))
        limit = limits[data.draw(st.integers(max(0, len(limits) - 4), len(limits) - 1))]
        value = data.draw(st.floats(0.9, 1.1))
        decision = story.experiment(
            metric=value, guard="passed", code_lines=data.draw(st.integers(50, 100))
        )
        if decision.verdict is Status.KEEP and limit is not None:
            assert value <= limit if way == "minimize" else value >= limit
    assert limits[0] is None, "the baseline is guarded whatever it comes to"
    assert limits[1] is not None


def test_a_job_carries_what_it_takes_to_measure() -> None:
    """The command without uv, which no sandbox has."""
    story = Story(
        metric={
            "name": "acc",
            "direction": "maximize",
            "source": {"command": ["uv", "run", "score.py"]},
        },
        constraints=[{"name": "mem", "max": 5.0}],
        guard=["uv", "run", "pytest"],
        gpus=2,
    )
    story.experiment(metric=0.5, guard="passed", measures={"mem": 1.0})
    number = story.state.next_id
    story.writer.append(
        RowKind.PROPOSED,
        f"proposed:{number}",
        Proposed(id=number, role=Role.CANDIDATE, parent=1, commit="a" * 40, tree_digest="b" * 64,
                 branch="iter2", hypothesis="h", proposer="test", seen_seq=0),
    )  # fmt: skip
    issued = AttemptIssued(id=number, attempt=1, wall_seconds=1.0)
    story.writer.append(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1", issued)
    launch = jobs.Launch(argv=("x",), python=None, image="a:1", env={})
    job = jobs.job_for(story.state, number, launch)

    assert wire.dump(job)["source"] == {"command": ["python", "score.py"]}
    assert job.guard == ("pytest",)
    assert job.maximize
    assert (job.python, job.image, job.gpus) == (None, "a:1", 2)
    assert [one.name for one in job.constraints] == ["mem"]
    assert job.guard_unless_worse_than is not None
    assert job.guard_unless_worse_than <= 0.5
    assert job.longest_seconds == job.wall_seconds + 2 * 60.0
