"""Degradations, plateaus, rewinds and pauses, each from rows written by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from overnight.contracts.status import Strategy
from overnight.orchestrator import planning, strategy
from overnight.orchestrator.history import history
from tests.unit.orchestrator.story import Story

NEVER = {"autonomy": "never_stop"}


def _story(*metrics: float, **config: Any) -> Story:
    story = Story(**config)
    for metric in metrics:
        story.experiment(metric=metric)
    return story


def _row(story: Story) -> list[int]:
    return [e.id for e in strategy.degradations(story.state)]


def _next(story: Story) -> planning.Action | None:
    return planning.next_action(story.state, planning.QueueView(), planning.Bounds(in_flight=1))


# -- degradations -------------------------------------------------------------------------------


def test_what_is_strictly_worse_adds_up() -> None:
    assert _row(_story(1.0, 1.1, 1.2)) == [2, 3]


@pytest.mark.parametrize("good", [0.9, 1.0])
def test_a_keep_or_a_tie_ends_the_row(good: float) -> None:
    assert _row(_story(1.0, 1.1, good, 1.3)) == [4]


@pytest.mark.parametrize(
    "ending",
    [
        {"status": "crash", "reason": "oom"},
        {"status": "timeout", "reason": "train"},
        {"status": "infra", "reason": "gave_up"},
        {"status": "held", "reason": "implausible", "metric": 1.5},
        {"rejection": "size"},
    ],
)
def test_what_has_no_comparable_metric_neither_adds_nor_ends(ending: dict[str, Any]) -> None:
    story = _story(1.0, 1.1)
    story.experiment(**ending)
    story.experiment(metric=1.2)

    assert _row(story) == [2, 4]


def test_worse_is_judged_against_the_best_of_that_moment_and_its_direction() -> None:
    story = _story(0.7, 0.8, 0.75, metric={"name": "auc", "direction": "maximize"})

    assert _row(story) == [3]


def test_ask_pauses_after_three_and_says_what_to_do() -> None:
    story = _story(1.0, 1.1, 1.2, policy={"autonomy": "ask"})
    assert _next(story) == planning.Propose(4)
    story.experiment(metric=1.05)

    action = _next(story)

    assert action == planning.Pause(
        "3 ideas in a row were worse than the best so far, experiment 1 (1): 2 (1.1), 3 (1.2), "
        "4 (1.05). `overnight resume` goes on, `overnight steer TEXT` advises the proposer first, "
        "`overnight stop` ends the run"
    )


def test_a_resume_grants_as_many_again() -> None:
    story = _story(1.0, 1.1, 1.2, 1.3, policy={"autonomy": "ask"})
    story.wish("pause", by="orchestrator")
    story.wish("resume")
    assert _next(story) == planning.Propose(5)
    for metric in (1.1, 1.2):
        story.experiment(metric=metric)
        assert isinstance(_next(story), planning.Propose)
    story.experiment(metric=1.3)

    assert isinstance(_next(story), planning.Pause)


def test_never_stop_does_not_ask() -> None:
    assert _next(_story(1.0, *[1.1] * 20)) == planning.Propose(22)


def test_a_limit_that_is_reached_ends_the_run_rather_than_asking() -> None:
    policy = {"autonomy": "ask", "limits": {"experiments": 3}}

    assert isinstance(_next(_story(1.0, 1.1, 1.2, 1.3, policy=policy)), planning.Close)


def test_ideas_that_are_all_given_up_pause_the_session() -> None:
    story = _story(1.0)
    for _ in range(2):
        story.experiment(status="infra", reason="gave_up")
    story.experiment(rejection="size")
    assert isinstance(_next(story), planning.Propose)
    story.experiment(status="infra", reason="gave_up")

    action = _next(story)

    assert isinstance(action, planning.Pause)
    assert action.why.startswith("3 ideas in a row were given up")
    story.wish("pause", by="orchestrator")
    story.wish("resume")
    assert isinstance(_next(story), planning.Propose)


# -- strategies ---------------------------------------------------------------------------------


def _asked(story: Story) -> Strategy:
    return strategy.plan(story.state).strategy


def test_after_a_failure_the_step_is_smaller() -> None:
    assert _asked(_story(1.0)) is Strategy.NORMAL
    assert _asked(_story(1.0, 1.1)) is Strategy.SMALLER_STEP
    assert _asked(_story(1.0, 1.1, 0.9)) is Strategy.NORMAL
    assert _asked(_story(1.0, 1.1, 1.0)) is Strategy.NORMAL, "a tie is no failure"
    story = _story(1.0)
    story.experiment(status="crash", reason="oom")
    assert _asked(story) is Strategy.SMALLER_STEP


def test_a_plateau_goes_through_all_strategies() -> None:
    story = _story(1.0, *[1.002] * strategy.PLATEAU)
    asked = []
    for _ in range(4):
        asked.append(_asked(story))
        story.experiment(metric=1.002, strategy=asked[-1])

    assert set(asked) == {
        Strategy.SMALLER_STEP, Strategy.COMBINE, Strategy.REREAD, Strategy.BOLDER,
    }  # fmt: skip


def test_there_is_nothing_to_combine_without_near_misses() -> None:
    story = _story(1.0, *[1.5] * strategy.PLATEAU)
    asked = []
    for _ in range(4):
        asked.append(_asked(story))
        story.experiment(metric=1.5)

    assert Strategy.COMBINE not in asked
    assert asked.count(Strategy.REREAD) == 2


def test_a_rewind_is_rare_and_goes_further_back_each_time() -> None:
    story = _story(1.0, 0.9, 0.8)
    rewinds = []
    for _ in range(70):
        plan = strategy.plan(story.state)
        if plan.strategy is Strategy.REWIND:
            rewinds.append((story.state.next_id, plan.parent))
        else:
            assert plan.parent == story.state.incumbent
        story.experiment(metric=1.5, parent=plan.parent, strategy=plan.strategy)

    assert [parent for _, parent in rewinds] == [2, 1, 2]
    ids = [number for number, _ in rewinds]
    assert ids[0] == 4 + strategy.REWIND_AFTER
    assert all(b - a == strategy.REWIND_EVERY for a, b in pairwise(ids))


def test_a_session_without_a_keep_has_nothing_to_go_back_to() -> None:
    story = _story(1.0, *[1.5] * 30)

    assert _asked(story) is not Strategy.REWIND


def test_what_was_rewound_to_must_beat_the_best_all_the_same() -> None:
    story = _story(1.0, 0.9, 0.8)

    assert story.experiment(metric=0.85, parent=2).reason == "worse"
    kept = story.experiment(metric=0.7, parent=2)
    assert (kept.verdict.value, kept.incumbent_after) == ("keep", 5)


def test_with_ask_a_person_changes_the_course() -> None:
    story = _story(1.0, 0.9, *[1.5] * 20, policy={"autonomy": "ask"})

    assert _asked(story) is Strategy.SMALLER_STEP


def test_a_proposer_is_told_where_it_stands() -> None:
    story = _story(1.0, 0.9)
    story.experiment(
        metric=1.5, analysis="it diverged", lines_added=3, lines_removed=1, measures={"m": 2.0}
    )
    story.experiment(status="crash", reason="oom", log_tail="Traceback\nMemoryError\n")
    plan = strategy.plan(story.state)
    told = history(story.state, {"train.py": "x"}, asked=plan)

    assert (told.strategy, told.parent) == (Strategy.SMALLER_STEP, 2)
    assert (told.degradations, told.since_keep) == (1, 2)
    worse, crashed = told.experiments[2:]
    assert (worse.analysis, worse.lines_added, worse.lines_removed) == ("it diverged", 3, 1)
    assert worse.measures == {"m": 2.0}
    assert crashed.log_tail.endswith("MemoryError\n")


# -- is it the ideas, or the environment? --------------------------------------------------------

CRASH = {"status": "crash", "reason": "import", "signature": "import:train.py:3"}


def test_three_that_crash_alike_have_the_best_run_again() -> None:
    story = _story(1.0, 0.9)
    story.experiment(**CRASH)
    story.experiment(rejection="size")
    story.experiment(**CRASH)
    assert isinstance(_next(story), planning.Propose)
    story.experiment(**CRASH)

    action = _next(story)

    assert isinstance(action, planning.Rerun)
    assert action.suspicion.ids == (3, 5, 6)


@pytest.mark.parametrize(
    "between",
    [{"metric": 1.5}, {**CRASH, "signature": "oom"}, {"status": "crash", "reason": "no_metric"}],
)
def test_other_endings_between_are_no_row(between: dict[str, Any]) -> None:
    story = _story(1.0)
    for ending in (CRASH, CRASH, between, CRASH):
        story.experiment(**ending)

    assert isinstance(_next(story), planning.Propose)


def test_the_tries_to_mend_one_idea_are_one_idea() -> None:
    story = _story(1.0)
    story.experiment(**CRASH)
    story.experiment(**CRASH, repairs=2)
    story.experiment(**CRASH, repairs=3)
    assert isinstance(_next(story), planning.Propose)
    story.experiment(**CRASH)
    story.experiment(**CRASH)

    assert isinstance(_next(story), planning.Rerun)


def _re_run(story: Story, **ending: Any) -> None:
    action = _next(story)
    assert isinstance(action, planning.Rerun)
    details = {"checks": list(action.suspicion.ids), "signature": action.suspicion.signature}
    best = story.state.incumbent
    story.experiment(
        role="replicate", of=best, parent=best, details=details, hypothesis="again", **ending
    )


def test_where_the_best_fails_too_the_environment_is_broken_and_the_crashes_are_none() -> None:
    story = _story(1.0, 0.9)
    for _ in range(3):
        story.experiment(**CRASH)
    assert story.state.candidates == 4
    _re_run(story, **{**CRASH, "detail": "ModuleNotFoundError: No module named 'torch'"})
    for number in (3, 4, 5):
        assert _next(story) == planning.Decide(number)
        story.decide(number)

    said = [(e.status, e.decision and e.decision.reason) for e in story.state.experiments.values()]
    assert said[2:] == [("infra", "environment")] * 4
    assert story.state.candidates == 1
    assert _next(story) == planning.Pause(
        "environment broken: ideas 3, 4, 5 crashed alike (import:train.py:3), and so did the best, "
        "experiment 2, run again: ModuleNotFoundError: No module named 'torch'. They count as "
        "infra. Mend it, then `overnight resume`"
    )
    story.wish("pause", by="orchestrator")
    story.wish("resume")
    assert _next(story) == planning.Propose(7)
    assert story.experiment(**CRASH).verdict.value == "crash", "it was mended, so this is the idea"
    story.verified()


def test_where_the_best_still_runs_the_crashes_stand() -> None:
    story = _story(1.0, 0.9)
    for _ in range(3):
        story.experiment(**CRASH)
    _re_run(story, metric=0.95)

    said = [(e.status, e.decision and e.decision.reason) for e in story.state.experiments.values()]
    assert said[2:] == [("crash", "import")] * 3 + [("discard", "re_run")]
    assert story.state.incumbent == 2
    assert story.state.candidates == 4
    assert _next(story) == planning.Propose(7)
    for _ in range(2):
        story.experiment(**CRASH)
        assert isinstance(_next(story), planning.Propose), "it takes three more"
    story.experiment(**CRASH)
    assert isinstance(_next(story), planning.Rerun)
    story.verified()


def test_a_re_run_that_our_own_fault_ended_says_nothing() -> None:
    story = _story(1.0)
    for _ in range(3):
        story.experiment(**CRASH)
    _re_run(story, status="infra", reason="gave_up")

    assert story.state.experiments[2].status == "crash"
    assert isinstance(_next(story), planning.Propose)
    story.verified()


def test_a_better_re_run_is_never_kept() -> None:
    story = _story(1.0)
    for _ in range(3):
        story.experiment(**CRASH)
    _re_run(story, metric=0.5)

    assert story.state.incumbent == 1


def test_sessions_of_the_first_policy_take_no_crash_back() -> None:
    story = Story(policy_version=1)
    story.experiment(metric=1.0)
    for _ in range(3):
        story.experiment(**CRASH)

    assert isinstance(_next(story), planning.Propose)


def test_another_crash_of_the_same_time_is_the_ideas_own() -> None:
    """It was in flight while the best was run again, and ended in its own way."""
    story = _story(1.0)
    for _ in range(3):
        story.experiment(**CRASH)
    story.experiment(status="crash", reason="oom", signature="oom:train.py:9")
    details = {"checks": [2, 3, 4], "signature": CRASH["signature"]}
    story.experiment(**CRASH, role="replicate", of=1, parent=1, details=details)
    for number in (2, 3, 4):
        assert _next(story) == planning.Decide(number)
        story.decide(number)

    assert story.state.experiments[5].status == "crash"
    assert isinstance(_next(story), planning.Pause)
    story.verified()
