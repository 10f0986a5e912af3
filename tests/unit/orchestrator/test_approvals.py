"""A session whose ideas wait for a person, in a whole Overnight in memory."""

from __future__ import annotations

from typing import Any

import pytest

from overnight.contracts.loop import Policy
from overnight.contracts.status import RowKind, Status
from overnight.ledger.approvals import awaiting
from overnight.ledger.fold import RunState
from overnight.orchestrator.answering import AnswerClock
from overnight.orchestrator.planning import prefetch
from tests.unit.orchestrator.world import World


def asking(**more: Any) -> World:
    policy = {"approval": "hypothesis", **more.pop("policy", {})}
    return World(**{"runners": 1, "policy": policy, **more})


def go_on(world: World, seconds: int = 30) -> None:
    """No faults for so long."""
    for _ in range(seconds * 4):
        world.step_orchestrator()
        world.step_recorder()
        for index in range(len(world.runners)):
            world.step_runner(index)
        world.now += 0.25
        if int(world.now * 4) % 20 == 0:
            world.renew()


def waiting(world: World) -> list[int]:
    return [e.id for e in awaiting(world.writer.state)]


def verdicts(world: World) -> dict[int, str | None]:
    return {
        i: f"{e.decision.verdict.value}:{e.decision.reason}" if e.decision else None
        for i, e in world.writer.state.experiments.items()
    }


def test_an_idea_waits_until_it_is_approved_and_nothing_else_is_asked_for() -> None:
    world = asking()
    go_on(world)
    assert waiting(world) == [2]
    assert not world.writer.state.experiments[2].attempts
    assert len(world.told) == 1

    world.wish("approve", 2)
    go_on(world)

    assert world.writer.state.experiments[2].status is Status.DISCARD
    assert waiting(world) == [3]


def test_the_last_metric_is_recorded_before_the_next_idea_is_asked_for() -> None:
    world = asking(experiments=3)
    for number in (2, 3, 4):
        go_on(world)
        world.wish("approve", number)
    go_on(world)

    assert world.orchestrator.outcome is not None
    for history in world.told:
        assert all(past.status is not None for past in history.experiments)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, 1),
        ({"prefetch": 4}, 4),
        ({"prefetch": 4, "approval": "hypothesis"}, 0),
        ({"prefetch": 4, "autonomy": "ask"}, 0),
    ],
)
def test_nothing_is_fetched_ahead_of_a_person(policy: dict[str, Any], expected: int) -> None:
    assert prefetch(Policy(**policy)) == expected


def test_a_rejected_idea_never_runs_and_counts_for_no_limit() -> None:
    world = asking(experiments=2)
    for number in range(2, 14):
        go_on(world, 10)
        assert waiting(world) == [number]
        world.wish("reject", number, why=f"no {number}")
    for number in (14, 15):
        go_on(world, 10)
        world.wish("approve", number)
    go_on(world)

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.detail == "2 ideas"
    assert set(verdicts(world).values()) == {"keep:None", "rejected:by_person", "discard:equal"}
    assert sum(runner.ran for runner in world.runners) == 3
    assert "experiment 13 was rejected: no 13" in world.told[-1].steering


def test_nobody_answers_and_it_is_skipped_after_the_timeout() -> None:
    world = asking(policy={"approve_timeout": 60.0}, experiments=1)
    go_on(world, 50)
    assert waiting(world) == [2]
    go_on(world, 20)

    assert verdicts(world)[2] == "rejected:no_answer"
    answer = world.writer.state.experiments[2].answer
    assert answer is not None
    assert (answer.by, answer.why) == ("orchestrator", "no answer in 60 s")


def test_nobody_answers_and_it_runs_after_the_timeout() -> None:
    world = asking(policy={"approve_timeout": 60.0, "approve_then": "run"}, experiments=1)
    go_on(world, 100)

    assert world.orchestrator.outcome is not None
    assert verdicts(world)[2] == "discard:equal"


def test_the_timeout_counts_again_after_a_restart_and_a_pause() -> None:
    world = asking(policy={"approve_timeout": 60.0})
    go_on(world, 50)
    world.crash_orchestrator()
    go_on(world, 50)
    assert waiting(world) == [2]
    world.wish("pause")
    go_on(world, 100)
    world.wish("resume")
    go_on(world, 50)
    assert waiting(world) == [2]
    go_on(world, 20)

    assert verdicts(world)[2] == "rejected:no_answer"


def test_a_clock_that_nobody_watched_does_not_count() -> None:
    clock = AnswerClock(unseen_seconds=2.0)
    assert clock.waited([7], 100.0) == {7: 0.0}
    assert clock.waited([7], 101.0) == {7: 1.0}
    assert clock.waited([7, 8], 1000.0) == {7: 3.0, 8: 0.0}, "it was stopped in between"
    assert clock.waited([8], 1001.0) == {8: 1.0}
    assert clock.waited([7], 1002.0) == {7: 0.0}


def test_ten_ideas_that_nobody_answers_pause_the_session() -> None:
    world = asking(policy={"approve_timeout": 5.0})
    go_on(world, 200)
    state = world.writer.state

    assert state.run_state is RunState.PAUSED
    assert state.state_why == "nobody approved or rejected 10 ideas in a row"
    world.wish("resume")
    go_on(world, 3)
    assert waiting(world) == [12], "a person is there again"


def test_a_night_without_anybody_goes_on_where_silence_means_yes() -> None:
    world = asking(policy={"approve_timeout": 5.0, "approve_then": "run"}, experiments=14)
    go_on(world, 300)

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.detail == "14 ideas"


def test_an_approval_and_the_timeout_at_once_are_one_answer() -> None:
    for first in ("person", "clock"):
        world = asking(policy={"approve_timeout": 5.0})
        while not (world.writer.state.experiments.get(2)):
            go_on(world, 1)
        while not world.stream or "control:reject:2" not in world.stream[0][1]:
            world.step_orchestrator()
            world.now += 0.25
        world.wish("approve", 2)
        if first == "person":
            world.stream.reverse()
        go_on(world)

        answered = [r for r in world.disk if r.kind is RowKind.CONTROL]
        assert len([r for r in answered if r.body.get("id") == 2]) == 1
        expected = "discard:equal" if first == "person" else "rejected:no_answer"
        assert verdicts(world)[2] == expected


def test_a_stop_ends_at_once_and_the_next_run_asks_again() -> None:
    world = asking()
    go_on(world)
    world.wish("stop")
    go_on(world, 2)
    outcome = world.orchestrator.outcome
    assert outcome is not None
    assert outcome.outcome == "stopped"

    world.wish("resume")
    world.step_recorder()
    world.crash_orchestrator()
    go_on(world)
    assert waiting(world) == [2]
    world.wish("approve", 2)
    go_on(world)

    assert verdicts(world)[2] == "discard:equal"


def test_a_drain_does_not_wait_for_a_person() -> None:
    world = asking()
    go_on(world)
    world.wish("drain")
    go_on(world, 2)

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.outcome == "drained"
    assert verdicts(world)[2] is None


def test_the_hours_end_while_an_idea_waits() -> None:
    world = asking(policy={"limits": {"hours": 0.01}})
    go_on(world, 30)
    assert world.orchestrator.outcome is None
    go_on(world, 10)

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.detail == "out of time"


def test_the_last_idea_of_a_limit_is_waited_for() -> None:
    world = asking(experiments=1)
    go_on(world, 300)
    assert world.orchestrator.outcome is None
    world.wish("approve", 2)
    go_on(world)

    assert world.orchestrator.outcome is not None
    assert world.orchestrator.outcome.detail == "1 idea"


def test_what_is_approved_in_a_pause_runs() -> None:
    world = asking()
    go_on(world)
    world.wish("pause")
    world.wish("approve", 2)
    go_on(world)

    assert verdicts(world)[2] == "discard:equal"
    assert world.writer.state.run_state is RunState.PAUSED
    assert waiting(world) == []


def test_a_proposer_is_told_the_question_and_the_advice_newest_last() -> None:
    research = {"question": "why?", "starting_hypothesis": "LR 0.2"}
    world = World(runners=1, experiments=3, policy={"prefetch": 0}, research=research)
    while not world.told:
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(0)
    for text in ("first", "x" * 4000, *("y" * 3998 for _ in range(3)), "last"):
        world.wish("steer", why=text)
    world.settle()

    assert {(h.question, h.starting_hypothesis) for h in world.told} == {("why?", "LR 0.2")}
    assert world.told[0].steering == ()
    told = world.told[-1].steering
    assert told[-1] == "last"
    assert [text[:1] for text in told] == ["x", "y", "y", "y", "l"], "the oldest is left out first"
    seen = world.writer.state.experiments[4].proposed.seen_seq
    assert all(advice.seq <= seen for advice in world.writer.state.steering)


def test_a_replaced_orchestrator_is_told_so_when_it_answers() -> None:
    world = asking(policy={"approve_timeout": 5.0})
    go_on(world, 3)
    world.twin_orchestrator()
    go_on(world, 2)
    for _ in range(100):
        world.now += 1.0
        world.step_twin()
        world.step_recorder()

    assert world.twin is None
    assert waiting(world) == [2]
