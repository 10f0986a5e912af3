"""The four points: what they say, in figures, whatever the session was."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from tests.unit.sessions.report.sessions_of import Facts, Idea, anything, facts_of

from overnight.contracts.status import Status
from overnight.sessions.program.following import following
from overnight.sessions.report import summary
from overnight.sessions.report.directions import unexplored
from overnight.sessions.report.page import page
from overnight.sessions.report.points import TITLES, points
from overnight.sessions.report.research import research
from overnight.sessions.report.text import full_lines, point_lines

GOOD = (
    Idea(metric=1.8, knobs={"LR": 0.3}),
    Idea(metric=1.9, knobs={"DEPTH": 8}),
    Idea(knobs={"DEPTH": 16}, result={"reason": "oom"}),
    Idea(knobs={"DEPTH": 32}, result={"reason": "oom"}),
    Idea(metric=1.85, knobs={"LR": 1.0}),
)


def test_there_are_exactly_four_points() -> None:
    lines = [line.text for line in point_lines(facts_of(*GOOD))]

    assert len(lines) == 4
    assert [line[:18].strip() for line in lines] == list(TITLES)
    assert not any(line.title for line in point_lines(facts_of(*GOOD)))


def test_each_point_has_its_figures() -> None:
    best, failures, add, following = points(facts_of(*GOOD))

    assert best.startswith("002 val_bpb 2.0000 -> 1.8000, 10.0 % better than the baseline, by 1")
    assert "one run only" in best
    assert failures == ("crash: out of memory, 2 times (004, 005), each with DEPTH (16, 32)")
    assert add.startswith("4 of 5 ideas brought nothing (2 discarded, 2 failed): DEPTH (3 times)")
    assert following.startswith("LR at 0.17, 0.55, one at a time: LR 0.1 -> 0.3 brought 0.2 (002)")


def test_the_best_is_reported_not_the_last() -> None:
    told = facts_of(*GOOD, Idea(metric=1.99, knobs={"ACTIVATION": "relu"}),
                    Idea(knobs={"LR": 0.2}, ended=False))  # fmt: skip

    best = points(told)[0]

    assert best.startswith("002 ")
    assert best.endswith("; 1 not decided yet")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (facts_of(Idea(ended=False), baseline=2.0), "none yet: only the baseline ran"),
        (facts_of(), "none yet: only the baseline ran, val_bpb 2.0000"),
        (facts_of(Idea(), Idea()), "stands after 2 ideas; none of them gave a number"),
        (facts_of(baseline=None), "none: the baseline itself ended as crash"),
        (facts_of(Idea(metric=2.5, knobs={"LR": 1.0})),
         "closest 002 LR 0.1 -> 1, worse by 0.5"),
        (facts_of(Idea(metric=0.5), baseline=0.0, metric={"name": "acc", "direction": "maximize"}),
         "better by 0.5 than the baseline"),
        (facts_of(Idea(metric=-1e308), baseline=1e308), "a gain beyond what a number holds"),
        (facts_of(Idea(metric=1.0), baseline=1e-320,
                  metric={"name": "acc", "direction": "maximize"}), "better by 1 than"),
        (facts_of(Idea(metric=2.0 - 1e-9)), "2 -> 1.999999999"),
    ],
    ids=range(9),
)  # fmt: skip
def test_where_the_data_is_thin_or_odd_the_words_are_honest(told: Facts, words: str) -> None:
    texts = points(told)

    assert words in texts[0]
    for text in texts:
        assert text
        assert "nan" not in text.split()
        assert "inf" not in text.split()


def test_maximise_turns_everything_round() -> None:
    told = facts_of(
        Idea(metric=0.9, knobs={"LR": 0.3}), Idea(metric=0.7, knobs={"DEPTH": 8}), baseline=0.8,
        metric={"name": "acc", "direction": "maximize"},
    )  # fmt: skip

    best, _, add, _ = points(told)

    assert best.startswith("002 acc 0.8000 -> 0.9000, 12.5 % better")
    assert "DEPTH 4 -> 8 (worse 0.2)" in add


def test_what_won_on_an_old_parent_is_worth_another_try() -> None:
    told = facts_of(Idea(metric=1.5, knobs={"LR": 0.3}),
                    Idea(metric=1.9, knobs={"DEPTH": 8}, parent=1))  # fmt: skip

    _, _, add, following = points(told)

    assert add == "nothing: of 2 ideas none lost; 1 overtaken, worth another try"
    assert following.startswith("on top of today's best: DEPTH 4 -> 8 (003, better by 0.1)")


def test_a_session_without_known_knobs_says_so_and_names_what_came_close() -> None:
    told = facts_of(Idea(metric=1.9, hypothesis="wider layers"), start={})
    lost = facts_of(Idea(hypothesis="a new optimizer"), start={})

    assert "variants of wider layers (002)" in points(told)[3]
    assert "no knob of this session is known by name" in points(lost)[3]


def test_ideas_that_differ_in_their_numbers_alone_are_one_group() -> None:
    told = facts_of(*(Idea(metric=2.1, hypothesis=f"try {n} layers") for n in (3, 4, 5)), start={})

    assert "try # layers (3 times)" in points(told)[2]


def test_hostile_words_stay_one_safe_line() -> None:
    nasty = "<script>\x1b[31m\u202eevil\u2028line\r\n\x00\ud800" * 50
    told = facts_of(
        Idea(metric=1.9, hypothesis=nasty[:4000].replace("\ud800", "?")),
        Idea(hypothesis="x", result={"detail": "\x1b]0;boo\x07" * 9, "signature": "\u202e" * 90}),
    )

    for text in points(told):
        assert text.isprintable()
        assert len(text) < 400


@pytest.mark.parametrize("seed", range(40))
def test_no_session_whatever_breaks_a_point_or_makes_it_long(seed: int) -> None:
    told = anything(seed)

    for text in points(told):
        assert text
        assert len(text) < 400
    assert told.total_gain is None or math.isfinite(told.total_gain)


@pytest.mark.parametrize("seed", range(100, 130))
def test_no_session_whatever_breaks_a_report(seed: int) -> None:
    told = anything(seed)
    found = research(told)

    lines = [line.text for line in full_lines(told, found)]
    drawn = page(told, found)
    json.dumps(summary.whole(told, found), allow_nan=False)
    following("# Mine\n", told)

    assert not re.search(r"\b(nan|inf)\b", " ".join(lines) + drawn)


def test_a_baseline_that_failed_is_what_comes_next() -> None:
    assert points(facts_of(baseline=None))[3].startswith("the unmodified code: mend what ended it")


def test_ideas_that_never_ran_are_told_since_status_counts_them() -> None:
    ran = facts_of(*GOOD)
    refused = replace(ran.entries[-1], id=99, status=Status.REJECTED)
    told = replace(ran, entries=(*ran.entries, refused))

    assert "of 5 ideas that ran; " in points(told)[0]
    assert "; 5 ideas tried, 1 never ran" in next(iter(full_lines(told, research(told)))).text
    assert "that ran" not in points(facts_of(*GOOD))[0]


def test_nothing_is_offered_below_zero() -> None:
    """A decay, a dropout or a share of zero ends there."""
    start = {"DROPOUT": 0.0, "LR": 0.1}
    told = facts_of(Idea(metric=2.1, knobs={"DROPOUT": 0.1}), Idea(metric=2.2, knobs={"LR": 0.3}),
                    start=start)  # fmt: skip
    offered = " ".join(family.what for family in unexplored(told))

    assert "LR below 0.1" in offered
    assert "DROPOUT" not in offered
