"""A setting that no service can work with ends the run at once, and says which it is."""

from __future__ import annotations

import time

from tests.e2e.stage import Stage


def test_a_service_that_refuses_its_settings_is_not_started_again(stage: Stage) -> None:
    stage.environment = {"OVERNIGHT_RUNNER_RENEW_SECONDS": "14"}
    stage.toy(0.1)
    began = time.monotonic()
    finished = stage.run(1)

    assert finished.code == 2, finished
    assert finished.errors.count("\n") == 1, finished
    assert "renew_seconds must be at most half" in finished.errors
    assert "started again" not in finished.output + finished.errors
    assert time.monotonic() - began < 60  # liveness: it takes about two
    assert stage.alive() == []
