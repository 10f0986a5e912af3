"""The docker executor keeps the same promises as the process executor: one suite for both."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from docker_engine import Engine
from tests.conformance import abusers
from tests.conformance.abuse_suite import CANARY, AbuseSuite, ApartSuite
from tests.conformance.bench import Bench, Box, Listener, alive, until
from tests.conformance.driver import begin, end
from tests.conformance.executor_suite import ExecutorSuite
from tests.conformance.invariant import left_below
from tests.conformance.walls_suite import LIBRARY, WallsSuite
from tests.containers.spawning import Spawner, running, start

from overnight import plugins
from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Executor, Limits


@pytest.fixture(scope="module")
def spawner(engine: Engine) -> Iterator[Spawner]:
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REDIS_PASSWORD", CANARY)  # no candidate may find it
            found = stack.enter_context(running(engine.host))
        assert CANARY in Path(f"/proc/{found.process.pid}/environ").read_text()
        yield found
        assert found.stop() == 0
        left = engine.client.containers.list(all=True, filters={"label": found.label})
        assert left == []
        assert list((found.root / "sandboxes").iterdir()) == []


class TestDocker(ApartSuite, AbuseSuite, ExecutorSuite, WallsSuite):
    """In containers of the real engine."""

    profile = "docker"
    isolation = "container"
    cpu_sources = ("cgroup",)
    more_writable = frozenset({"/tmp/home", "/dev/mqueue"})

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

    def handlers(self, request: pytest.FixtureRequest) -> dict[str, int]:
        spawner: Spawner = request.getfixturevalue("spawner")
        return {**super().handlers(request), "spawner": spawner.process.pid}

    def left(self, request: pytest.FixtureRequest) -> list[str]:
        """Also of containers and of the spawner's folders."""
        engine: Engine = request.getfixturevalue("engine")
        spawner: Spawner = request.getfixturevalue("spawner")
        found = [c.id for c in engine.client.containers.list(
            all=True, filters={"label": spawner.label})]  # fmt: skip
        found += [str(folder) for folder in (spawner.root / "sandboxes").iterdir()]
        found += left_below(spawner.root)
        return found + super().left(request)

    def places(self, request: pytest.FixtureRequest) -> list[str]:
        spawner: Spawner = request.getfixturevalue("spawner")
        engine: Engine = request.getfixturevalue("engine")
        ours = [spawner.socket, spawner.root / "profiles", spawner.root / "locks"]
        return [*map(str, ours), engine.host.removeprefix("unix://")]

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

    def test_files_in_memory_are_limited_in_number(self, bench: Bench) -> None:
        """P04: how many in each temporary file system."""
        code = (
            "import errno\n"
            "for folder in ('/tmp', '/tmp/home', '/dev/shm'):\n"
            "    try:\n"
            "        for count in range(2000): open(f'{folder}/{count}', 'w').close()\n"
            "        print('no end')\n"
            "    except OSError as error: print(errno.errorcode[error.errno], count)\n"
        )
        words = bench.run(code, limits=Limits(disk_files=1000)).text().split()

        assert words[::2] == ["ENOSPC"] * 3
        assert all(900 < int(count) < 1000 for count in words[1::2])

    def test_the_engine_keeps_nothing_of_a_flood(
        self, bench: Bench, engine: Engine, spawner: Spawner
    ) -> None:
        """P05: on the engine's own disk."""
        flood = "import os\nwhile True: os.write(1, b'0123456789abcdef' * 4096)"
        kept: list[int] = []

        def look(_: str, __: bytes) -> None:
            if len(kept) < 200:  # after 13 MiB
                kept.append(0)
                if len(kept) == 200:
                    (found,) = engine.client.containers.list(filters={"label": spawner.label})
                    state = Path(engine.client.info()["DockerRootDir"]) / "containers" / found.id
                    assert found.attrs["LogPath"] == ""
                    kept[-1] = sum(f.stat().st_size for f in state.rglob("*") if f.is_file())

        with bench.box(flood) as box:
            run = box.wait(3.0, sink=look)

        assert run.execution.log_bytes > 12 << 20
        assert 0 < kept[-1] < 1 << 20

    def test_who_stops_all_that_it_can_see_dies_with_its_spawner(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        """P16: SIGSTOP for everybody inside, and SIGKILL for the spawner and its runner."""
        mark = f"mark-{os.urandom(8).hex()}"
        with running(engine.host) as own:
            options: dict[str, Any] = {"executor": "docker", "spawner": str(own.socket)}
            bench = Bench(
                plugins.load(plugins.EXECUTORS, "docker")({"spawner": str(own.socket)}), tmp_path
            )
            spec = bench.spec(("python", "train.py", mark))
            driver = begin(options, spec, bench.snapshot({"train.py": abusers.STOPPER}), 600)
            try:
                assert driver.stdout is not None
                assert b"stopped" in driver.stdout.readline()
                for process in (own.process, driver):
                    process.kill()
                    process.wait()

                assert until(lambda: not alive(mark), 5.0), alive(mark)
            finally:
                end(driver)
                successor = start(own.socket.parent, engine.host)
                assert successor.stop() == 0
            left = engine.client.containers.list(all=True, filters={"label": successor.label})
            assert left == []

    def test_a_link_leads_out_of_what_the_spawner_may_show_no_more(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        """The engine follows it: what it mounted is looked at before the command runs."""
        closed, listed = tmp_path / "closed", tmp_path / "listed"
        for folder in (closed, listed / "set"):
            folder.mkdir(parents=True)
        (listed / "link").symlink_to(closed)
        with running(engine.host, reads=str(listed)) as own:
            made = plugins.load(plugins.EXECUTORS, "docker")({"spawner": str(own.socket)})
            bench = Bench(made, tmp_path)
            assert bench.run("", reads=(listed / "set",), interpreter=None).execution.exit_code == 0
            with pytest.raises(SandboxUnavailableError, match="leads out"):
                bench.run("", reads=(listed / "link",), interpreter=None)

    def test_orphans_are_buried_while_it_runs(self, bench: Bench) -> None:
        """P10: dead processes that nobody waits for."""
        code = (
            "import os, time\n"
            "for _ in range(300):\n"
            "    if os.fork() == 0:\n"
            "        os.fork()\n"
            "        os._exit(0)\n"
            "    os.wait()\n"
            "    time.sleep(0.01)\n"
        )
        assert bench.run(code, limits=Limits(pids=128)).execution.exit_code == 0

    @pytest.mark.parametrize(
        ("deed", "says"), [("pause", "paused from outside"), ("restart", "started again")]
    )
    def test_what_somebody_does_to_a_container_by_hand_is_not_its_own_end(
        self, bench: Bench, engine: Engine, spawner: Spawner, deed: str, says: str
    ) -> None:
        """No signal of ours reaches a paused one; and nobody waits for one that runs again."""
        done: list[str] = []

        def meddle(_: str, __: bytes) -> None:
            if not done:
                done.append(deed)
                (found,) = engine.client.containers.list(filters={"label": spawner.label})
                found.pause() if deed == "pause" else found.restart(timeout=0)

        began = time.monotonic()
        with (
            bench.box("import time; print(1, flush=True); time.sleep(600)") as box,
            pytest.raises(SandboxUnavailableError, match=says),
        ):
            box.wait(1.0, sink=meddle)
        assert time.monotonic() - began < 15
        assert engine.client.containers.list(all=True, filters={"label": spawner.label}) == []

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
