"""What the services serve over HTTP and what docs/metrics.md says are the same."""

from __future__ import annotations

import math
import re
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from overnight import telemetry
from overnight.contracts import wire
from overnight.contracts.rows import AttemptIssued, Proposed, Row
from overnight.contracts.status import RowKind
from overnight.ledger import chain
from overnight.ledger.fold import RunState
from overnight.orchestrator.metrics import OrchestratorCollector
from overnight.orchestrator.policy import decide
from overnight.recorder.metrics import INFRA_REASONS, RecorderMetrics
from overnight.runner.metrics import DeviceMetrics, RunnerMetrics
from overnight.spawner.container import Tally
from overnight.spawner.metrics import YardCollector
from tests.unit.ledger.history_of import SID, opening, result
from tests.unit.orchestrator.world import MemoryWriter

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
EVERYWHERE = {"session", "tag", "slot", "le"}  #: told once in the page; of histograms
EVIL = 'evil"} 1\n# HELP overnight_x\novernight_x{a="\\'


class _Writer(MemoryWriter):
    """Rows with real times."""

    def append(self, kind: RowKind, key: str, body: wire.Wire) -> Row:
        row = chain.link(
            seq=self.state.seq + 1, ts="2026-03-05T01:02:03.500Z", session=SID, kind=kind, key=key,
            body=body, prev=self.state.hash,
        )  # fmt: skip
        self.state.apply(row)
        return row


def _story(hostile: str = "h") -> _Writer:
    """A baseline that was kept, with *hostile* wherever somebody may write text."""
    writer = _Writer([])
    opened = opening(min_free_gb=1.0).model_copy(update={"description": hostile})
    writer.append(RowKind.SESSION_OPENED, "open:1", opened)
    proposed = {
        "id": 1, "role": "baseline", "parent": None, "commit": "1" * 40, "tree_digest": "1" * 64,
        "branch": "iter1", "hypothesis": hostile, "analysis": hostile, "proposer": "test",
        "seen_seq": 0,
    }  # fmt: skip
    writer.append(RowKind.PROPOSED, "proposed:1", wire.build(Proposed, proposed))
    issued = AttemptIssued(id=1, attempt=1, wall_seconds=1.0)
    writer.append(RowKind.ATTEMPT_ISSUED, "attempt:1:1", issued)
    ended = result(1, metric=1.5, log_tail=hostile, detail=hostile)
    writer.append(RowKind.RESULT, "result:1:1:r0", ended)
    decision = decide(writer.state, 1)
    writer.append(RowKind.DECISION, "decision:1:1", decision)  # type: ignore[arg-type]
    return writer


class _Decider:
    """As much of an orchestrator as its exports look at."""

    def __init__(self, writer: _Writer) -> None:
        self.state = writer.state

    def places(self) -> dict[str, int]:
        return {"queued": 0, "leased": 1, "missing": 0}


def _serve(registry: CollectorRegistry, tag: str, **labels: str) -> list[Metric]:
    """What a scrape of *registry* gets."""
    endpoint = telemetry.serve_metrics(registry, labels={"session": SID, "tag": tag, **labels})
    assert endpoint is not None
    try:
        with urllib.request.urlopen(endpoint.url, timeout=10) as answer:
            return list(text_string_to_metric_families(answer.read().decode()))
    finally:
        endpoint.close()


def _scrape(writer: _Writer, folder: Path, tag: str = "mar5") -> dict[str, list[Metric]]:
    """Each service as its `__main__` builds it."""
    services = {name: CollectorRegistry() for name in ("orchestrator", "recorder", "runner")}
    services["orchestrator"].register(OrchestratorCollector(_Decider(writer), 2))  # type: ignore[arg-type]
    for name in ("recorder", "runner"):
        services[name].register(telemetry.DiskCollector(folder))
    RecorderMetrics(services["recorder"], lambda: writer.state)
    runner = RunnerMetrics(services["runner"])
    runner.about(device="cpu:0", hardware="cpu", isolation="namespaces")
    devices = DeviceMetrics(services["runner"])
    devices.info.labels("GPU-1", "H200", "550").set(1)
    for gauge in (devices.healthy, devices.memory, devices.memory_used):
        gauge.labels("GPU-1").set(1)
    return {
        name: _serve(registry, tag, **({"slot": "r0"} if name == "runner" else {}))
        for name, registry in services.items()
    }


class _Yard:
    """As much of a spawner's yard as its exports look at."""

    living = orphaned = 0
    tally = Tally()


def _spawner() -> list[Metric]:
    """Of the spawner, which belongs to no session."""
    registry = CollectorRegistry()
    registry.register(YardCollector(_Yard()))  # type: ignore[arg-type]
    endpoint = telemetry.serve_metrics(registry)
    assert endpoint is not None
    try:
        with urllib.request.urlopen(endpoint.url, timeout=10) as answer:
            return list(text_string_to_metric_families(answer.read().decode()))
    finally:
        endpoint.close()


def _documented() -> dict[str, tuple[str, frozenset[str], str]]:
    """Name -> (type, labels, from)."""
    rows = (line.split("|") for line in PAGE.read_text().splitlines() if "| `overnight_" in line)
    return {
        name.strip(" `"): (
            kind.strip(),
            frozenset(re.findall(r"`(\w+)`", labels)),
            where.strip(),
        )
        for _, name, kind, labels, where, *_ in rows
    }


def _told(family: Metric) -> str:
    """The name under which the page tells of it."""
    suffix = "_total" if family.type == "counter" else ""
    return family.name if family.name.endswith(suffix) else family.name + suffix


def test_what_is_served_and_what_is_documented_are_the_same(tmp_path: Path) -> None:
    served: dict[str, tuple[str, frozenset[str], list[str]]] = {}
    for service, families in (_scrape(_story(), tmp_path) | {"spawner": _spawner()}).items():
        for family in families:
            labels = frozenset(k for s in family.samples for k in s.labels) - EVERYWHERE
            kind = "info" if family.name.endswith("_info") else family.type
            name = _told(family)
            services = [*(served[name][2] if name in served else []), service]
            served[name] = (kind, labels, services)
    told = {
        name: (kind, labels, "all" if len(services) == 4 else ", ".join(services))
        for name, (kind, labels, services) in served.items()
    }

    assert told == _documented()


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("overnight_infra_attempts_total", INFRA_REASONS),
        ("overnight_session_state", tuple(RunState)),
    ],
)
def test_the_words_of_a_label_are_the_told_ones(metric: str, words: tuple[str, ...]) -> None:
    (line,) = (line for line in PAGE.read_text().splitlines() if f"| `{metric}`" in line)

    assert set(re.findall(r"`([a-z_]+)`", line.rpartition("recorder |")[2])) == set(words)


def _series(scraped: dict[str, list[Metric]]) -> Iterable[tuple[str, dict[str, str], float]]:
    return ((s.name, s.labels, s.value) for fs in scraped.values() for f in fs for s in f.samples)


def test_every_series_names_its_session_and_no_value_is_nan(tmp_path: Path) -> None:
    for name, labels, value in _series(_scrape(_story(), tmp_path)):
        assert labels["session"] == SID, name
        assert math.isfinite(value), name
        assert not name.endswith("_created")


def test_hostile_text_makes_no_series(tmp_path: Path) -> None:
    """The tag alone is shown, as one label that is read back as it was."""
    plain, evil = (list(_series(_scrape(_story(t), tmp_path, t))) for t in ("h", EVIL))

    assert [name for name, _, _ in evil] == [name for name, _, _ in plain]
    assert {v for _, labels, _ in evil for v in labels.values() if "evil" in v} == {EVIL}


def test_times_are_seconds_since_1970(tmp_path: Path) -> None:
    values = {name: value for name, _, value in _series(_scrape(_story(), tmp_path))}

    assert values["overnight_last_row_timestamp_seconds"] == 1772672523.5
    assert values["overnight_last_keep_timestamp_seconds"] == 1772672523.5
    assert values["overnight_disk_min_free_bytes"] == 1e9
