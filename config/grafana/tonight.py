"""*Tonight*: one session, looked at before going to bed and after. Over or not: the last values.

Every query makes one number of what the session's services say: a service that was started again
may have another address, and its series would stand twice.
"""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import dashboard
from panels import (
    GOOD,
    PLAIN,
    SOURCE,
    WARN,
    Query,
    bars,
    busy,
    dash,
    laid_out,
    levels,
    lines,
    number,
    painted,
    steps,
    words,
)

STATES = {
    "new": "blue",
    "running": GOOD,
    "paused": WARN,
    "draining": "blue",
    "stopping": "blue",
    "closed": PLAIN,
}
VERDICTS = {
    "keep": "green",
    "discard": "blue",
    "crash": "red",
    "timeout": "orange",
    "rejected": "purple",
    "held": "yellow",
    "pruned": "light-blue",
    "cancelled": "gray",
    "infra": "dark-red",
}


def tonight() -> Any:
    """The dashboard."""
    board = dash("Tonight", "One session: how far it is.", "Fleet", every=False)
    return laid_out(
        board.annotation(keeps()),
        (4, [(4, state()), (4, best()), (4, gain()), (4, ended()), (4, device()), (4, since())]),
        (9, [(17, curve()), (7, verdicts())]),
        (8, [(8, flight()), (8, pace()), (8, busy('session="$session"', "{{slot}}"))]),
    )


def keeps() -> Any:
    """A green line at each keep: where there are more than in the hour up to a step before.

    Over an hour, since a scrape that failed leaves a gap just before the one that tells of a keep.
    """
    series = 'overnight_keeps_total{session="$session"}'
    return (
        dashboard.AnnotationQuery()
        .name("Keeps")
        .datasource(SOURCE)
        .enable(True)
        .icon_color(GOOD)
        .expr(f"max({series}) > bool max(max_over_time({series}[1h] offset $__interval))")
    )


def last(title: str, says: str, unit: str, query: Query, colors: Any = None) -> Any:
    """The last number of the range: a session that is over is looked at, too."""
    return number(title, says, unit, query, colors=colors, now=False)


def state() -> Any:
    """The one state that is 1 of `overnight_session_state`, as its place in STATES."""
    each = (
        f'{place} * max(overnight_session_state{{session="$session",state="{name}"}})'
        for place, name in enumerate(STATES)
    )
    told = {str(place): name for place, name in enumerate(STATES.items())}
    says = "What the session does. Paused: `overnight status` says why."
    query = (" + ".join(each), "state")
    return last("State", says, "none", query).mappings([words(told)])


def best() -> Any:
    says = "Metric of the best experiment."
    query = ('max(overnight_incumbent_metric{session="$session"})', "best")
    return last("Best so far", says, "none", query).decimals(6)


def gain() -> Any:
    says = "How much better the best is, as a share of the baseline."
    query = (
        'abs(max(overnight_incumbent_metric{session="$session"})'
        ' - max(overnight_baseline_metric{session="$session"}))'
        ' / abs(max(overnight_baseline_metric{session="$session"}) != 0)',
        "gain",
    )
    some = levels(PLAIN, (1e-9, GOOD))
    return last("Gain over the baseline", says, "percentunit", query, some).decimals(2)


def ended() -> Any:
    says = "With a verdict, the baseline included."
    query = ('sum(max by (status) (overnight_experiments{session="$session"}))', "ended")
    return last("Experiments", says, "short", query).decimals(0)


def device() -> Any:
    says = "For which commands held a slot, all attempts together."
    return last(
        "Device time",
        says,
        "s",
        ('max(overnight_device_seconds_total{session="$session"})', "used"),
    )


def since() -> Any:
    says = "The baseline counts as one. Long is no fault: that is research."
    query = ('time() - max(overnight_last_keep_timestamp_seconds{session="$session"})', "since")
    return last("Since the last keep", says, "s", query)


def curve() -> Any:
    says = "Metric of the best so far; a green line is a keep."
    panel = lines(
        "Best and baseline",
        says,
        "none",
        ('max(overnight_incumbent_metric{session="$session"})', "best"),
        ('max(overnight_baseline_metric{session="$session"})', "baseline"),
    )
    dashes = {"custom.lineStyle": {"fill": "dash", "dash": [8, 8]}}
    panel = painted(panel, "best", GOOD)
    return steps(painted(panel, "baseline", "gray", dashes)).decimals(4)


def verdicts() -> Any:
    says = "Experiments by verdict. infra is our fault or the machine's, never the idea's."
    query = (
        'max by (status) (overnight_experiments{session="$session",status="keep"})'
        ' or max by (status) (overnight_experiments{session="$session"}) > 0',
        "{{status}}",
    )
    panel = bars("Verdicts", says, query, levels("blue"), now=False)
    for verdict, color in VERDICTS.items():
        panel = painted(panel, verdict, color)
    return panel


def flight() -> Any:
    says = "Proposed and not ended; of these, in the queue; runners that live."
    panel = lines(
        "In flight and queued",
        says,
        "short",
        ('max(overnight_in_flight{session="$session"})', "in flight"),
        ('max(overnight_queue_depth{session="$session"})', "queued"),
        ('max(overnight_runners{session="$session"})', "runners"),
    )
    return steps(panel).min(0).decimals(0)


def pace() -> Any:
    """A slope, where a rate would begin at 0 and take half an hour to tell the truth."""
    says = "At the pace of the last 30 minutes, or of the session as long as it is younger."
    query = (
        'max(deriv(overnight_experiments_ended_total{session="$session"}[30m])) * 3600',
        "an hour",
    )
    return lines("Experiments an hour", says, "short", query).min(0).decimals(1)
