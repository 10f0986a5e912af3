"""A device that fails fast rests, longer each time; where nobody else could do its work, never."""

from __future__ import annotations

from overnight.runner.breaker import Breaker


def breaker() -> Breaker:
    return Breaker(failures=2, pause_seconds=10, rest_seconds=60, rest_max_seconds=200)


def fail(breaker: Breaker, now: float, *, alone: bool = False, reason: str = "sandbox") -> None:
    breaker.ended(reason, "it broke", now=now, alone=alone)


def test_the_first_failure_leaves_the_others_time_to_take_the_next_attempt() -> None:
    one = breaker()
    assert one.rests(0) is None
    fail(one, 100)

    assert one.rests(109) == "it rests after a failure: it broke"
    assert (one.rests(110), one.is_open) == (None, False)


def test_further_failures_make_it_rest_longer_and_a_success_forgives_all() -> None:
    one = breaker()
    now = 0.0
    for rest in (10, 60, 120, 200, 200):
        fail(one, now)
        assert one.rests(now + rest - 1) is not None
        assert one.rests(now + rest) is None, "then one job shows if it works again"
        now += rest
    assert one.is_open
    one.ended(None, "", now=now, alone=False)

    assert (one.in_a_row, one.is_open, one.rests(now)) == (0, False, None)


def test_where_nobody_else_lives_a_rest_would_only_cost_time() -> None:
    one = breaker()
    for now in range(5):
        fail(one, now, alone=True)

    assert one.rests(5) is None
    assert one.is_open, "but somebody should look"


def test_what_is_the_same_on_every_device_is_not_held_against_one() -> None:
    one = breaker()
    for reason in ("disk", "suspended", "starved", "snapshot"):
        fail(one, 0, reason=reason)

    assert (one.in_a_row, one.rests(0)) == (0, None)
