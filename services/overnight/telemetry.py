"""Logs as JSON lines and the Prometheus endpoint. Whatever is logged is data, never an escape."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TextIO, cast
from wsgiref.simple_server import WSGIServer

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from overnight import __version__
from overnight.contracts.errors import InfrastructureError
from overnight.contracts.untrusted import strip_terminal

log = structlog.get_logger()

MAX_FILE_BYTES = 8 * 1024**2  #: at the start; a larger log becomes `<name>.1`
MAX_VALUE_CHARS = 8000  #: of one logged text; the rest is cut
_MAX_DEPTH = 6


def configure(
    service: str, *, to: Path | TextIO | None = None, level: str = "info", **bound: Any
) -> None:
    """Log JSON lines to *to* (a file is appended to; default standard error).

    Once a process, by its `__main__`. Every line carries *service* and *bound*, from all threads.
    Other libraries' warnings come out in the same form.

    Raises:
        InfrastructureError: *to* can't be opened. Later a line that can't be written is lost.
    """
    stream = _stream(to)
    fixed = {"service": service, **bound}

    def bind(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**fixed, **event}

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        bind,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
        _clean,
    ]
    render = structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=True, default=str)
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Patient(stream))),
        cache_logger_on_first_use=False,  # loggers of imported modules follow a later configure
    )
    handler = _Handler(stream, owned=isinstance(to, Path))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared[:-1],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _clean, render],
        )
    )
    root = logging.getLogger()
    for old in root.handlers:
        if isinstance(old, _Handler):
            old.close()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes other libraries' lines; closes the log file with itself when it is ours."""

    def __init__(self, stream: TextIO, *, owned: bool) -> None:
        super().__init__(stream)
        self._owned = owned

    def handleError(self, record: logging.LogRecord) -> None:
        """Its line is lost, and nothing else: the standard way prints to the same full disk."""

    def close(self) -> None:
        super().close()
        if self._owned:
            with contextlib.suppress(OSError):
                self.stream.close()


@dataclass(frozen=True, kw_only=True)
class MetricsEndpoint:
    """A running endpoint. Close it, or let it end with the process."""

    url: str
    server: WSGIServer
    thread: Thread

    def close(self) -> None:
        """Stop serving and free the port."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def serve_metrics(
    registry: CollectorRegistry,
    port: int = 0,
    address: str = "127.0.0.1",
    labels: Mapping[str, str] | None = None,
) -> MetricsEndpoint | None:
    """Serve *registry*; port 0 takes any free one. None, and a warning, where it can't be bound.

    labels: stand on every series of this process, e.g. whose session it serves.
    """
    served = _Served(registry, labels or {})
    try:
        server, thread = start_http_server(port, addr=address, registry=served)
    except OSError as error:
        log.warning("metrics_endpoint_failed", address=address, port=port, reason=str(error))
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, address)  # noqa: S104 - a reader's
    url = f"http://{host}:{server.server_port}/metrics"
    log.info("metrics_endpoint_up", url=url, address=address)
    return MetricsEndpoint(url=url, server=server, thread=thread)


class _Served(Collector):
    """What goes out: the registry's series with this process's labels, and its version."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        self._registry = registry
        self._labels = dict(labels)

    def collect(self) -> Iterator[Metric]:
        """Without `_created` series: nobody asks when a counter began."""
        version = InfoMetricFamily("overnight_build", "Which version answers.")
        version.add_metric([], {"version": __version__})
        for family in (version, *self._registry.collect()):
            out = Metric(family.name, family.documentation, family.type, family.unit)
            out.samples = [
                sample._replace(labels={**sample.labels, **self._labels})
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
            yield out

    def restricted_registry(self, names: object) -> _Served:
        """A scrape that asks for a few names gets all of them."""
        return self


class DiskCollector(Collector):
    """Room on the disk of *folder*, looked at with each scrape; nothing where nobody can say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Two gauges."""
        try:
            status = os.statvfs(self._folder)
        except OSError:
            return
        for name, what, blocks in (
            ("overnight_disk_free_bytes", "Room that a user has there.", status.f_bavail),
            ("overnight_disk_size_bytes", "Size of the disk.", status.f_blocks),
        ):
            yield GaugeMetricFamily(name, what, value=blocks * status.f_frsize)


def _stream(to: Path | TextIO | None) -> TextIO:
    if to is None:
        return sys.stderr
    if not isinstance(to, Path):
        return to
    try:
        to.parent.mkdir(exist_ok=True)
        if to.exists() and to.stat().st_size > MAX_FILE_BYTES:
            to.replace(to.with_name(f"{to.name}.1"))
        return to.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InfrastructureError(f"{to}: {error.strerror}") from error


class _Patient:
    """A log that can't be written costs its lines, never the service: a disk may be full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def _clean(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {str(key): _clean_value(value, 0) for key, value in event.items()}


def _clean_value(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {
            strip_terminal(str(key)): _clean_value(item, depth + 1) for key, item in value.items()
        }
    if depth < _MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
        return [_clean_value(item, depth + 1) for item in value]
    text = strip_terminal(str(value))
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}..."
