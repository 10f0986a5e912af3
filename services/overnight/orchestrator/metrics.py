"""What the orchestrator exports: what it alone knows. Labels come from closed sets only."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from overnight.ledger.fold import RunState
from overnight.orchestrator.pauses import environment_broken
from overnight.orchestrator.service import Orchestrator


class OrchestratorCollector(Collector):
    """Reads the decider at scrape time, from the thread of the scrape."""

    def __init__(self, orchestrator: Orchestrator, runners: int) -> None:
        self._orchestrator = orchestrator
        self._runners = runners

    def collect(self) -> Iterator[Metric]:
        """All of one scrape."""
        places = GaugeMetricFamily(
            "overnight_attempts_open",
            "Issued attempts without a result, by where the last look found them.",
            labels=["place"],
        )
        for place, found in self._orchestrator.places().items():
            places.add_metric([place], found)
        yield places
        yield GaugeMetricFamily(
            "overnight_runners_wanted",
            "Runners that this run was opened for.",
            value=self._runners,
        )
        state = self._orchestrator.state
        paused = state.run_state is RunState.PAUSED
        yield GaugeMetricFamily(
            "overnight_environment_broken",
            "1 while it is paused since the best, run again, crashed as well.",
            value=float(paused and environment_broken(state) is not None),
        )
