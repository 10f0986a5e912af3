"""What the spawner exports: read from its yard when it is asked."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from overnight.spawner.yard import Yard


class YardCollector(Collector):
    """Counts, without any label: whose containers they are is no business of a series."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    def collect(self) -> Iterator[Metric]:
        """As they are now."""
        tally = self._yard.tally
        yield GaugeMetricFamily(
            "overnight_sandboxes", "Sandboxes that a runner holds.", self._yard.living
        )
        yield GaugeMetricFamily(
            "overnight_sandbox_orphans",
            "Sandboxes of dead runners that are not removed yet.",
            self._yard.orphaned,
        )
        yield CounterMetricFamily(
            "overnight_containers_created", "Containers that were made.", tally.created
        )
        yield CounterMetricFamily(
            "overnight_containers_removed", "Containers that were removed.", tally.removed
        )
        yield CounterMetricFamily(
            "overnight_spawner_refusals", "Requests that were refused.", tally.refused
        )
        yield GaugeMetricFamily(
            "overnight_engine_up",
            "1 while the container engine answered the last request.",
            tally.engine_up,
        )
