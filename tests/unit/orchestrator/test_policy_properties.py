"""What no row of results can make policy version 2 do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.contracts.status import Status
from overnight.orchestrator.policy.weighed import tie_epsilon
from tests.unit.orchestrator.story import Story

BOUND = 100.0
ENDINGS = st.fixed_dictionaries(
    {
        "far": st.one_of(st.none(), st.none(), st.floats(0.9, 1.1)),  #: of the first metric
        "near": st.integers(-1, 3),  #: worse than the incumbent by so many 0.4 of tie_epsilon
        "less": st.integers(-5, 30),  #: code than the incumbent
        "measures": st.sampled_from([{"m": 1.0}] * 6 + [{"m": 200.0}, {}]),
        "guard": st.sampled_from(["passed"] * 6 + ["failed", None]),
        "status": st.sampled_from(["scored"] * 12 + ["crash", "timeout", "held"]),
        "places": st.integers(0, 20),
    }
)


@settings(max_examples=80, deadline=None)
@given(
    first=st.sampled_from([1.0, -1.0, 0.0, 1e-6]),
    endings=st.lists(ENDINGS, max_size=20),
    maximize=st.booleans(),
    epsilon=st.sampled_from(["auto", 0.0, 0.01]),
)
def test_whatever_comes_the_best_is_never_given_away(
    first: float, endings: list[dict[str, Any]], maximize: bool, epsilon: object
) -> None:
    direction = "maximize" if maximize else "minimize"
    story = Story(
        metric={"name": "m0", "direction": direction},
        constraints=[{"name": "m", "max": BOUND}],
        guard=["true"],
        policy={"simplicity": {"tie_epsilon": epsilon}},
    )
    story.experiment(metric=first, code_lines=10_000, measures={"m": 1.0}, guard="passed")
    sign = -1.0 if maximize else 1.0
    last_gain = best_ever = first
    slack = 1e-12 + tie_epsilon(story.state)
    for drawn in endings:
        ending = dict(drawn)
        before = story.state.incumbent
        before_metric = story.state.metric_of(before)
        assert before is not None
        assert before_metric is not None
        near, far = ending.pop("near"), ending.pop("far")
        metric = before_metric + sign * near * 0.4 * (slack - 1e-12)
        if far is not None:
            metric = first * far if first else far - 1.0
        size = story.state.experiments[before].proposed.code_lines
        assert size is not None
        size -= ending.pop("less")
        decision = story.experiment(**ending, metric=metric, code_lines=size)
        now = story.state.metric_of(story.state.incumbent)
        assert now is not None

        if decision.verdict is Status.KEEP:
            assert ending["status"] == "scored"
            assert ending["guard"] == "passed"
            assert ending["measures"] == {"m": 1.0}
            if decision.reason is None:
                assert sign * (metric - before_metric) < 0
                last_gain = metric
            else:
                assert sign * (metric - before_metric) >= 0
                assert sign * (metric - last_gain) <= slack, "losses since the last gain add up"
        else:
            assert story.state.incumbent == before
        best_ever = min(best_ever, now, key=lambda value: sign * value)
        assert sign * (now - best_ever) <= slack, "small gains reset the allowance"
        if ending["status"] != "scored":
            assert decision.verdict.value == ending["status"]
    story.verified()


@settings(max_examples=60, deadline=None)
@given(metric=st.floats(-1e6, 1e6), gain=st.floats(1e-9, 1e6), lines=st.integers(-200, 0))
def test_a_gain_without_added_code_is_always_kept(metric: float, gain: float, lines: int) -> None:
    story = Story()
    story.experiment(metric=metric, code_lines=300)
    better = metric - gain
    decision = story.experiment(metric=better, code_lines=300 + lines)

    assert (decision.verdict is Status.KEEP) == (better < metric or lines <= -5)
