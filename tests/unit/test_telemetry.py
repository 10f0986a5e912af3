"""Logs are JSON lines whose values can't drive a terminal; metrics are served or warned about."""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter

from overnight import telemetry
from overnight.contracts.errors import InfrastructureError


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_log_line_is_json_with_service_bound_fields_and_utc_time() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream, slot="cpu:0")
    structlog.get_logger().info("experiment_ended", experiment_id=7, wall_seconds=1.5)

    (line,) = lines(stream)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "service": "runner",
        "slot": "cpu:0",
        "level": "info",
        "event": "experiment_ended",
        "experiment_id": 7,
        "wall_seconds": 1.5,
    }


def test_bound_fields_reach_lines_of_other_threads() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream)
    thread = threading.Thread(target=lambda: structlog.get_logger().info("from_a_thread"))
    thread.start()
    thread.join()

    assert lines(stream)[0]["service"] == "runner"


def test_lines_below_the_level_are_left_out() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream, level="warning")
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")

    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_warnings_of_libraries_come_out_in_the_same_form() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream)
    logging.getLogger("redis").warning("gone \x1b[31maway\x1b[0m")
    logging.getLogger("redis").info("chatter")

    (line,) = lines(stream)
    assert (line["service"], line["event"], line["level"]) == ("runner", "gone away", "warning")


def test_an_exception_is_a_field_of_the_line() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream)
    try:
        raise ValueError("bad \x1b[31mthing")
    except ValueError:
        structlog.get_logger().exception("failed")

    (line,) = lines(stream)
    assert line["exception"].endswith("ValueError: bad thing")


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    target = tmp_path / "service.log"
    for _ in range(2):
        telemetry.configure("runner", to=target)
        structlog.get_logger().info("started")

    assert len(target.read_text().splitlines()) == 2


def _logged(text: str) -> str:
    """What a reader of the log gets for a logged value."""
    stream = io.StringIO()
    telemetry.configure("runner", to=stream)
    structlog.get_logger().info("seen", value=text)
    value: str = json.loads(stream.getvalue())["value"]
    return value


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("a\rb\x00c\x7f", "a\nbc"),
        ("tab\tline\n", "tab\tline\n"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("héllo", "héllo"),
    ],
)
def test_escapes_are_taken_out(text: str, clean: str) -> None:
    assert _logged(text) == clean


@given(st.text(alphabet=st.sampled_from("\x1b\x9b\x90\x9d[]P0;mA\x07\\\r\n\tx\x00")))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not set(_logged(text)) & set("\x1b\x9b\x90\x9d\x07\r\x00")


def test_logged_values_are_cleaned_at_any_depth_and_long_ones_cut() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream)
    structlog.get_logger().info(
        "seen", tail=["\x1b[2Jx", {"k\x1b[1m": ("\x07y",)}], long="z" * 9000
    )

    (line,) = lines(stream)
    assert line["tail"] == ["x", {"k": ["y"]}]
    assert len(line["long"]) == telemetry.MAX_VALUE_CHARS + 3


def test_metrics_are_served_on_a_free_local_port_until_closed() -> None:
    registry = CollectorRegistry()
    Counter("overnight_things", "Things.", registry=registry).inc()
    endpoint = telemetry.serve_metrics(registry)

    assert endpoint is not None
    assert endpoint.url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(endpoint.url, timeout=10) as answer:
        assert b"overnight_things_total 1.0" in answer.read()
    endpoint.close()
    assert not endpoint.thread.is_alive()


def test_a_port_that_is_taken_is_a_warning_and_no_crash() -> None:
    stream = io.StringIO()
    telemetry.configure("runner", to=stream)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        endpoint = telemetry.serve_metrics(CollectorRegistry(), holder.getsockname()[1])

    assert endpoint is None
    (line,) = lines(stream)
    assert (line["event"], line["level"]) == ("metrics_endpoint_failed", "warning")


def test_a_full_disk_costs_log_lines_and_nothing_else() -> None:
    telemetry.configure("recorder", to=Path("/dev/full"))
    for number in range(2000):
        structlog.get_logger().warning("disk_full", number=number)
        logging.getLogger("other").warning("of a library")
    telemetry.configure("recorder", to=io.StringIO())  # closes it


def test_a_log_that_cant_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.log").mkdir()
    with pytest.raises(InfrastructureError, match=r"x\.log: Is a directory"):
        telemetry.configure("supervisor", to=tmp_path / "x.log")


def test_a_log_that_has_grown_too_large_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "MAX_FILE_BYTES", 10)
    (tmp_path / "x.log").write_text("more than ten bytes\n")
    telemetry.configure("supervisor", to=tmp_path / "x.log")
    structlog.get_logger().info("new")
    telemetry.configure("supervisor", to=io.StringIO())

    assert (tmp_path / "x.log.1").read_text() == "more than ten bytes\n"
    assert '"new"' in (tmp_path / "x.log").read_text()
