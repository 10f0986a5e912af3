"""The policy's second telling agrees with the first, and sees what is decided wrongly."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.orchestrator.story import Story
from tests.unit.orchestrator.test_policy_properties import ENDINGS

from overnight.sessions.torture.judged import problems

EPSILON = 0.01


def _rows(story: Story) -> list[dict[str, Any]]:
    plain = ({"seq": r.seq, "kind": r.kind.value, "body": r.body} for r in story.writer.disk)
    return copy.deepcopy(list(plain))


@settings(max_examples=60, deadline=None)
@given(
    endings=st.lists(ENDINGS, max_size=15),
    maximize=st.booleans(),
    version=st.sampled_from([1, 2, 2, 2]),
)
def test_both_tellings_agree(endings: list[dict[str, Any]], maximize: bool, version: int) -> None:
    direction = "maximize" if maximize else "minimize"
    story = Story(
        policy_version=version,
        metric={"name": "m0", "direction": direction},
        constraints=[{"name": "m", "max": 100.0}],
        guard=["true"],
        policy={"simplicity": {"tie_epsilon": EPSILON}},
    )
    story.experiment(metric=1.0, code_lines=10_000, measures={"m": 1.0}, guard="passed")
    for drawn in endings:
        fields = dict(drawn)
        best = story.state.experiments[story.state.incumbent or 1].proposed.code_lines or 0
        worse = fields.pop("near") * 0.4 * EPSILON * (-1 if maximize else 1)
        far, less = fields.pop("far"), fields.pop("less")
        metric = (story.state.metric_of(story.state.incumbent) or 0.0) + worse
        story.experiment(**fields, metric=far or metric, code_lines=best - less)

    assert list(problems(_rows(story))) == []


def _night() -> Story:
    story = Story(constraints=[{"name": "m", "max": 9.0}])
    story.experiment(metric=1.0, code_lines=100, measures={"m": 1.0})
    story.experiment(metric=0.999, code_lines=130, measures={"m": 1.0})
    story.experiment(metric=1.0001, code_lines=50, measures={"m": 1.0})
    story.experiment(metric=0.5, code_lines=50, measures={"m": 99.0})
    story.experiment(status="crash", reason="import", signature="s")
    return story


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (2, {"verdict": "keep", "incumbent_after": 2}),
        (3, {"verdict": "discard", "incumbent_after": 1}),
        (4, {"verdict": "keep", "incumbent_after": 4}),
        (5, {"verdict": "infra", "reason": "environment"}),
        (5, {"verdict": "keep", "incumbent_after": 5}),
        (4, {"rests_on": [1]}),
        (4, {"incumbent_before": 1}),
    ],
)
def test_a_wrong_decision_is_seen(number: int, fields: dict[str, Any]) -> None:
    rows = _rows(_night())
    assert list(problems(rows)) == []
    for row in rows:
        if row["kind"] == "decision" and row["body"]["id"] == number:
            row["body"] |= fields

    assert list(problems(rows)) != []
