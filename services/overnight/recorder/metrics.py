"""What the recorder exports: the session as its ledger tells it. Labels come from closed sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from overnight.contracts.status import Status
from overnight.ledger.approvals import awaiting
from overnight.ledger.fold import RunState, SessionState

OTHER = "other"
#: Of attempts that failed by our fault or the machine's; a reason that is not here is `other`.
INFRA_REASONS = (
    "away", "device_lost", "disk", "gave_up", "lost", "sandbox", "snapshot", "starved",
    "suspended", "xid", OTHER,
)  # fmt: skip
_VERDICTS = tuple(s.value for s in Status if s is not Status.SCORED)


class SessionCollector(Collector):
    """Reads the fold at scrape time, so that no gauge can disagree with the ledger.

    What there is none of is absent, never 0: a metric before the baseline, a time before the event.
    """

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """All of one scrape."""
        state = self._state()
        yield from _session(state)
        yield from _verdicts(state)
        yield _infra(state)
        yield from _best(state)
        yield from _progress(state)


def _session(state: SessionState) -> Iterator[Metric]:
    if state.opened is not None and state.config is not None:
        metric = state.config.metric
        info = InfoMetricFamily("overnight_session", "What it optimises.")
        info.add_metric([], {"metric": metric.name, "direction": metric.direction})
        yield info
        if state.config.min_free_gb is not None:
            least = state.config.min_free_gb * 1e9
            yield _gauge("overnight_disk_min_free_bytes", "Less free disk pauses it.", least)
    states = GaugeMetricFamily("overnight_session_state", "1 for what it does.", labels=["state"])
    for name in RunState:
        states.add_metric([name], float(state.run_state is name))
    yield states


def _verdicts(state: SessionState) -> Iterator[Metric]:
    by_status = GaugeMetricFamily(
        "overnight_experiments", "Decided experiments, by verdict.", labels=["status"]
    )
    tally = dict.fromkeys(_VERDICTS, 0)
    ended = given_up = 0
    for experiment in list(state.experiments.values()):
        ended += experiment.first_decision_seq is not None
        given_up += experiment.in_dead_letter
        if experiment.decision is not None:
            tally[experiment.decision.verdict.value] += 1
    for verdict, found in tally.items():
        by_status.add_metric([verdict], found)
    yield by_status
    yield CounterMetricFamily(
        "overnight_experiments_ended", "Experiments that got a verdict.", value=ended
    )
    yield CounterMetricFamily(
        "overnight_keeps", "Decisions to keep, the baseline's included.", value=len(state.kept)
    )
    yield _gauge("overnight_dead_letter", "Given up, and nobody saw to it yet.", given_up)


def _infra(state: SessionState) -> Metric:
    tally = dict.fromkeys(INFRA_REASONS, 0)
    for experiment in list(state.experiments.values()):
        for attempt in list(experiment.attempts):
            if attempt.result is not None and attempt.result.status is Status.INFRA:
                reason = attempt.result.reason
                tally[reason if reason in tally else OTHER] += 1
    family = CounterMetricFamily(
        "overnight_infra_attempts", "Attempts that failed by our fault.", labels=["reason"]
    )
    for reason, found in tally.items():
        family.add_metric([reason], found)
    return family


def _best(state: SessionState) -> Iterator[Metric]:
    incumbent = state.incumbent
    for name, what, value in (
        ("overnight_incumbent_metric", "Metric of the best so far.", state.metric_of(incumbent)),
        ("overnight_incumbent_experiment", "Number of the best so far.", incumbent),
        (
            "overnight_baseline_metric",
            "Metric of the baseline.",
            state.metric_of(1) if state.baseline is not None else None,
        ),
        ("overnight_last_keep_timestamp_seconds", "The last keep.", _moment(state.last_keep_ts)),
    ):
        if value is not None:
            yield _gauge(name, what, value)


def _progress(state: SessionState) -> Iterator[Metric]:
    waiting = len(awaiting(state))
    running = len(state.running) - waiting
    yield _gauge("overnight_in_flight", "Experiments proposed and not ended.", running)
    yield _gauge("overnight_approvals_waiting", "Ideas that wait for a person.", waiting)
    yield _gauge("overnight_ledger_rows", "Rows of the session's ledger.", state.seq)
    at = _moment(state.last_ts)
    if at is not None:
        yield _gauge("overnight_last_row_timestamp_seconds", "The newest row.", at)
    yield CounterMetricFamily(
        "overnight_device_seconds",
        "Time for which commands held devices, all attempts together.",
        value=state.device_seconds * (state.config.devices_each if state.config else 1),
    )
    open_attempts = [state.experiments[i].open_attempt for i in sorted(state.running)]
    deadlines = [each.issued.wall_seconds for each in open_attempts if each is not None]
    yield _gauge(
        "overnight_open_deadline_seconds",
        "The longest deadline of an attempt that is under way; 0 without one.",
        max(deadlines, default=0.0),
    )


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=value)


def _moment(label: str) -> float | None:
    """A row's UTC label as seconds since 1970; None where there is none."""
    try:
        return datetime.fromisoformat(label).timestamp()
    except ValueError:
        return None


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
            "Rows and exports that the disk refused at first.",
            registry=registry,
        )
        self.queue_depth = Gauge(
            "overnight_queue_depth", "Jobs that wait in the pool's queue.", registry=registry
        )
        self.backlog = Gauge(
            "overnight_recorder_backlog", "Messages that wait to be recorded.", registry=registry
        )
        self.runners = Gauge("overnight_runners", "Runners that said they live.", registry=registry)
        self.redis_up = Gauge(
            "overnight_redis_up", "1 while Redis answers this service.", registry=registry
        )
