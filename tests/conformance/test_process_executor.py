"""The process executor keeps every promise: as root, as an ordinary user, and without walls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import candidates
from tests.conformance.abuse_suite import AbuseSuite, ApartSuite
from tests.conformance.bench import Bench, Box, Listener, alive
from tests.conformance.driver import end
from tests.conformance.executor_suite import ExecutorSuite
from tests.conformance.walls_suite import LIBRARY, WallsSuite

from overnight import plugins
from overnight.contracts.execution import Executor
from overnight.executors.survivors import descendants

AS_ROOT = os.geteuid() == 0
AS_USER = Path(__file__).with_name("as_user.py")
INSTALL = "needs bubblewrap: apt-get install bubblewrap util-linux"


class Built:
    """Executors by their entry-point name, with a lock folder of this test's own."""

    more: dict[str, Any] = {}  # noqa: RUF012 - read only

    @pytest.fixture
    def options(self, tmp_path: Path) -> dict[str, Any]:
        return {"lock_dir": str(tmp_path / "locks"), **self.more}

    @pytest.fixture
    def executor(self, options: dict[str, Any]) -> Executor:
        made: Executor = plugins.load(plugins.EXECUTORS, "process")(options)
        assert made.isolation == "namespaces" or self.more, INSTALL
        return made


class RootClaims:
    """What only root can give: a user that is nobody else."""

    def host_uid(self, answers: dict[str, Any]) -> int:
        assert answers["uid"] not in (0, 65534)
        return int(answers["uid"])

    def plant(self, box: Box) -> None:
        for folder in ("work", "out"):
            canary = box.spec.scratch / folder / "canary"
            canary.write_text("root's own")
            canary.chmod(0o600)

    def test_a_canary_of_root_in_any_mount_is_unreadable(
        self, bench: Bench, tmp_path: Path, services: dict[str, Listener]
    ) -> None:
        data, home = tmp_path / "data", tmp_path / "home"
        data.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        canaries = [data / "canary", home / "canary"]
        for canary in canaries:
            canary.write_text("root's own")
            canary.chmod(0o600)
        bench.python = home / "bin" / "python"
        places = ["/w/canary", "/out/canary", *map(str, canaries)]

        answers = WallsSuite.attack(
            self, {"files": LIBRARY, "reads": (data,)}, bench, services, places, []
        )  # type: ignore[arg-type]
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

    def test_two_runners_with_one_lock_folder_never_share_a_user(
        self, bench: Bench, options: dict[str, Any]
    ) -> None:
        twin = Bench(plugins.load(plugins.EXECUTORS, "process")(options), bench.root / "twin")
        twin.root.mkdir()
        with (
            bench.box("import os; print(os.getuid())") as one,
            twin.box("import os; print(os.getuid())") as other,
        ):
            assert one.wait().text() != other.wait().text()

    def test_files_of_the_candidate_are_its_own(self, bench: Bench) -> None:
        code = "import os; open('x', 'w').close(); print(os.stat('train.py').st_uid == os.getuid())"
        assert bench.run(code).text() == "True\n"


class TestHere(Built, AbuseSuite, ExecutorSuite, WallsSuite):
    """As whoever runs the tests."""

    profile = "process, ordinary user"
    isolation = "namespaces"
    cpu_sources = ("perf", "cgroup")
    oom_signals = (9, None)  # without a control group it is our kill


if AS_ROOT:
    del TestHere

    class TestAsRoot(RootClaims, Built, ApartSuite, AbuseSuite, ExecutorSuite, WallsSuite):
        """With one unprivileged user a sandbox, and control groups."""

        profile = "process, root"
        isolation = "namespaces"
        cpu_sources = ("cgroup",)

    def test_all_of_it_holds_for_an_ordinary_user_too(tmp_path: Path) -> None:
        chosen = "TestHere and not stopped_runner"  # seven seconds that differ in nothing
        outcome = subprocess.run(
            ["unshare", "--mount", sys.executable, str(AS_USER), str(tmp_path), chosen],
            capture_output=True, text=True,
        )  # fmt: skip

        assert outcome.returncode == 0, outcome.stdout[-6000:] + outcome.stderr[-2000:]
        assert " passed" in outcome.stdout


class TestWithoutWalls(Built, ExecutorSuite):
    """Where a host gives no namespaces."""

    profile = "process, no walls"
    isolation = "none"
    cpu_sources = ("proc",)
    more = {"isolation": "none"}  # noqa: RUF012 - read only

    def test_what_outlives_a_killed_runner_and_its_guardian_is_ended_by_the_next(
        self, bench: Bench, options: dict[str, Any]
    ) -> None:
        """Nothing ties such processes to anybody: only their environment tells whose they are."""
        mark = f"mark-{os.urandom(8).hex()}"
        driver = self._drive(bench, options, (candidates.NASTY, mark), wall=60)
        try:
            assert driver.stdout is not None
            assert b"ready" in driver.stdout.readline()
            guardians = [p for p in descendants(driver.pid) if p not in alive(mark)]
            assert len(guardians) >= 1
            for pid in (driver.pid, *guardians):
                os.kill(pid, signal.SIGKILL)
            driver.wait()
            assert alive(mark), "they outlived both"

            assert bench.executor.reconcile({}).ended == 1
            assert alive(mark) == []
        finally:
            end(driver)
