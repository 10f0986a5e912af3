"""Who can't make a sandbox is waited for; who lost one has cost the attempt."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.contracts.test_wire import _job

from overnight.contracts.errors import SandboxAwayError, SandboxUnavailableError
from overnight.contracts.execution import SandboxSpec
from overnight.contracts.status import Status
from overnight.ledger.files import SessionFiles
from overnight.runner import attempt
from overnight.runner.attempt import AWAY, DISK, WAITED_FOR, run_attempt
from overnight.runner.specs import Bench


class Failing:
    """An executor that fails with *error*, at once or when its sandbox starts."""

    name = isolation = "failing"

    def __init__(self, error: Exception, at: str) -> None:
        self.error, self.at = error, at
        self.destroyed = 0

    def prepare(self, spec: SandboxSpec) -> Any:
        if self.at == "prepare":
            raise self.error
        return self

    def start(self, snapshot: Path) -> None:
        raise self.error

    def destroy(self) -> None:
        self.destroyed += 1


AWAY_ERROR = SandboxAwayError("docker", "the Docker engine does not answer")
#: In the engine's own spelling.
FULL = SandboxUnavailableError("docker", "no container could be made: no space left on device")


@pytest.mark.parametrize(
    ("error", "at", "reason"),
    [
        (AWAY_ERROR, "prepare", AWAY),
        (AWAY_ERROR, "start", "sandbox"),  # a container may have been made
        (SandboxUnavailableError("docker", "image x is not allowed"), "prepare", "sandbox"),
        (FULL, "start", DISK),
        (FULL, "prepare", DISK),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x"), "start", DISK),
    ],
)
def test_what_fails_before_there_is_a_sandbox_is_told_from_what_fails_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, at: str, reason: str
) -> None:
    executor = Failing(error, at)
    bench = Bench(
        files=SessionFiles(tmp_path), folder=tmp_path / "r0", executor=executor,  # type: ignore[arg-type]
        runner="r0", hardware="x", environ={},
    )  # fmt: skip
    monkeypatch.setattr(attempt._Attempt, "_export", lambda self: None)

    result = run_attempt(bench, _job(), lambda sandbox, seconds: None)

    assert (result.status, result.reason) == (Status.INFRA, reason)
    assert str(error) in result.detail or reason == DISK
    assert (reason in WAITED_FOR) == (reason in (AWAY, DISK))
    assert executor.destroyed == (at == "start")
