"""The health check of the services image: which port it asks, and what it makes of the answer."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

PORTS = {
    "OVERNIGHT_RUNNER_METRICS_PORT": "9103",
    "OVERNIGHT_RECORDER_METRICS_PORT": "9102",
    "OVERNIGHT_RECORDER_METRICS_HOST": "0.0.0.0",
    "PATH": "runner",
}


@pytest.fixture(scope="module")
def healthcheck() -> ModuleType:
    path = Path(__file__).resolve().parents[3] / "docker/healthcheck.py"
    spec = importlib.util.spec_from_file_location("healthcheck", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("command", "port"),
    [
        (b"/opt/venv/bin/python\0/opt/venv/bin/overnight\0runner\0--dir\0/r\0", 9103),
        (b"/sbin/docker-init\0--\0overnight\0recorder\0--dir\0/runner\0", 9102),
        (b"overnight\0status\0", None),
        (b"overnight\0spawner\0", None),
        (b"\xff\xfe\0", None),
        (b"", None),
    ],
)
def test_it_asks_the_port_of_the_service_that_runs(
    healthcheck: ModuleType, command: bytes, port: int | None
) -> None:
    assert healthcheck.port_of(command, PORTS) == port


@pytest.mark.parametrize("value", ["", "0", "x", "-1"])
def test_a_service_without_a_port_is_not_asked(healthcheck: ModuleType, value: str) -> None:
    environ = {"OVERNIGHT_RUNNER_METRICS_PORT": value}

    assert healthcheck.port_of(b"overnight\0runner", environ) is None


@pytest.mark.parametrize(("status", "problem"), [(200, None), (503, "answers 503")])
def test_only_an_endpoint_that_answers_is_healthy(
    healthcheck: ModuleType, status: int, problem: str | None
) -> None:
    with _endpoint(lambda: status) as port:
        said = healthcheck.problem_at(port)

    assert said is None if problem is None else problem in said


def test_a_closed_port_and_one_that_never_answers_are_problems(
    healthcheck: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healthcheck, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        hung = healthcheck.problem_at(port)
    closed = healthcheck.problem_at(port)

    assert hung == f"no metrics at port {port}: timed out"
    assert "refused" in closed


@contextmanager
def _endpoint(status: Callable[[], int]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status())
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
