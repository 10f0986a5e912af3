"""A runner that was stopped, or a host that slept, is never held against the idea."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runner.test_verdict import judge

from overnight.contracts.execution import Exit
from overnight.contracts.status import Status

PRINTED = b"---\nval_bpb: 1.5\n"


@pytest.mark.parametrize(
    "seen",
    [
        {"exit": Exit.DEADLINE_WALL, "stalled_seconds": 90.0},
        {"exit": Exit.DEADLINE_WALL, "asleep_seconds": 7200.0},
        {"exit": Exit.EXITED, "asleep_seconds": 7200.0},
        {"exit": Exit.EXITED, "exit_code": 1, "asleep_seconds": 7200.0},
    ],
)
def test_what_time_alone_did_is_suspended_and_its_metric_a_claim(seen: dict[str, Any]) -> None:
    verdict = judge(PRINTED, **{"exit_code": 0, **seen})

    assert (verdict.status, verdict.reason, verdict.metric) == (Status.INFRA, "suspended", None)
    assert [claim.value for claim in verdict.claims] == ["1.5"]
    assert "\n" not in verdict.detail
    assert verdict.detail


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        ({"stalled_seconds": 90.0}, Status.SCORED),
        ({"stalled_seconds": 90.0, "exit_code": 1}, Status.CRASH),
        ({"stalled_seconds": 90.0, "exit": Exit.OOM}, Status.CRASH),
        ({"asleep_seconds": 90.0, "exit": Exit.DEADLINE_CPU}, Status.TIMEOUT),
        ({"asleep_seconds": 90.0, "exit": Exit.KILLED}, Status.CANCELLED),
    ],
)
def test_what_a_stop_did_not_change_keeps_its_verdict(seen: dict[str, Any], status: Status) -> None:
    verdict = judge(PRINTED, **seen)

    assert verdict.status is status
    assert ("stalled" in verdict.flags) == ("stalled_seconds" in seen)
