"""What a run may cost is checked before it starts, and told to whoever starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.ledger.history_of import CONFIG
from tests.unit.orchestrator.story import Story

from overnight.cli.expectation import estimate_lines
from overnight.configuration import ResolvedLoop
from overnight.contracts import wire
from overnight.contracts.errors import ConfigError
from overnight.contracts.loop import LoopConfig
from overnight.ledger.fold import SessionState
from overnight.orchestrator.deadlines import deadlines
from overnight.sessions.limits import check_limits, estimate


def config(
    limits: dict[str, Any] | None = None, price: float | None = None, **more: Any
) -> LoopConfig:
    policy = {"limits": limits or {}, **more.pop("policy", {})}
    pools = {"default": {"usd_per_hour": price}}
    return wire.build(LoopConfig, {**CONFIG, "policy": policy, "pools": pools, **more})


def refused(found: LoopConfig, **origins: str) -> str:
    named = {key.replace("__", "."): place for key, place in origins.items()}
    resolved = ResolvedLoop(
        config=found, origins=named, repo=Path("/r"), session_root=Path("/r/sandbox")
    )
    with pytest.raises(ConfigError) as error:
        check_limits(resolved)
    return str(error.value)


@pytest.mark.parametrize("limits", [{"usd": 5.0}, {"per_experiment": {"usd": 5.0}}])
@pytest.mark.parametrize("price", [None, 0.0])
def test_money_needs_a_price(limits: dict[str, Any], price: float | None) -> None:
    message = refused(config(limits, price))

    assert message.endswith(
        "money needs a price: set pools.default.usd_per_hour, or limit gpu_hours"
    )
    assert message.startswith("policy.limits.")


def test_a_negative_price_is_refused_where_it_stands() -> None:
    message = refused(config(price=-2.0), pools__default__usd_per_hour="loop.run.yaml:7")

    assert message == "loop.run.yaml:7: pools.default.usd_per_hour: must be 0 or more, not -2"


@pytest.mark.parametrize(
    ("limits", "price", "told"),
    [
        (
            {"per_experiment": {"gpu_hours": 0.1}},
            None,
            "policy.limits.per_experiment.gpu_hours: 0.1 h is less than one experiment may take: "
            "0.167 h, its deadline of 600 s; raise it, lower budget or kill_factor, or set "
            "deadline_seconds to 360 at most",
        ),
        (
            {"per_experiment": {"usd": 1.0}},
            12.0,
            "policy.limits.per_experiment.usd: 1.00 usd is less than one experiment may take: "
            "2.00 usd, its deadline of 600 s; raise it, lower budget or kill_factor, or set "
            "deadline_seconds to 300 at most",
        ),
        ({"gpu_hours": 0.1}, None, "policy.limits.gpu_hours: 0.1 h is less than one experiment"),
        ({"usd": 1.0}, 12.0, "policy.limits.usd: 1.00 usd is less than one experiment may take"),
    ],
)
def test_one_experiment_that_could_cost_too_much_never_starts(
    limits: dict[str, Any], price: float | None, told: str
) -> None:
    assert refused(config(limits, price)).startswith(told)


def test_the_deadline_that_counts_is_the_one_that_kills() -> None:
    """With `deadline_seconds`, and where only the baseline's measured time would tell."""
    limits = {"per_experiment": {"gpu_hours": 0.1}}
    assert "1800 s" in refused(config(limits, gate="steps"))
    fits = config(limits, gate="steps", deadline_seconds=360.0)
    check_limits(ResolvedLoop(config=fits, origins={}, repo=Path("/r"), session_root=Path("/r/s")))


def test_a_session_that_goes_on_is_measured_by_what_it_knows() -> None:
    """Its baseline told how long one takes; what is left of its own limits is seen as it runs."""
    limits = {"gpu_hours": 0.1, "per_experiment": {"gpu_hours": 0.1}}
    found = config(limits, gate="steps")
    resolved = ResolvedLoop(config=found, origins={}, repo=Path("/r"), session_root=Path("/r/s"))

    check_limits(resolved, state(100.0))
    with pytest.raises(ConfigError, match="its deadline of 400 s"):
        check_limits(resolved, state(200.0))


def test_a_deadline_that_is_derived_stays_within_what_one_may_cost() -> None:
    limits = {"per_experiment": {"gpu_hours": 0.5}}
    story = Story(gate="steps", policy={"limits": limits})
    story.experiment(metric=1.0, runtime_s=1500.0)
    assert story.state.config is not None

    assert deadlines(story.state.config, story.state) == (1800.0, None)
    free = config(gate="steps")
    assert deadlines(free, story.state) == (3000.0, None)


def state(*runtimes: float) -> SessionState:
    story = Story()
    for seconds in runtimes:
        story.experiment(metric=1.0, runtime_s=seconds)
    return story.state


NEW = SessionState()


@pytest.mark.parametrize(
    ("limits", "before", "expected"),
    [
        ({}, NEW, (24.0, None, None, None)),
        ({"hours": 8.0}, NEW, (24.0, 192, "policy.limits.hours", 8.0)),
        ({"experiments": 11}, NEW, (24.0, 12, "policy.limits.experiments", 0.5)),
        ({"experiments": 400, "hours": 8.0}, NEW, (24.0, 192, "policy.limits.hours", 8.0)),
        ({"gpu_hours": 2.0, "hours": 8.0}, NEW, (24.0, 23, "policy.limits.gpu_hours", 23 / 24)),
        ({"usd": 3.0}, NEW, (24.0, 11, "policy.limits.usd", 11 / 24)),
        ({"experiments": 4}, state(60.0, 100.0, 100.0),
         (72.0, 2, "policy.limits.experiments", 1 / 36)),
        ({"gpu_hours": 0.1}, state(180.0, 180.0), (40.0, 0, "policy.limits.gpu_hours", 0.0)),
    ],
)  # fmt: skip
def test_the_first_limit_ends_the_run(
    limits: dict[str, Any], before: SessionState, expected: tuple[Any, ...]
) -> None:
    """Two at a time, 300 s each by the budget, or as long as the session's own took."""
    found = estimate(config(limits, 3.0), before, 2)

    assert (found.experiments_per_hour, found.experiments, found.until) == expected[:3]
    assert found.hours == (pytest.approx(expected[3]) if expected[3] is not None else None)
    if found.device_hours is not None:
        assert found.hours is not None
        assert found.device_hours == pytest.approx(2 * found.hours)
        assert found.usd == pytest.approx(3.0 * found.device_hours)


def lines(limits: dict[str, Any], before: SessionState = NEW, **more: Any) -> list[str]:
    return estimate_lines(estimate(config(limits, **more), before, 2))


def test_the_estimate_is_two_lines_for_a_person() -> None:
    assert lines({"hours": 8.0}) == [
        "  expects   24 experiments/h (by the budget, 2 at a time): ~192 in 8 h 00 min (--hours)",
        "  costs     ~16 slot-hours (unpriced: set pools.default.usd_per_hour)",
    ]
    assert lines({"usd": 6.0}, price=3.0, policy={"approval": "hypothesis"}) == [
        "  expects   24 experiments/h (by the budget, 2 at a time), and your time to approve each: "
        "~23 in 57 min 30 s (policy.limits.usd)",
        "  costs     ~1.9 slot-hours, ~5.75 usd",
    ]
    assert lines({}, price=1.5) == [
        "  expects   24 experiments/h (by the budget, 2 at a time), until you stop it",
        "  costs     2 slot-hours an hour (3.00 usd)",
    ]
    assert lines({"experiments": 3}, state(90.0)) == [
        "  expects   80 experiments/h (as measured, 2 at a time): ~3 in 2 min 15 s (--max)",
        "  costs     ~0.075 slot-hours (unpriced: set pools.default.usd_per_hour)",
    ]


def test_a_pace_that_nobody_knows_is_not_made_up() -> None:
    assert lines({"hours": 2.0}, gate="steps") == [
        "  expects   how long an experiment takes is known after the baseline; 2 at a time",
        "  costs     2 slot-hours an hour (unpriced: set pools.default.usd_per_hour)",
    ]


def test_nothing_is_expected_of_a_run_that_is_over_before_it_starts() -> None:
    assert lines({"experiments": 1}, state(10.0, 10.0)) == []
