"""The metrics of all workers of a fleet at one address: Prometheus sees one target a container."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterable, Iterator

import structlog
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

log = structlog.get_logger()

PATIENCE_SECONDS = 2.0  #: for one worker, which may be about to die
OWN = "overnight_build_info"  #: of each process; the gathering one tells its own


class Gathered(Collector):
    """Asks the workers at scrape time. Their series differ by the label `slot`; one that does not
    answer is left out, as it would be if Prometheus asked it.

    urls: where the workers serve now.
    """

    def __init__(self, urls: Callable[[], Iterable[str]]) -> None:
        self._urls = urls

    def collect(self) -> Iterator[Metric]:
        """One family a name, with the samples of all workers."""
        families: dict[str, Metric] = {}
        for url in self._urls():
            for family in _served_at(url):
                if family.name != OWN:
                    families.setdefault(family.name, _like(family)).samples += family.samples
        yield from families.values()


def _served_at(url: str) -> list[Metric]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - ours
            return list(text_string_to_metric_families(answer.read().decode()))
    except (OSError, ValueError) as error:
        log.debug("worker_not_scraped", url=url, reason=str(error))
        return []


def _like(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type, family.unit)
