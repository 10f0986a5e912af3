"""A supervised child: readiness, back-off, and telling one that fails from one that was shot."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overnight.children import Child, ChildSpec
from overnight.contracts.errors import InfrastructureError


@pytest.fixture
def lifeline() -> Iterator[int]:
    read_end, write_end = os.pipe()
    yield read_end
    os.close(read_end)
    os.close(write_end)


def _child(tmp_path: Path, lifeline: int, code: str, *, service: bool = True) -> Child:
    spec = ChildSpec(name="toy", argv=(sys.executable, "-c", code), service=service)
    return Child(
        spec=spec,
        log_path=tmp_path / "toy.log",
        lifeline=lifeline,
        backoff_seconds=0.01,
        backoff_max_seconds=0.05,
    )


def _wait(child: Child) -> int:
    while (code := child.poll()) is None:
        time.sleep(0.01)
    return code


READY = 'import os, sys; os.write(int(sys.argv[-1]), b\'{"metrics": "here"}\\n\');'


def test_a_service_is_ready_when_it_says_so(tmp_path: Path, lifeline: int) -> None:
    child = _child(tmp_path, lifeline, READY + "import time; time.sleep(30)")
    child.start()
    assert not child.ready
    until = time.monotonic() + 20
    while not child.ready and time.monotonic() < until:
        child.poll()
        time.sleep(0.01)
    child.signal(signal.SIGKILL)
    _wait(child)

    assert child.ready
    assert child.details == {"metrics": "here"}
    assert child.quick_failures == 0, "shot from outside is no failure of its own"


@pytest.mark.parametrize(
    ("code", "early", "quick"),
    [("import sys; sys.exit(3)", 3, 3), (READY + "sys.exit(3)", 0, 3)],
    ids=["before ready", "after ready"],
)
def test_a_child_that_cannot_work_is_counted_ready_or_not(
    tmp_path: Path, lifeline: int, code: str, early: int, quick: int
) -> None:
    child = _child(tmp_path, lifeline, code)
    for _ in range(3):
        child.start()
        assert _wait(child) == 3
        child.restart_later()

    assert (child.early_deaths, child.quick_failures) == (early, quick)
    assert child.restart_at is not None
    while not child.due():
        time.sleep(0.01)


def test_its_last_reason_is_one_line_for_the_user(tmp_path: Path, lifeline: int) -> None:
    code = 'print(\'noise\'); print(\'{"event": "x", "reason": "no such disk"}\'); print(\'more\')'
    child = _child(tmp_path, lifeline, code, service=False)
    child.start()
    _wait(child)

    assert child.last_reason() == "no such disk"


def test_a_log_that_cannot_be_written_is_our_fault(tmp_path: Path, lifeline: int) -> None:
    child = _child(tmp_path / "absent" / "logs", lifeline, "pass")
    with pytest.raises(InfrastructureError, match="toy"):
        child.start()


def test_the_log_of_a_service_is_bounded_and_keeps_its_end(
    tmp_path: Path, lifeline: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overnight.children.LOG_BYTES", 20_000)
    monkeypatch.setattr("overnight.children.LOG_LOOK_SECONDS", 0.02)
    code = """
import os, sys, time
for burst in range(20):
    for number in range(2_000):
        print(f"line {number:06d}", flush=number % 100 == 0)
    sys.stdout.flush()
    while os.path.getsize("LOG") > 20_000:  # what is written while it is cut may be lost
        time.sleep(0.005)
print("the end")
""".replace("LOG", str(tmp_path / "toy.log"))
    child = _child(tmp_path, lifeline, code, service=False)
    child.start()
    largest = 0
    while child.poll() is None:
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.iterdir()))
        time.sleep(0.005)

    assert 20_000 < largest < 100_000  # it wrote 480,000
    assert {path.name for path in tmp_path.iterdir()} == {"toy.log", "toy.log.1"}
    kept = (tmp_path / "toy.log.1").read_text() + (tmp_path / "toy.log").read_text()
    assert kept.endswith("\nthe end\n")
    assert child.last_reason() == "the end"


def test_what_a_service_says_while_its_log_is_moved_is_moved_too(
    tmp_path: Path, lifeline: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overnight.children.LOG_BYTES", 20_000)
    child = _child(tmp_path, lifeline, "pass", service=False)
    child.log_path.write_text("x" * 25_000 + "\n")
    opened = Path.open

    def open_late(path: Path, *words: Any, **named: Any) -> Any:
        if path.name == "toy.log.1":
            with opened(child.log_path, "a") as log:
                log.write("meanwhile\n")
        return opened(path, *words, **named)

    monkeypatch.setattr(Path, "open", open_late)
    child._bound_log()
    monkeypatch.undo()

    assert (tmp_path / "toy.log.1").read_text().endswith("x\nmeanwhile\n")
    assert (tmp_path / "toy.log").read_bytes() == b""
