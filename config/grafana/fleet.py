"""*Fleet*: is every device at work, and does everything hold that they stand on?"""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.models.common import BigValueTextMode, GraphThresholdsStyleMode
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue
from panels import (
    BAD,
    GOOD,
    WARN,
    Query,
    bars,
    busy,
    dash,
    grid,
    laid_out,
    levels,
    lines,
    number,
    over_time,
    words,
)


def fleet() -> Any:
    """The dashboard."""
    use = busy('session=~"$session"', "{{tag}} {{slot}}")
    return laid_out(
        dash("Fleet", "All runners, devices and services.", "Tonight", every=True),
        (4, [(4, alive()), (4, at_work()), (4, survivors()), (4, quarantined()), (4, kills()),
             (4, down())]),
        (8, [(17, runners()), (7, infra())]),
        (7, [(12, use), (12, redis())]),
        (7, [(8, backlog()), (8, fsync()), (8, disk())]),
    )  # fmt: skip


def alive() -> Any:
    says = "That gave a sign of life within 10 s, of those that runs were opened for."
    panel = number(
        "Runners alive",
        says,
        "short",
        ('sum(max by (session) (overnight_runners{session=~"$session"}))', "alive"),
        ('sum(max by (session) (overnight_runners_wanted{session=~"$session"}))', "wanted"),
    )
    return panel.text_mode(BigValueTextMode.VALUE_AND_NAME)


def at_work() -> Any:
    says = "Share of the last 5 minutes in which an attempt ran, all runners. Green from 80 % on."
    query = ('avg(avg_over_time(overnight_runner_busy{session=~"$session"}[5m]))', "busy")
    return number("Busy", says, "percentunit", query, colors=levels(BAD, (0.5, WARN), (0.8, GOOD)))


def survivors() -> Any:
    says = "Processes that outlived a sandbox within this range. 0 is right; any is an alert."
    query = (
        'max(max_over_time(overnight_survivors{session=~"$session"}[$__range]))',
        "survivors",
    )
    return number("Survivors", says, "short", query, colors=levels(GOOD, (1, BAD)))


def quarantined() -> Any:
    says = "Devices that take no jobs now: lost, resting, or something lives on them."
    query = ('sum(overnight_device_quarantined{session=~"$session"})', "devices")
    return number("Quarantined", says, "short", query, colors=levels(GOOD, (1, BAD)))


def kills() -> Any:
    says = "From the reason to kill to an empty sandbox, within this range; without a kill 100 %."
    query = (
        'sum(increase(overnight_kill_latency_seconds_bucket{session=~"$session",le="1.0"}[$__range]))'
        ' / (sum(increase(overnight_kill_latency_seconds_count{session=~"$session"}[$__range])) > 0)'
        " or vector(1)",
        "in time",
    )
    colors = levels(BAD, (0.99, WARN), (0.9999, GOOD))
    return number("Kills within 1 s", says, "percentunit", query, colors=colors)


def down() -> Any:
    says = "Targets of Prometheus that don't answer."
    query = (
        'count(up{job=~"orchestrator|recorder|runner|spawner"} == 0) or vector(0)',
        "down",
    )
    return number("Services down", says, "short", query, colors=levels(GOOD, (1, BAD)))


#: Pixels, so that the last columns are seen without scrolling; the others share what is left.
WIDTHS = {"tag": 110, "slot": 60, "isolation": 110, "busy, 1 h": 90, "attempts": 90}


def runners() -> Any:
    """One row a runner: four queries that share the labels tag and slot."""
    says = "What each runner is, how much of the last hour it worked, and whether it takes jobs."
    by = "by (tag, slot)"
    columns: dict[str, Query] = {
        "": (
            "max by (tag, slot, device, hardware, isolation)"
            ' (overnight_runner_info{session=~"$session"})',
            "",
        ),
        "busy, 1 h": (
            f'max {by} (avg_over_time(overnight_runner_busy{{session=~"$session"}}[1h]))',
            "",
        ),
        "attempts": (f'sum {by} (overnight_attempts_total{{session=~"$session"}})', ""),
        "takes jobs": (f'max {by} (overnight_device_quarantined{{session=~"$session"}})', ""),
    }
    panel = grid("Runners", says, ("tag", "slot", "device", "hardware", "isolation"), columns)
    for name, pixels in WIDTHS.items():
        panel = panel.override_by_name(name, [DynamicConfigValue("custom.width", pixels)])
    panel = panel.override_by_name("busy, 1 h", [DynamicConfigValue("unit", "percentunit")])
    takes = {"0": {"text": "yes", "color": GOOD}, "1": {"text": "quarantined", "color": BAD}}
    return panel.override_by_name(
        "takes jobs",
        [
            DynamicConfigValue("mappings", [{"type": "value", "options": takes}]),
            DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ],
    )


def infra() -> Any:
    says = "Within this range, by reason. They are run again; the idea pays nothing."
    query = (
        'sum by (reason) (increase(overnight_infra_attempts_total{session=~"$session"}[$__range])) > 0'
        ' or on () label_replace(vector(0), "reason", "none", "", "")',
        "{{reason}}",
    )
    colors = levels(GOOD, (1, WARN), (10, BAD))
    return bars("Attempts that failed by our fault", says, query, colors)


def redis() -> Any:
    says = "Whether it answers each session's recorder and runners."
    query = ('min by (tag, job) (overnight_redis_up{session=~"$session"})', "{{tag}} {{job}}")
    told = words({"1": ("answers", GOOD), "0": ("is away", BAD)})
    return over_time("Redis", says, query, told, levels(BAD, (1, GOOD)))


def backlog() -> Any:
    says = "Messages that wait to become rows. More than 20 for 5 minutes is an alert."
    query = ('max by (tag) (overnight_recorder_backlog{session=~"$session"})', "{{tag}}")
    return lines("Recorder's backlog", says, "short", query).min(0).decimals(0).axis_soft_max(20)


def fsync() -> Any:
    says = "Mean of the last 30 minutes: how long the disk takes for one row."
    query = (
        'sum by (tag) (rate(overnight_ledger_fsync_seconds_sum{session=~"$session"}[30m]))'
        ' / sum by (tag) (rate(overnight_ledger_fsync_seconds_count{session=~"$session"}[30m]))',
        "{{tag}}",
    )
    return lines("Time of an fsync", says, "s", query).min(0)


def disk() -> Any:
    says = "Where each session lies. Red, below 5 GB, is an alert."
    query = ('min by (tag) (overnight_disk_free_bytes{session=~"$session"})', "{{tag}}")
    area = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.AREA)
    panel = lines("Disk free", says, "decbytes", query).min(0).thresholds_style(area)
    return panel.thresholds(levels(BAD, (5e9, "transparent")))
