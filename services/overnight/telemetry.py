"""Logs as JSON lines and the Prometheus endpoint. Whatever is logged is data, never an escape."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TextIO, cast
from wsgiref.simple_server import WSGIServer

import structlog
from prometheus_client import CollectorRegistry, start_http_server

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
    registry: CollectorRegistry, port: int = 0, address: str = "127.0.0.1"
) -> MetricsEndpoint | None:
    """Serve *registry*; port 0 takes any free one. None, and a warning, where it can't be bound."""
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        log.warning("metrics_endpoint_failed", address=address, port=port, reason=str(error))
        return None
    url = f"http://{address}:{server.server_port}/metrics"
    log.info("metrics_endpoint_up", url=url)
    return MetricsEndpoint(url=url, server=server, thread=thread)


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
