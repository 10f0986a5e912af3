"""Whatever happens to the engine, the spawner or a container, it is never the idea's fault.

On an engine of this module's own. Each fault strikes a real session: the attempt that it hit is
infra and says why, the next one follows, the session goes on when the fault is over, and at the end
each experiment has one result by its own merit and nothing is left.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from contained import IMAGE, Contained
from docker_engine import Engine
from own_engine import OwnEngine
from tests.e2e import procs
from tests.e2e.stage import Stage, stage

__all__ = ["stage"]

TRAIN_SECONDS = 1.0


@pytest.fixture(scope="module")
def own(engine: Engine) -> Iterator[OwnEngine]:
    with tempfile.TemporaryDirectory(prefix="ove-", ignore_cleanup_errors=True) as folder:
        made = OwnEngine(Path(folder))
        try:
            made.start()
            made.load(IMAGE, engine.host)
            yield made
        finally:
            made.stop()


@pytest.fixture
def night(own: OwnEngine, stage: Stage) -> Contained:
    """A session of three ideas, not yet begun."""
    return Contained(stage, own, candidates=2)


def test_a_container_that_somebody_removes_costs_its_attempt_alone(night: Contained) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    night.wait_training()
    (victim,) = night.containers(status="running")
    victim.remove(force=True)

    (lost,) = night.finish()
    assert lost["reason"] == "sandbox"
    assert "container" in lost["detail"], lost
    night.check_pairs()


def test_a_container_that_somebody_kills_costs_its_attempt_alone(night: Contained) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    night.wait_training()
    (victim,) = night.containers(status="running")
    victim.kill()

    (lost,) = night.finish()
    assert lost["reason"] == "sandbox"
    assert "killed from outside" in lost["detail"], lost
    night.check_pairs()


def test_a_killed_spawner_takes_its_containers_along_and_the_next_one_removes_them(
    night: Contained,
) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    training = night.wait_training()
    night.service("spawner").kill()
    procs.wait_until(lambda: not training.alive, 2.0, "the candidate is dead")

    (lost,) = night.finish()
    assert "spawner" in lost["detail"], lost
    night.check_pairs()


def test_a_killed_runner_takes_its_container_along(night: Contained) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    training = night.wait_training()
    night.service("r0").kill()
    procs.wait_until(lambda: not training.alive, 2.0, "the candidate is dead")

    (lost,) = night.finish()
    assert lost["reason"] in ("lost", "runner_restarted"), lost
    night.check_pairs()


def test_a_killed_supervisor_leaves_no_container_and_the_same_command_goes_on(
    night: Contained,
) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    training = night.wait_training()
    night.play.kill()
    procs.wait_until(lambda: not training.alive, 2.0, "the candidate is dead")
    procs.wait_until(lambda: not night.containers(status="running"), 2.0, "no container runs")
    procs.wait_until(lambda: not night.stage.alive(), 5.0, "nothing of it runs")
    night.start()

    assert len(night.finish()) <= 1
    night.check_pairs()


def test_an_engine_that_is_killed_and_stays_away_is_waited_for(
    night: Contained, own: OwnEngine
) -> None:
    night.begin(TRAIN_SECONDS, runners=2)
    night.wait_for(1)
    night.wait_training()
    own.kill()
    try:
        night.wait_says("engine")
        before = len(night.lost())
        time.sleep(8.0)
        after = len(night.lost())
    finally:
        own.start()

    lost = night.finish()
    assert before == after <= 2, "attempts are used up while there is no engine"
    assert len(lost) <= 2
    assert all("engine" in body["detail"] for body in lost), lost


def test_an_engine_that_restarts_at_once_costs_the_attempts_that_ran(
    night: Contained, own: OwnEngine
) -> None:
    night.begin(TRAIN_SECONDS, runners=2)
    night.wait_for(1)
    night.wait_training()
    own.kill()
    own.start()

    assert len(night.finish()) <= 2


def test_an_image_that_is_removed_is_waited_for(
    night: Contained, own: OwnEngine, engine: Engine
) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    with own.client() as client:
        client.images.remove(IMAGE, force=True)
    try:
        night.wait_says(f"image {IMAGE} is not there")
    finally:
        own.load(IMAGE, engine.host)

    assert len(night.finish()) <= 1
    night.check_pairs()
