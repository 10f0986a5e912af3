"""A fleet's parent serves what all its workers serve, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from overnight import telemetry
from overnight.runner.gathering import Gathered
from overnight.runner.metrics import RunnerMetrics


@contextmanager
def _worker(slot: str) -> Iterator[tuple[RunnerMetrics, str]]:
    registry = CollectorRegistry()
    metrics = RunnerMetrics(registry)
    labels = {"session": "0123456789ab", "tag": "mar5", "slot": slot}
    endpoint = telemetry.serve_metrics(registry, labels=labels)
    assert endpoint is not None
    try:
        yield metrics, endpoint.url
    finally:
        endpoint.close()


def _served(*urls: str) -> str:
    registry = CollectorRegistry()
    registry.register(Gathered(lambda: urls))
    return generate_latest(registry).decode()


def test_the_series_of_all_workers_stand_under_one_name_each() -> None:
    with _worker("r0") as (first, one), _worker("r1") as (second, other):
        first.begin()
        second.kill_latency.observe(0.02)
        text = _served(one, other)

    for line in (
        'overnight_runner_busy{session="0123456789ab",slot="r0",tag="mar5"} 1.0',
        'overnight_runner_busy{session="0123456789ab",slot="r1",tag="mar5"} 0.0',
        'overnight_kill_latency_seconds_count{session="0123456789ab",slot="r1",tag="mar5"} 1.0',
        'overnight_attempts_total{session="0123456789ab",slot="r0",status="crash",tag="mar5"} 0.0',
    ):
        assert line in text, line
    kinds = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds)) > 5
    assert "overnight_build_info" not in text


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/metrics", "no address"])
def test_a_worker_that_does_not_answer_is_left_out(url: str) -> None:
    with _worker("r0") as (_, one):
        assert _served(url, one) == _served(one) != ""
