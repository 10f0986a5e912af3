"""The docker executor keeps the same promises as the process executor: one suite for both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker_engine import Engine
from tests.conformance.bench import Bench, Box, Listener
from tests.conformance.executor_suite import ExecutorSuite
from tests.conformance.walls_suite import LIBRARY, WallsSuite
from tests.containers.spawning import Spawner, running

from overnight import plugins
from overnight.contracts.execution import Executor


@pytest.fixture(scope="module")
def spawner(engine: Engine) -> Iterator[Spawner]:
    with running(engine.host) as found:
        yield found
        assert found.stop() == 0
        left = engine.client.containers.list(all=True, filters={"label": found.label})
        assert left == []
        assert list((found.root / "sandboxes").iterdir()) == []


class TestDocker(ExecutorSuite, WallsSuite):
    """In containers of the real engine."""

    isolation = "container"
    cpu_sources = ("cgroup",)

    @pytest.fixture
    def options(self, spawner: Spawner) -> dict[str, Any]:
        return {"executor": "docker", "spawner": str(spawner.socket)}

    @pytest.fixture
    def executor(self, spawner: Spawner) -> Executor:
        made: Executor = plugins.load(plugins.EXECUTORS, "docker")({"spawner": str(spawner.socket)})
        return made

    @pytest.fixture(autouse=True)
    def _nothing_stays(self, engine: Engine, spawner: Spawner) -> Iterator[None]:
        yield
        for container in engine.client.containers.list(all=True, filters={"label": spawner.label}):
            assert container.status in ("exited", "dead", "created"), container.attrs["State"]

    def host_uid(self, answers: dict[str, Any]) -> int:
        assert answers["uid"] not in (0, 65534)
        return int(answers["uid"])

    def _assert_removed(self, made: set[Path]) -> None:
        """Its control groups are the engine's own."""
        assert [group for group in made if group.exists()] == []

    def test_a_canary_of_root_in_any_mount_is_unreadable(
        self, bench: Bench, spawner: Spawner, tmp_path: Path, services: dict[str, Listener]
    ) -> None:
        data = tmp_path / "data"
        data.mkdir()
        (data / "canary").write_text("root's own")
        (data / "canary").chmod(0o600)

        def plant(box: Box) -> None:
            (sandbox,) = (spawner.root / "sandboxes").iterdir()
            for folder in ("work", "out"):
                canary = sandbox / folder / "canary"
                canary.write_text("root's own")
                canary.chmod(0o600)

        self.plant = plant  # type: ignore[method-assign]
        places = ["/w/canary", "/out/canary", str(data / "canary")]
        answers = self.attack({"files": LIBRARY, "reads": (data,)}, bench, services, places, [])

        assert {place: answers[f"read {place}"] for place in places} == dict.fromkeys(
            places, "EACCES"
        )

    def test_two_sandboxes_at_once_have_different_users(self, bench: Bench) -> None:
        with (
            bench.box("import os; print(os.getuid())") as one,
            bench.box("import os; print(os.getuid())") as other,
        ):
            uids = {one.wait().text(), other.wait().text()}

        assert len(uids) == 2
        assert "0\n" not in uids

    def test_nobody_but_root_and_the_spawners_own_user_may_ask(self, spawner: Spawner) -> None:
        assert os.stat(spawner.socket).st_mode & 0o777 == 0o600
