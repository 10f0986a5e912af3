"""A cost limit is never gone over, whatever runs at the same time, and ends the run as done."""

from __future__ import annotations

from typing import Any

import pytest

from overnight.contracts import wire
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import AttemptIssued, Proposed
from overnight.contracts.status import RowKind
from overnight.orchestrator import planning
from overnight.orchestrator.caps import session_caps, tightest
from overnight.orchestrator.spending import budget
from tests.unit.ledger.history_of import CONFIG, result
from tests.unit.orchestrator.story import Story
from tests.unit.orchestrator.test_approvals import go_on, waiting
from tests.unit.orchestrator.world import World

HOUR = 3600.0
EACH = 600.0  #: seconds at most, of budget 300


def config(limits: dict[str, Any], usd_per_hour: float | None = None) -> LoopConfig:
    pools = {"default": {"usd_per_hour": usd_per_hour}}
    return wire.build(LoopConfig, {**CONFIG, "policy": {"limits": limits}, "pools": pools})


@pytest.mark.parametrize(
    ("limits", "usd_per_hour", "expected"),
    [
        ({}, 2.0, None),
        ({"gpu_hours": 3.0}, None, ("policy.limits.gpu_hours", 3 * HOUR)),
        ({"usd": 8.0}, 2.0, ("policy.limits.usd", 4 * HOUR)),
        ({"usd": 8.0, "gpu_hours": 3.0}, 2.0, ("policy.limits.gpu_hours", 3 * HOUR)),
        ({"usd": 8.0, "gpu_hours": 5.0}, 2.0, ("policy.limits.usd", 4 * HOUR)),
    ],
)
def test_the_tighter_limit_counts(
    limits: dict[str, Any], usd_per_hour: float | None, expected: tuple[str, float] | None
) -> None:
    found = tightest(session_caps(config(limits, usd_per_hour)))

    assert (None if found is None else (found.key, found.seconds)) == expected


@pytest.mark.parametrize(("gpus", "counts"), [(0, 1), (1, 1), (8, 8)])
def test_an_hour_on_eight_cards_is_eight_device_hours(gpus: int, counts: int) -> None:
    made = wire.build(
        LoopConfig, {**CONFIG, "policy": {"limits": {"gpu_hours": 4.0}}, "gpus": gpus}
    )
    cap = tightest(session_caps(made))

    assert cap is not None
    assert (cap.seconds, cap.told(HOUR)) == (4 * HOUR / counts, f"{counts} h")


def limited(hours: float, **more: Any) -> Story:
    """A baseline of 300 s under such a limit."""
    story = Story(policy={"limits": {"gpu_hours": hours}, **more})
    story.experiment(metric=1.0, runtime_s=300.0)
    return story


def propose(story: Story, *, issue: bool = True) -> int:
    number = story.state.next_id
    plain = {
        "id": number,
        "role": "candidate",
        "parent": 1,
        "commit": f"{number:040x}",
        "tree_digest": f"{number:064x}",
        "branch": f"iter{number}",
        "hypothesis": "h",
        "proposer": "test",
        "seen_seq": 0,
    }
    story.writer.append(RowKind.PROPOSED, f"proposed:{number}", wire.build(Proposed, plain))
    if issue:
        issued = AttemptIssued(id=number, attempt=1, wall_seconds=EACH)
        story.writer.append(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1", issued)
    return number


def following(story: Story) -> planning.Action | None:
    view, bounds = planning.QueueView(), planning.Bounds(in_flight=8)
    return planning.next_action(story.state, view, bounds)


def test_what_runs_counts_at_its_deadline_before_another_is_asked_for() -> None:
    """300 s of 1800 s are used: two more may run together, a third might go over."""
    story = limited(0.5)
    for _ in range(2):
        assert isinstance(following(story), planning.Propose)
        propose(story)

    assert following(story) is None
    assert planning.waits_for_limit(story.state) == (
        "policy.limits.gpu_hours: 0.0833 h of 0.5 h used, one more may take 0.167 h"
    )


def test_what_took_less_leaves_room_for_another() -> None:
    story = limited(0.5)
    numbers = [propose(story), propose(story)]
    for number in numbers:
        ended = result(number, runtime_s=200.0)
        story.writer.append(RowKind.RESULT, f"result:{number}:1:r0", ended)
        story.decide(number)

    assert isinstance(following(story), planning.Propose)


def test_a_reached_limit_ends_the_run_as_done_and_says_with_what() -> None:
    story = limited(0.25)
    story.experiment(metric=0.9, runtime_s=500.0)

    assert following(story) == planning.Close(
        "done", "policy.limits.gpu_hours: 0.222 h of 0.25 h used, one more may take 0.167 h"
    )


def test_failed_and_late_attempts_are_paid_for_too() -> None:
    story = limited(10.0)
    number = propose(story)
    failed = result(number, status="infra", reason="lost", runtime_s=100.0, sender="r0")
    story.writer.append(RowKind.RESULT, f"result:{number}:1:r0", failed)
    late = result(number, runtime_s=50.0, sender="r1")
    story.writer.append(RowKind.SUPERSEDED, f"result:{number}:1:r1", late)

    assert story.state.device_seconds == 450.0


def test_a_second_attempt_does_not_go_over_the_limit_either() -> None:
    story = limited(0.25)
    number = propose(story)
    failed = result(number, status="infra", reason="suspended", runtime_s=500.0)
    story.writer.append(RowKind.RESULT, f"result:{number}:1:r0", failed)

    action = following(story)
    assert isinstance(action, planning.Close)
    assert action.outcome == "done"
    assert number in story.state.running, "it runs with a higher limit"


def test_money_is_told_in_money() -> None:
    story = Story(policy={"limits": {"usd": 1.0}}, pools={"default": {"usd_per_hour": 2.0}})
    story.experiment(metric=1.0, runtime_s=1500.0)

    assert following(story) == planning.Close(
        "done", "policy.limits.usd: 0.83 of 1.00 used, one more may take 0.33"
    )


def test_the_baseline_runs_whatever_the_limit() -> None:
    """A limit that is too small for it is refused before anything starts."""
    assert isinstance(following(Story(policy={"limits": {"gpu_hours": 0.001}})), planning.Propose)


def test_ideas_that_wait_for_a_person_count_before_another_is_asked_for() -> None:
    story = limited(0.5, approval="hypothesis")
    propose(story, issue=False)
    assert isinstance(following(story), planning.Propose)
    propose(story, issue=False)

    assert following(story) is None, "a person may reject one"
    money = budget(story.state)
    assert money is not None
    assert money.affords(2)
    assert not money.affords(3)


def test_nothing_waits_for_a_person_that_could_not_be_paid_for() -> None:
    world = World(runners=1, policy={"approval": "hypothesis", "limits": {"gpu_hours": 0.5}})
    go_on(world)
    assert waiting(world) == [2]
    raised = world.opening.model_copy(
        update={"config": {**world.opening.config, "policy": {"approval": "hypothesis",
                                                              "limits": {"gpu_hours": 0.01}}}}
    )  # fmt: skip
    world.opening = raised
    world.crash_orchestrator()
    go_on(world)

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.outcome == "done"


@pytest.mark.parametrize("runners", [1, 3, 8])
def test_no_wave_overshoots(runners: int) -> None:
    """Every experiment takes all that it may; still the limit holds, and is nearly used up."""
    world = World(runners=runners, experiments=1000, policy={"limits": {"gpu_hours": 3.0}})
    takes = world.step_runner

    def to_the_deadline(index: int, metric: float = 1.0, outcome: str = "scored") -> None:
        job = world.runners[index].job
        takes(index, metric, outcome)
        if job is not None:
            (message,) = world.runners[index].outbox.values()
            message.body["runtime_s"] = job.wall_seconds

    world.step_runner = to_the_deadline  # type: ignore[method-assign]
    world.settle()

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.outcome == "done"
    spent = world.writer.state.device_seconds
    assert 3 * HOUR - EACH < spent <= 3 * HOUR
