"""What the recorder exports: the session's state as gauges. Labels come from closed sets only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from overnight.contracts.status import Status
from overnight.ledger.fold import SessionState

_VERDICTS = tuple(s.value for s in Status if s is not Status.SCORED)


class SessionCollector(Collector):
    """Reads the fold at scrape time, so that no gauge can disagree with the ledger."""

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._state = state

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of one scrape. The incumbent's metric is absent when there is none: never 0."""
        state = self._state()
        experiments = list(state.experiments.values())
        by_status = GaugeMetricFamily(
            "overnight_experiments", "Decided experiments, by verdict.", labels=["status"]
        )
        for verdict in _VERDICTS:
            found = sum(1 for e in experiments if e.status is not None and e.status == verdict)
            by_status.add_metric([verdict], found)
        yield by_status
        yield GaugeMetricFamily(
            "overnight_in_flight", "Experiments proposed and not ended.", value=len(state.running)
        )
        yield GaugeMetricFamily(
            "overnight_ledger_rows", "Rows of the session's ledger.", value=state.seq
        )
        for name, what, metric in (
            (
                "overnight_incumbent_metric",
                "Metric of the incumbent.",
                state.metric_of(state.incumbent),
            ),
            ("overnight_baseline_metric", "Metric of the baseline.", _baseline(state)),
        ):
            if metric is not None:
                yield GaugeMetricFamily(name, what, value=metric)


def _baseline(state: SessionState) -> float | None:
    return state.metric_of(1) if state.baseline is not None else None


class RecorderMetrics:
    """The recorder's own figures beside the session's."""

    def __init__(self, registry: CollectorRegistry, state: Callable[[], SessionState]) -> None:
        registry.register(SessionCollector(state))
        self.fsync_seconds = Histogram(
            "overnight_ledger_fsync_seconds",
            "fsync of one row.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2),
            registry=registry,
        )
        self.refused = Counter(
            "overnight_messages_refused", "Messages that became no row.", registry=registry
        )
        self.disk_errors = Counter(
            "overnight_ledger_disk_errors",
            "Rows that the disk refused at first.",
            registry=registry,
        )
        self.queue_depth = Gauge(
            "overnight_queue_depth", "Jobs that wait in the pool's queue.", registry=registry
        )
        self.backlog = Gauge(
            "overnight_recorder_backlog", "Messages read and not yet acked.", registry=registry
        )
        self.runners = Gauge("overnight_runners", "Runners that said they live.", registry=registry)
