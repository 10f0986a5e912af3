"""Whatever happens to the engine, the spawner or a container, it is never the idea's fault.

On an engine of this module's own. Each fault strikes a real session: the attempt that it hit is
infra and says why, the next one follows, the session goes on when the fault is over, and at the end
each experiment has one result by its own merit and nothing is left.
"""

from __future__ import annotations

import signal
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
from tests.faults.disks import small_disk

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
    """A session of two ideas, not yet begun."""
    return Contained(stage, own, candidates=2)


def test_a_container_that_somebody_kills_or_removes_costs_its_attempt_alone(
    night: Contained,
) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    night.wait_training()
    (victim,) = night.containers(status="running")
    victim.kill()
    night.wait_for(2)
    night.wait_training()
    (victim,) = night.containers(status="running")
    victim.remove(force=True)

    killed, removed = night.finish()
    assert killed["reason"] == removed["reason"] == "sandbox"
    assert "killed from outside" in killed["detail"], killed
    assert "container" in removed["detail"], removed
    night.check_pairs()


def test_a_killed_spawner_or_runner_takes_its_container_along(night: Contained) -> None:
    """Within two seconds; who is started in its place removes it."""
    night.begin(TRAIN_SECONDS)
    for decided, name in enumerate(("spawner", "r0"), start=1):
        night.wait_for(decided)
        training = night.wait_training()
        night.service(name).kill()
        procs.wait_until(lambda victim=training: not victim.alive, 2.0, "the candidate is dead")

    by_spawner, by_runner = night.finish()
    assert "the spawner was lost" in by_spawner["detail"], by_spawner
    assert "runner" in by_runner["reason"] + by_runner["detail"], by_runner
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


def test_an_engine_that_is_killed_is_waited_for_however_long_it_is_away(
    night: Contained, own: OwnEngine
) -> None:
    """Each runner loses the attempt that it held, and no other. The spawner may die meanwhile."""
    night.candidates = 4
    night.begin(TRAIN_SECONDS, runners=2)
    night.wait_for(1)
    night.wait_training()
    own.kill()
    own.start()
    night.wait_for(3)
    night.wait_training()
    own.kill()
    try:
        night.wait_says("the Docker engine at")
        night.service("spawner").kill()
        time.sleep(6.0)
        while_away = len(night.lost())
        status = night.stage.ask("status", "--dir", str(night.stage.root))
    finally:
        own.start()

    lost = night.finish()
    assert while_away == len(lost) <= 4, "attempts were used up while there was no engine"
    assert "the Docker engine at" in status.output, status
    for body in lost:
        assert body["reason"] in ("sandbox", "away"), body
        named = ("engine", "container", "the spawner was lost")
        assert any(word in body["detail"] for word in named), body


def test_an_image_that_is_removed_is_waited_for(night: Contained, own: OwnEngine) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    with own.client() as client:
        client.images.get(IMAGE).tag("kept:1")
        client.images.remove(IMAGE, force=True)
        try:
            night.wait_says(f"image {IMAGE} is not there")
        finally:
            client.images.get("kept:1").tag(IMAGE)

    assert len(night.finish()) <= 1
    night.check_pairs()


def test_a_full_disk_of_the_engine_or_the_spawner_is_waited_for(
    night: Contained, own: OwnEngine
) -> None:
    """It costs no attempt: the same one is tried until there is room."""
    with own.on_a_small_disk() as disk:
        night.begin(TRAIN_SECONDS)
        night.wait_for(1)
        disk.fill("space")
        night.wait_says("no space left on device")
        disk.free()
        before = night.finish()

    night.candidates += 1
    with small_disk(night.stage.folder / "disk", "size=24m,mode=700") as disk:
        (night.stage.root / "spawner").rename(night.stage.folder / "before")
        (night.stage.root / "spawner").symlink_to(night.stage.folder / "disk")
        disk.fill("space")
        night.start()
        night.wait_says("No space left on device")
        disk.free()
        after = night.finish()

    assert before == after == []
    night.check_pairs()


def test_a_spawner_that_stands_still_is_waited_for(night: Contained) -> None:
    night.begin(TRAIN_SECONDS)
    night.wait_for(1)
    night.wait_training()
    spawner = night.service("spawner")
    spawner.kill(signal.SIGSTOP)
    try:
        night.wait(lambda: night.lost(), "an attempt is given up")
        time.sleep(3.0)
    finally:
        spawner.kill(signal.SIGCONT)

    (lost,) = night.finish()
    assert "the spawner was lost" in lost["detail"], lost
    night.check_pairs()
