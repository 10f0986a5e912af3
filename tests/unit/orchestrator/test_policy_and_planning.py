"""What is kept, when attempts are killed, and what comes next, each by value."""

from __future__ import annotations

from typing import Any

import pytest

from overnight.contracts import wire
from overnight.contracts.experiment import Decision
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import AttemptIssued, Control, Proposed
from overnight.contracts.status import RowKind
from overnight.ledger.fold import SessionState
from overnight.orchestrator import planning
from overnight.orchestrator.deadlines import deadlines
from tests.unit.ledger.history_of import CONFIG
from tests.unit.orchestrator.story import Story


def said(decision: Decision) -> tuple[str, str | None, int | None]:
    return decision.verdict.value, decision.reason, decision.incumbent_after


def test_only_strictly_better_is_kept() -> None:
    story = Story()

    assert said(story.experiment(metric=1.0)) == ("keep", None, 1)
    assert said(story.experiment(metric=0.9)) == ("keep", None, 2)
    assert said(story.experiment(metric=0.9)) == ("discard", "equal", 2)
    assert said(story.experiment(metric=0.95)) == ("discard", "worse", 2)
    assert said(story.experiment(metric=0.8999999999)) == ("keep", None, 5)


def test_maximize_turns_the_direction() -> None:
    story = Story(metric={"name": "auc", "direction": "maximize"})

    assert said(story.experiment(metric=0.7)) == ("keep", None, 1)
    assert said(story.experiment(metric=0.8)) == ("keep", None, 2)
    assert said(story.experiment(metric=0.75)) == ("discard", "worse", 2)


@pytest.mark.parametrize(
    ("status", "reason"),
    [("crash", "oom"), ("timeout", "train"), ("infra", "gave_up"), ("crash", "nonfinite")],
)
def test_a_failure_is_its_own_verdict_and_moves_nothing(status: str, reason: str) -> None:
    story = Story()
    story.experiment(metric=1.0)

    assert said(story.experiment(status=status, reason=reason)) == (status, reason, 1)


def test_a_held_result_is_never_best() -> None:
    story = Story()
    story.experiment(metric=1.0)
    held = story.experiment(status="held", reason="implausible", metric=0.1)

    assert said(held) == ("held", "implausible", 1)


def test_a_rejected_proposal_is_decided_without_a_result() -> None:
    story = Story()
    story.experiment(metric=1.0)

    assert said(story.experiment(rejection="paths")) == ("rejected", "paths", 1)
    assert story.state.candidates == 0


def test_a_tree_equal_to_its_parents_is_never_kept() -> None:
    story = Story()
    story.experiment(metric=1.0)

    assert said(story.experiment(metric=0.5, digest=f"{1:064x}")) == ("discard", "no_change", 1)


def test_a_failed_baseline_has_no_incumbent_and_ends_the_run() -> None:
    story = Story()

    assert said(story.experiment(status="crash", reason="no_metric")) == (
        "crash",
        "no_metric",
        None,
    )
    action = planning.next_action(story.state, planning.QueueView(), planning.Bounds(in_flight=2))
    assert isinstance(action, planning.Close)
    assert action.outcome == "baseline_failed"


def test_the_incumbent_after_a_stale_winner_is_the_better_of_both() -> None:
    """Two winners on one parent: the second must beat the first, not only its parent."""
    story = Story()
    story.experiment(metric=1.0)
    story.experiment(metric=0.8, parent=1)

    assert said(story.experiment(metric=0.9, parent=1)) == ("discard", "worse", 2)


# -- deadlines ----------------------------------------------------------------------------------


def _config(**bindings: Any) -> LoopConfig:
    return wire.build(LoopConfig, {**CONFIG, **bindings})


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ({"budget": 300.0}, (600.0, None)),
        ({"budget": 300.0, "startup_grace": 60.0, "eval_grace": 40.0}, (700.0, None)),
        ({"budget": 300.0, "kill_factor": 1.5}, (450.0, None)),
        ({"budget": 300.0, "deadline_seconds": 5.0}, (5.0, None)),
        ({"gate": "cpu_time", "budget": 10.0, "eval_grace": 4.0}, (100.0, 24.0)),
        ({"gate": "cpu_time", "budget": 10.0, "deadline_seconds": 7.0}, (7.0, 20.0)),
        ({"gate": "steps", "budget": 300.0}, (1800.0, None)),
        ({"gate": "epochs", "budget": 1.0, "deadline_seconds": 9.0}, (9.0, None)),
    ],
)
def test_the_deadline_of_a_baseline(
    bindings: dict[str, Any], expected: tuple[float, float | None]
) -> None:
    assert deadlines(_config(**bindings), SessionState()) == expected


def test_steps_are_killed_at_a_multiple_of_the_baselines_wall_time() -> None:
    story = Story(gate="steps", budget=300.0, eval_grace=2.0)
    story.experiment(metric=1.0, runtime_s=20.0)

    assert story.state.config is not None
    assert deadlines(story.state.config, story.state) == (42.0, None)


def test_the_wall_backstop_of_cpu_time_follows_the_sessions_median() -> None:
    """Beside busy neighbours ten CPU-seconds take minutes: that is not the idea's fault."""
    story = Story(gate="cpu_time", budget=10.0)
    for seconds in (50.0, 60.0, 70.0):
        story.experiment(metric=1.0, runtime_s=seconds)

    assert story.state.config is not None
    assert deadlines(story.state.config, story.state) == (240.0, 20.0)


# -- planning -----------------------------------------------------------------------------------


def _next(story: Story, *, in_flight: int = 3, **view: Any) -> planning.Action | None:
    return planning.next_action(
        story.state, planning.QueueView(**view), planning.Bounds(in_flight=in_flight)
    )


def test_the_baseline_comes_first_and_alone() -> None:
    assert _next(Story()) == planning.Propose(1)


def test_the_next_idea_is_asked_for_until_the_limit() -> None:
    story = Story(policy={"limits": {"experiments": 1}})
    story.experiment(metric=1.0)
    assert _next(story) == planning.Propose(2)
    story.experiment(metric=0.9)
    assert _next(story) == planning.Close("done", "1 idea")


def test_a_reached_target_ends_the_run() -> None:
    story = Story(metric={"name": "loss", "direction": "minimize", "target": 0.5})
    story.experiment(metric=1.0)
    assert _next(story) == planning.Propose(2)
    story.experiment(metric=0.5)
    assert _next(story) == planning.Close("done", "target 0.5 reached")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("pause", None),
        ("drain", planning.Close("drained", "")),
        ("stop", planning.Close("stopped", "")),
    ],
)
def test_a_wish_of_the_user_is_followed(action: str, expected: planning.Action | None) -> None:
    story = Story()
    story.experiment(metric=1.0)
    control = wire.build(Control, {"action": action, "by": "test"})
    story.writer.append(RowKind.CONTROL, "control:1", control)

    assert _next(story) == expected


def test_ten_rejections_in_a_row_pause() -> None:
    story = Story()
    story.experiment(metric=1.0)
    for _ in range(10):
        story.experiment(rejection="size")

    assert isinstance(_next(story), planning.Pause)


def test_exhaustion_and_time_end_the_run_only_when_nothing_runs() -> None:
    story = Story()
    story.experiment(metric=1.0)

    assert _next(story, exhausted="nothing left") == planning.Close("exhausted", "nothing left")
    assert isinstance(_next(story, out_of_time=True), planning.Close)


def test_prefetch_bounds_what_is_in_flight() -> None:
    story = Story()
    story.experiment(metric=1.0)
    plain = {
        "id": 2,
        "role": "candidate",
        "parent": 1,
        "commit": "2" * 40,
        "tree_digest": "2" * 64,
        "branch": "iter2",
        "hypothesis": "h",
        "proposer": "test",
        "seen_seq": 0,
    }
    story.writer.append(RowKind.PROPOSED, "proposed:2", wire.build(Proposed, plain))
    issued = AttemptIssued(id=2, attempt=1, wall_seconds=1.0)
    story.writer.append(RowKind.ATTEMPT_ISSUED, "attempt:2:1", issued)

    assert _next(story, in_flight=1) is None
    assert _next(story, in_flight=2) == planning.Propose(3)
    assert _next(story, missing_seconds={(2, 1): 16.0}) == planning.ReportLost(2, 1)
    assert _next(story, in_flight=1, missing_seconds={(2, 1): 14.0}) is None


# -- policy version 2 ---------------------------------------------------------------------------


def test_an_older_session_is_decided_as_it_began() -> None:
    """Twenty lines for next to nothing: kept by version 1, and a simplification is not."""
    story = Story(policy_version=1)
    story.experiment(metric=1.0, code_lines=100)

    assert said(story.experiment(metric=0.9999, code_lines=120)) == ("keep", None, 2)
    assert said(story.experiment(metric=0.9999, code_lines=20)) == ("discard", "equal", 2)
    story.verified()


@pytest.mark.parametrize(
    ("config", "fields", "says"),
    [
        (
            {"constraints": [{"name": "params", "max": 10.0}]},
            {"measures": {"params": 12.0}},
            "discard:constraint params is 12, `constraints` allows at most 10",
        ),
        (
            {"constraints": [{"name": "acc", "min": 0.9}]},
            {},
            "discard:constraint acc was not printed, but `constraints` bounds it",
        ),
        (
            {"policy": {"limits": {"vram_gb": 8.0}}},
            {"peak_vram_mb": 9000.0},
            "discard:vram it took 8.8 GB of video memory, `policy.limits.vram_gb` is 8",
        ),
        (
            {"policy": {"limits": {"vram_gb": 8.0}}},
            {},
            "discard:vram no `peak_vram_mb:` line was printed, but `policy.limits.vram_gb` bounds"
            " it",
        ),
        ({"guard": ["t"]}, {"guard": "failed"}, "discard:guard the guard command failed"),
        ({"guard": ["t"]}, {}, "discard:guard the guard command was not run"),
    ],
)
def test_a_baseline_that_breaks_a_bound_ends_the_run_and_says_which(
    config: dict[str, Any], fields: dict[str, Any], says: str
) -> None:
    story = Story(**config)
    decision = story.experiment(metric=1.0, **fields)

    assert decision.incumbent_after is None
    assert _next(story) == planning.Close("baseline_failed", says)
    story.verified()


def test_what_the_guard_did_not_see_is_not_kept() -> None:
    story = Story(guard=["pytest"])
    story.experiment(metric=1.0, guard="passed")

    assert said(story.experiment(metric=0.9)) == ("discard", "guard", 1)
    assert said(story.experiment(metric=1.1)) == ("discard", "worse", 1)
    assert said(story.experiment(metric=0.9, guard="passed")) == ("keep", None, 4)


def test_small_losses_do_not_add_up_even_with_small_gains_between() -> None:
    story = Story(policy={"simplicity": {"tie_epsilon": 0.01}})
    story.experiment(metric=1.0, code_lines=900)

    assert said(story.experiment(metric=1.006, code_lines=800))[:2] == ("keep", "simplification")
    assert said(story.experiment(metric=1.005, code_lines=800))[:2] == ("keep", None)
    assert said(story.experiment(metric=1.011, code_lines=700))[:2] == ("discard", "worse")
    assert said(story.experiment(metric=1.009, code_lines=700))[:2] == ("keep", "simplification")
    assert said(story.experiment(metric=0.9, code_lines=700))[:2] == ("keep", None)
    assert said(story.experiment(metric=0.909, code_lines=600))[:2] == ("keep", "simplification")
    story.verified()


def test_code_is_weighed_against_the_incumbent_not_the_parent() -> None:
    """A stale candidate lacks what its rival added; its own size is what counts."""
    story = Story()
    story.experiment(metric=1.0, code_lines=100)
    story.experiment(metric=0.9, code_lines=140, parent=1)

    assert said(story.experiment(metric=0.899, code_lines=120, parent=1)) == ("keep", None, 3)
    assert said(story.experiment(metric=0.8985, code_lines=140, parent=1))[1] == "not_worth_it"


def test_without_a_size_the_diff_is_the_price_and_nothing_is_called_simpler() -> None:
    story = Story()
    story.experiment(metric=1.0)

    assert said(story.experiment(metric=0.999, lines_added=25))[:2] == ("discard", "not_worth_it")
    assert said(story.experiment(metric=1.0, lines_removed=99))[:2] == ("discard", "equal")
