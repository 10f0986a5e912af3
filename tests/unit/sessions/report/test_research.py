"""The summary in five parts, kept gains told from lucky runs, and what counts as known."""

from __future__ import annotations

import json

import pytest
from tests.unit.sessions.report.sessions_of import Idea, facts_of

from overnight.sessions.report import constants, directions, points, summary
from overnight.sessions.report.gains import Standing, gains
from overnight.sessions.report.patterns import patterns
from overnight.sessions.report.research import research
from overnight.sessions.report.text import full_lines

SESSION = (
    Idea(metric=1.8, knobs={"LR": 0.3}, hypothesis="LR 0.1 -> 0.3: learns faster"),
    Idea(metric=1.9, knobs={"DEPTH": 8}),
    Idea(metric=1.801, knobs={"ACTIVATION": "relu"}),
    Idea(knobs={"DEPTH": 16}, result={"reason": "oom"}),
    Idea(metric=1.79, knobs={"LR": 0.35}),
)


def test_the_best_configuration_has_all_knobs_changed_ones_first() -> None:
    found = research(facts_of(*SESSION))

    assert found.configuration == [
        ("LR", "0.35", "0.1"),
        ("ACTIVATION", "gelu", "gelu"),
        ("DEPTH", "4", "4"),
    ]


def test_what_stands_in_the_code_wins_over_what_a_proposer_wrote_down() -> None:
    best = constants.constants({"train.py": "LR = 3.5e-1\nMOMENTUM: float = -0.9\nx = 1\n"})
    base = constants.constants({"train.py": "LR = 1e-1\nGONE = 'a'\nF = f()\n"})

    found = research(facts_of(*SESSION), constants.compared(best, base)).configuration

    assert found[:3] == [
        ("GONE", "-", "'a'"), ("LR", "3.5e-1", "1e-1"), ("MOMENTUM", "-0.9", "-"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["def f(:", "(" * 5000, "\0", "A = " + "-" * 5000 + "1", "\ud800", "A = '\\q'"]
)
def test_code_that_cannot_be_read_has_no_constants_and_breaks_nothing(text: str) -> None:
    assert constants.constants({"train.py": text}) in ({}, {"A": "'\\q'"})


def test_what_was_learned_has_the_strongest_knob_the_flat_and_the_failing_ones() -> None:
    learned = research(facts_of(*SESSION)).learned

    assert learned == [
        "LR moved the metric most: LR 0.1 -> 0.3 better by 0.2 (002); "
        "LR 0.3 -> 0.35 better by 0.01 (006)",
        "ACTIVATION hardly matters: by itself it moved the metric by 0.001 at most",
        "fails: DEPTH at 16 (crash, 005)",
    ]


def test_the_reason_is_called_an_inference_and_says_how_to_test_it() -> None:
    why = research(facts_of(*SESSION)).why

    assert why.startswith("Inference, not tested: the best works mainly because of LR 0.1 -> 0.3")
    assert "95 % of the gain; its proposer's reason: learns faster" in why
    assert "To test it: " in why


@pytest.mark.parametrize(
    ("ideas", "confidence"),
    [
        ((), "none"),
        (SESSION, "low"),
        ([Idea(metric=1.5, knobs={"LR": 0.3})] + [Idea(metric=1.9)] * 19, "medium"),
        ([Idea(metric=1.5, knobs={"LR": 0.3}), Idea(metric=1.9, of=2)] + [Idea(metric=1.9)] * 60,
         "medium"),
    ],
)  # fmt: skip
def test_confidence_follows_from_reasons_and_is_never_high_without_re_runs(
    ideas: tuple[Idea, ...], confidence: str
) -> None:
    found = research(facts_of(*ideas))

    assert found.confidence == confidence
    assert found.reasons[1].startswith(("the noise is not known", "noise "))


def test_nothing_tried_is_said_in_every_part() -> None:
    found = research(facts_of())

    assert found.learned == ["too few ideas ended to say anything about the search space"]
    assert found.next
    assert "nothing to explain" in found.why
    assert full_lines(facts_of(), found)


def test_a_gain_that_was_run_once_is_told_as_that_and_a_jump_sticks_out() -> None:
    told = facts_of(*(Idea(metric=2.0 - 0.01 * n) for n in range(1, 5)), Idea(metric=1.0))

    found = gains(told)

    assert [g.standing for g in found] == [Standing.ONE_RUN] * 5
    assert found[0].words == "not re-run: one run only"
    assert [g.jump is not None for g in found] == [False] * 4 + [True]
    assert "a single jump, 96 times the usual gain: re-run it first" in found[-1].words


@pytest.mark.parametrize(
    ("again", "standing"), [(1.52, Standing.HELD), (2.3, Standing.FELL), (2.0, Standing.FELL)]
)
@pytest.mark.parametrize("way", ["minimize", "maximize"])
def test_a_re_run_says_whether_a_gain_held(again: float, standing: Standing, way: str) -> None:
    sign = 1 if way == "minimize" else -1
    told = facts_of(
        Idea(metric=sign * 1.5, knobs={"LR": 0.3}), Idea(metric=sign * again, of=2),
        baseline=sign * 2.0, metric={"name": "m", "direction": way},
    )  # fmt: skip

    assert [g.standing for g in gains(told)] == [standing]
    assert told.noise is not None
    assert told.noise[1] == 2


def test_noise_that_is_known_judges_what_was_run_once() -> None:
    told = facts_of(Idea(metric=2.02, of=1), Idea(metric=1.99, knobs={"LR": 0.2}),
                    Idea(metric=1.5, knobs={"LR": 0.3}))  # fmt: skip

    assert [g.standing for g in gains(told)] == [Standing.INSIDE_NOISE, Standing.ABOVE_NOISE]


def test_failures_are_counted_by_what_they_died_of_with_one_to_look_at() -> None:
    told = facts_of(
        *(Idea(knobs={"DEPTH": n}, result={"reason": "oom", "signature": f"at {n}"})
          for n in (8, 16)),
        Idea(status="timeout", result={"reason": "train"}),
        Idea(result={"reason": "exit_code", "signature": "KeyError: 'x'"}),
    )  # fmt: skip

    assert [(p.cause, p.count, p.example) for p in patterns(told)] == [
        ("crash: out of memory", 2, 3),
        ("timeout: over its budget", 1, 4),
        ("crash: KeyError: 'x'", 1, 5),
    ]
    assert patterns(told)[0].shared == "DEPTH (8, 16)"


def test_near_misses_of_different_knobs_are_combined() -> None:
    told = facts_of(
        Idea(metric=1.0, hypothesis="all anew"), Idea(metric=1.01, hypothesis="wider layers"),
        Idea(metric=1.02, hypothesis="a warm start"), Idea(metric=1.9, hypothesis="far off"),
        start={},
    )  # fmt: skip

    family = directions.unexplored(told)[0]

    assert family.what == "near misses combined: wider layers (003) with a warm start (004)"


def test_the_next_family_goes_on_where_an_end_is_open_and_doubles_what_doubled() -> None:
    told = facts_of(
        Idea(metric=1.7, knobs={"LR": 0.13}), Idea(metric=1.9, knobs={"LR": 0.16}),
        Idea(metric=1.5, knobs={"DIM": 128}), start={"LR": 0.1, "DIM": 64},
    )  # fmt: skip

    family = directions.next_family(told)

    assert family is not None
    assert family.what == "DIM at 256"
    assert family.why == "DIM 64 -> 128 brought 0.2 (004); now 128"


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.1, 0.4, 0.2), (4, 8, 6), (4, 5, None), (-1.0, 1.0, 0.0), (True, 2, None), ("a", 1, None)],
)
def test_a_value_between_two_is_halfway_and_new(
    low: float | str, high: float, wanted: float | None
) -> None:
    assert directions.between(low, high) == wanted


def test_the_whole_summary_is_strict_json() -> None:
    told = facts_of(*SESSION, Idea(metric=-1e308), Idea(metric=1e308, knobs={"LR": 1e308}))

    value = summary.whole(told, research(told))

    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert list(value["points"]) == list(summary.POINT_KEYS)
    assert value["counts"]["crash"] == 1
    assert value["kept"][0]["standing"] == "one_run"


def test_what_broke_a_rule_is_a_failure_that_may_repeat_not_a_near_miss() -> None:
    bounds = {"constraints": [{"name": "size_mb", "max": 10}], "policy_version": 2}
    told = facts_of(
        *(Idea(metric=1.9 - n / 100, knobs={"DEPTH": 8 + n}, result={"measures": {"size_mb": 20.0}})
          for n in range(2)),
        baseline_result={"measures": {"size_mb": 5.0}}, **bounds,
    )  # fmt: skip

    assert [(p.cause, p.count) for p in patterns(told)] == [("discard: constraint", 2)]
    assert [e.overtaken for e in told.ideas] == [False, False]
    assert points.outcome(told.ideas[0]) == "better by 0.1, but: constraint"
    assert "near misses" not in str(directions.next_family(told))
    assert points.best_improvement(told).startswith("none: the baseline's val_bpb 2.0000 stands")
