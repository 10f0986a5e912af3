"""What every executor must do, walls or not. Subclass it and provide the `executor` fixture.

A test whose docstring begins with P and a number shows that row of the abuse catalogue
(docs/hardening.md); what must be so after every such row is checked then.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import candidates
from tests.conformance.bench import LABELS, Bench, alive, digest, groups, traces, until
from tests.conformance.driver import begin, end
from tests.conformance.invariant import Invariant, left_below, rows

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Deadline, Execution, Executor, Exit, Limits, Sandbox

KILL_SECONDS = 2.0  #: after a deadline or a runner's death nothing may be alive


class ExecutorSuite:
    """Verbs, deadlines, kills, logs, files. Names are claims about any executor."""

    profile: str  #: its column in docs/hardening.md
    isolation: str  #: what the executor must say of itself
    cpu_sources: tuple[str, ...]

    @pytest.fixture
    def options(self, tmp_path: Path) -> dict[str, Any]:
        """Options that build the executor, here and in a driver's process."""
        raise NotImplementedError

    @pytest.fixture
    def executor(self, options: dict[str, Any]) -> Executor:
        """The executor under test."""
        raise NotImplementedError

    @pytest.fixture
    def bench(self, executor: Executor, tmp_path: Path) -> Iterator[Bench]:
        yield Bench(executor, tmp_path)
        executor.reconcile(LABELS)  # what a failed test may have left

    def handlers(self, request: pytest.FixtureRequest) -> dict[str, int]:
        """Name -> pid of whoever handles what candidates do."""
        return {"runner": os.getpid()}

    def left(self, request: pytest.FixtureRequest) -> list[str]:
        """What is left of sandboxes; [] is right."""
        return left_below(request.getfixturevalue("tmp_path"))

    @pytest.fixture(autouse=True)
    def _after_a_row_all_is_well(self, request: pytest.FixtureRequest) -> Iterator[None]:
        if not rows(request.function):
            yield
            return
        bench = request.getfixturevalue("bench")
        invariant = Invariant(bench, self.handlers(request), lambda: self.left(request))
        yield
        invariant.check()

    def test_it_says_what_its_sandboxes_give(self, executor: Executor) -> None:
        assert executor.isolation == self.isolation

    @pytest.mark.parametrize(
        ("code", "exit_code", "signal_"),
        [
            ("raise SystemExit(0)", 0, None),
            ("raise SystemExit(3)", 3, None),
            ("1 / 0", 1, None),
            ("import os; os.kill(os.getpid(), 11)", None, 11),
            ("import os; os.kill(os.getpid(), 9)", None, 9),
        ],
    )
    def test_the_way_the_command_ended_is_told(
        self, bench: Bench, code: str, exit_code: int | None, signal_: int | None
    ) -> None:
        execution = bench.run(code).execution

        assert (execution.exit, execution.exit_code, execution.signal) == (
            Exit.EXITED,
            exit_code,
            signal_,
        )
        assert execution.survivors == 0
        assert execution.isolation == self.isolation
        assert execution.kill_latency_seconds is None
        assert 0 < execution.wall_seconds < 10

    def test_a_command_that_is_not_there_ends_with_127_and_says_so(self, bench: Bench) -> None:
        spec = bench.spec(("no-such-program",))
        sandbox = bench.executor.prepare(spec)
        try:
            sandbox.start(bench.snapshot({}))
            run = _wait(sandbox)
        finally:
            sandbox.destroy()

        assert (run.exit, run.exit_code) == (Exit.EXITED, 127)
        assert b"no-such-program" in spec.log_path.read_bytes()

    def test_output_arrives_in_order_and_is_all_in_the_log(self, bench: Bench) -> None:
        code = (
            "import sys, time\n"
            "for i in range(6):\n"
            "    stream = (sys.stdout, sys.stderr)[i % 2]\n"
            "    print(i, file=stream, flush=True)\n"
            "    time.sleep(0.03)\n"
        )
        run = bench.run(code)

        assert run.text() == "0\n1\n2\n3\n4\n5\n"
        assert run.text("stdout") == "0\n2\n4\n"
        assert run.text("stderr") == "1\n3\n5\n"
        assert run.log == b"0\n1\n2\n3\n4\n5\n"
        assert run.execution.log_bytes == 12
        assert not run.execution.log_truncated

    def test_a_silent_command_is_killed_at_its_deadline(self, bench: Bench) -> None:
        began = time.monotonic()
        execution = bench.run("import time; time.sleep(60)", wall=0.7).execution
        elapsed = time.monotonic() - began

        assert execution.exit is Exit.DEADLINE_WALL
        assert (execution.exit_code, execution.signal) == (None, None)
        assert 0.7 <= execution.wall_seconds < 0.7 + KILL_SECONDS
        assert elapsed < 5
        assert execution.kill_latency_seconds is not None
        assert 0 <= execution.kill_latency_seconds < KILL_SECONDS

    def test_the_deadline_kills_the_whole_process_tree(self, bench: Bench) -> None:
        """P07: signals ignored. P08: double forks, sessions of their own."""
        mark = f"mark-{os.urandom(8).hex()}"
        before: list[int] = []

        def count(_: str, chunk: bytes) -> None:
            if b"ready" in chunk:
                before.extend(alive(mark))

        for wall in (2.0, 8.0, 30.0):  # a busy host starts them late
            with bench.box(candidates.NASTY, mark) as box:
                execution = box.wait(wall, sink=count).execution
                after = alive(mark)
            if before:
                break

        assert len(before) >= 8, "the nasty children did not all start"
        assert execution.exit is Exit.DEADLINE_WALL
        assert (after, execution.survivors) == ([], 0)
        assert until(lambda: not alive(mark), KILL_SECONDS)

    def test_what_lingers_when_the_command_has_ended_is_ended(self, bench: Bench) -> None:
        """P08: daemons."""
        mark = f"mark-{os.urandom(8).hex()}"
        code = candidates.NASTY.partition("signal.signal(signal.SIGTERM")[0]
        execution = bench.run(code, mark).execution

        assert (execution.exit, execution.exit_code) == (Exit.EXITED, 0)
        assert execution.wall_seconds < 10
        assert (alive(mark), execution.survivors) == ([], 0)

    def test_a_killed_runner_leaves_nothing_alive_and_reconcile_removes_its_traces(
        self, bench: Bench, options: dict[str, Any], tmp_path: Path
    ) -> None:
        before = traces(tmp_path)
        mark = f"mark-{os.urandom(8).hex()}"
        driver = self._drive(bench, options, (candidates.NASTY, mark), wall=60)
        try:
            assert driver.stdout is not None
            assert b"ready" in driver.stdout.readline()
            assert len(alive(mark)) >= 8
            made = groups(mark)
            driver.send_signal(signal.SIGKILL)
            driver.wait()

            assert until(lambda: not alive(mark), KILL_SECONDS), alive(mark)
        finally:
            end(driver)
        assert bench.executor.reconcile({"session": "another"}).ended == 0
        assert bench.executor.reconcile(LABELS).ended == 1
        assert bench.executor.reconcile(LABELS).ended == 0
        self._assert_removed(made)
        assert traces(tmp_path) == before

    def test_a_stopped_runner_does_not_stop_the_deadline(
        self, bench: Bench, options: dict[str, Any]
    ) -> None:
        mark = f"mark-{os.urandom(8).hex()}"
        driver = self._drive(bench, options, (candidates.SLEEPER, mark), wall=2.0)
        try:
            assert driver.stdout is not None
            assert b"ready" in driver.stdout.readline()
            driver.send_signal(signal.SIGSTOP)
            began = time.monotonic()

            assert until(lambda: not set(alive(mark)) - {driver.pid}, 2.0 + 5 + KILL_SECONDS)
            assert time.monotonic() - began > 2, "something else than the second timer ended it"
            driver.send_signal(signal.SIGCONT)
            rest = driver.communicate(timeout=20)[0]
            assert b"deadline_wall" in rest
        finally:
            end(driver)

    def test_cpu_of_forked_workers_counts_against_the_cpu_deadline(self, bench: Bench) -> None:
        execution = bench.run(candidates.WORKERS, cpu=1.0).execution

        assert execution.exit is Exit.DEADLINE_CPU
        assert execution.cpu_source in self.cpu_sources
        assert execution.cpu_seconds is not None
        assert execution.cpu_share is not None
        assert 0.9 <= execution.cpu_seconds < 1.0 + 0.15 * (os.cpu_count() or 1)
        assert execution.cpu_share > 0.05
        assert execution.survivors == 0

    def test_sleeping_uses_up_no_cpu_deadline(self, bench: Bench) -> None:
        execution = bench.run("import time; time.sleep(1.2)", cpu=1.0).execution

        assert execution.exit is Exit.EXITED
        assert execution.cpu_seconds is not None
        assert execution.cpu_seconds < 0.6

    def test_kill_from_another_thread_ends_it(self, bench: Bench) -> None:
        mark = f"mark-{os.urandom(8).hex()}"
        with bench.box(candidates.NASTY, mark) as box:
            timer = threading.Timer(0.1, box.sandbox.kill)
            execution = box.wait(60, sink=lambda *_: timer.start()).execution
            box.sandbox.kill()
            timer.join()

        assert execution.exit is Exit.KILLED
        assert execution.wall_seconds < 10
        assert execution.kill_latency_seconds is not None
        assert execution.kill_latency_seconds < KILL_SECONDS
        assert alive(mark) == []

    def test_a_command_killed_before_wait_never_runs(self, bench: Bench) -> None:
        with bench.box("print('I ran', flush=True)") as box:
            box.sandbox.kill()
            run = box.wait()

        assert run.execution.exit is Exit.KILLED
        assert run.text() == ""

    def test_a_command_killed_before_start_never_runs(self, bench: Bench) -> None:
        spec = bench.spec(("echo", "I ran"))
        sandbox = bench.executor.prepare(spec)
        try:
            sandbox.kill()
            sandbox.start(bench.snapshot({}))
            execution = _wait(sandbox)
        finally:
            sandbox.destroy()

        assert execution.exit is Exit.KILLED
        assert spec.log_path.read_bytes() == b""

    def test_the_environment_is_exactly_the_allowed_one(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OVERNIGHT_SECRET", "not for candidates")
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        run = bench.run(code, env={"GIVEN": "yes", "HOME": "/elsewhere"})
        seen = json.loads(run.text("stdout"))

        assert set(seen) == {"GIVEN", "HOME", "PATH", "TMPDIR", "LANG", "OVERNIGHT_OUT"}
        assert seen["GIVEN"] == "yes"
        assert seen["HOME"] != "/elsewhere"
        assert seen["PATH"].split(":")[0] == str(bench.python.parent)

    def test_home_and_temporary_folder_are_fresh_and_writable(self, bench: Bench) -> None:
        code = (
            "import os, sys\n"
            "for name in ('HOME', 'TMPDIR'):\n"
            "    print(os.listdir(os.environ[name]))\n"
            "    open(os.environ[name] + '/x', 'w').close()\n"
            "print(repr(sys.stdin.read()), sorted(os.listdir('.')))\n"
        )
        for _ in range(2):
            assert bench.run(code).text() == "[]\n[]\n'' ['train.py']\n"

    def test_a_flood_is_bounded_on_disk_and_in_memory(self, bench: Bench) -> None:
        """P05: a flood."""
        flood = "import os\nwhile True: os.write(1, b'0123456789abcdef' * 4096)"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run = bench.run(flood, wall=2.0)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

        assert run.execution.exit is Exit.DEADLINE_WALL
        assert run.execution.log_truncated
        assert run.execution.log_bytes > 16 * 1024**2
        assert len(run.log) < 9 * 1024**2 + 200
        assert run.log.count(b"bytes left out here") == 1
        assert run.log.startswith(b"0123456789abcdef")
        assert grown_kib < 200 * 1024

    def test_one_huge_line_keeps_its_start_and_its_end(self, bench: Bench) -> None:
        """P06: 128 MiB in one line."""
        code = (
            "import os\n"
            "os.write(1, b'start')\n"
            "for _ in range(2048): os.write(1, b'x' * 65536)\n"
            "os.write(2, b'end')\n"
        )
        run = bench.run(code)

        assert run.execution.exit_code == 0
        assert run.execution.log_truncated
        assert run.execution.log_bytes == 2048 * 65536 + 8
        assert len(run.log) < 9 * 1024**2 + 200
        assert run.log.startswith(b"startxxx")
        assert run.log.endswith(b"xxxend")

    def test_a_full_disk_under_the_log_costs_lines_of_it_and_nothing_else(
        self, bench: Bench
    ) -> None:
        heard: list[bytes] = []
        with bench.box("print('heard', flush=True)", log_path=Path("/dev/full")) as box:
            execution = box.sandbox.wait(
                Deadline(wall_seconds=20), lambda _, chunk: heard.append(chunk)
            )

        assert (execution.exit, execution.exit_code) == (Exit.EXITED, 0)
        assert b"".join(heard) == b"heard\n"

    def test_an_output_sink_that_fails_ends_the_command(self, bench: Bench) -> None:
        mark = f"mark-{os.urandom(8).hex()}"

        def fail(*_: object) -> None:
            raise LookupError("sink")

        with bench.box(candidates.SLEEPER, mark) as box:
            with pytest.raises(LookupError):
                box.wait(sink=fail)
            assert until(lambda: not alive(mark), KILL_SECONDS)

    def test_only_plain_files_within_limits_are_collected(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        """P20: links, hard links, pipes, sockets, odd names, depth, size."""
        limits = bench.spec(()).limits.__class__(out_bytes=100)
        with bench.box(candidates.TRAPS, limits=limits) as box:
            assert box.wait().execution.exit_code == 0
            taken = box.sandbox.collect(tmp_path / "into")

        found = {str(p.relative_to(tmp_path / "into")) for p in (tmp_path / "into").rglob("*")}
        wanted = {"b.bin": 20, "good/deep/a.txt": 10}
        if os.geteuid() == 0:
            wanted["closed/c"] = 1
        assert {item.path: item.size_bytes for item in taken} == wanted
        assert {name for name in found if not (tmp_path / "into" / name).is_dir()} == set(wanted)
        assert (tmp_path / "into/b.bin").read_bytes() == b"b" * 20
        assert not any(p.is_symlink() for p in (tmp_path / "into").rglob("*"))

    @pytest.mark.parametrize(
        ("greedy", "words"),
        [
            (candidates.FILLS_FILES, "64 MiB"),
            (candidates.FILLS_UNLINKED, "64 MiB"),
            (candidates.FILLS_DEEP_DOWN, "64 MiB"),
            (candidates.FILLS_INODES, "3000 files"),
        ],
        ids=["files", "unlinked", "deep", "inodes"],
    )
    def test_files_of_the_whole_sandbox_are_limited(
        self, bench: Bench, greedy: str, words: str
    ) -> None:
        """P03: total of all files. P04: how many."""
        limits = Limits(disk_bytes=64 << 20, disk_files=3000)
        execution = bench.run(greedy, wall=30, limits=limits).execution

        assert execution.exit is Exit.DISK
        assert words in execution.over
        assert execution.survivors == 0

    def test_what_stays_within_its_disk_is_left_alone(self, bench: Bench) -> None:
        code = "import time; open('x', 'wb').write(b'x' * (32 << 20)); time.sleep(1.5)"
        limits = Limits(disk_bytes=64 << 20, disk_files=100)

        assert bench.run(code, limits=limits).execution.exit_code == 0

    def test_open_files_are_limited(self, bench: Bench) -> None:
        """P10: open files."""
        code = (
            "import errno\n"
            "held = []\n"
            "try:\n"
            "    while True: held.append(open('/dev/null'))\n"
            "except OSError as error: print(errno.errorcode[error.errno], len(held))\n"
        )
        words = bench.run(code, limits=Limits(open_files=256)).text().split()

        assert words[0] == "EMFILE"
        assert 200 < int(words[1]) < 256

    def test_no_way_of_writing_makes_a_file_that_is_too_large(self, bench: Bench) -> None:
        """P13: fallocate, truncate, and a core dump."""
        code = (
            "import errno, os, resource, signal\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "file = os.open('x', os.O_RDWR | os.O_CREAT)\n"
            "for grow in (lambda: os.posix_fallocate(file, 0, 80 << 20),\n"
            "             lambda: os.ftruncate(file, 80 << 20),\n"
            "             lambda: os.pwrite(file, b'x', 80 << 20)):\n"
            "    try: grow(); print('grown')\n"
            "    except OSError as error: print(errno.errorcode[error.errno])\n"
            "print(resource.getrlimit(resource.RLIMIT_CORE))\n"
        )
        run = bench.run(code, limits=Limits(file_bytes=64 << 20))

        assert run.text("stdout").split("\n")[:4] == ["EFBIG"] * 3 + ["(0, 0)"]

    def test_a_candidate_that_changes_its_own_clock_changes_no_time_of_ours(
        self, bench: Bench
    ) -> None:
        """P14: its own clock, and LD_PRELOAD."""
        code = (
            "import time\n"
            "began = time.monotonic()\n"
            "for name in ('time', 'monotonic', 'perf_counter', 'process_time'):\n"
            "    setattr(time, name, lambda: 0.0)\n"
            "time.sleep(0.5)\n"
        )
        execution = bench.run(code, env={"LD_PRELOAD": "/nowhere.so"}).execution

        assert 0.5 <= execution.wall_seconds < 10
        assert execution.stalled_seconds == execution.asleep_seconds == 0

    def test_holes_stay_holes_when_a_file_is_collected(self, bench: Bench, tmp_path: Path) -> None:
        code = (
            "import os\n"
            "with open(os.environ['OVERNIGHT_OUT'] + '/x', 'wb') as file:\n"
            "    file.write(b'start'); file.seek(500 << 20); file.write(b'middle')\n"
            "    file.truncate(1 << 30)\n"
        )
        with bench.box(code) as box:
            assert box.wait().execution.exit_code == 0
            (taken,) = box.sandbox.collect(tmp_path / "into")
        copy = tmp_path / "into" / "x"

        assert taken.size_bytes == copy.stat().st_size == 1 << 30
        assert copy.stat().st_blocks * 512 < 1 << 20
        with copy.open("rb") as file:
            assert file.read(6) == b"start\0"
            file.seek(500 << 20)
            assert file.read(7) == b"middle\0"

    @pytest.mark.parametrize(
        ("keep", "wanted"),
        [
            (("out/r.json",), {"out/r.json": 2}),
            (("out",), {"out/r.json": 2, "out/deep/x": 1}),
            (
                (".",),
                {"out/r.json": 2, "out/deep/x": 1, "new": 1, "train.py": None, "mixed/own": 1},
            ),
            (("./out/deep/", "nothing", "link"), {"out/deep/x": 1}),
            ((), {}),
        ],
    )
    def test_what_was_asked_for_is_taken_from_the_working_folder_and_nothing_else(
        self, bench: Bench, tmp_path: Path, keep: tuple[str, ...], wanted: dict[str, int | None]
    ) -> None:
        """P20: never what is frozen, no link, no pipe, and only plain files."""
        code = candidates.LEAVES
        files = {"score.py": "frozen", "data/a.txt": "a", "mixed/frozen.txt": "f"}
        frozen = ("score.py", "data", "mixed/frozen.txt")
        with bench.box(code, files=files, frozen=frozen, keep=keep) as box:
            assert box.wait().execution.exit_code == 0
            taken = box.sandbox.take(tmp_path / "into")

        sizes = {path: len(code) if size is None else size for path, size in wanted.items()}
        assert {item.path: item.size_bytes for item in taken} == sizes
        found = [p for p in (tmp_path / "into").rglob("*") if not p.is_dir() or p.is_symlink()]
        assert {str(p.relative_to(tmp_path / "into")) for p in found} == set(wanted)
        assert not any(p.is_symlink() for p in found)

    def test_no_more_is_taken_than_the_limit(self, bench: Bench, tmp_path: Path) -> None:
        limits = bench.spec(()).limits.__class__(out_bytes=10)
        code = "open('a', 'w').write('x' * 8); open('b', 'w').write('y' * 8)"
        with bench.box(code, limits=limits, keep=("a", "b")) as box:
            assert box.wait().execution.exit_code == 0
            taken = box.sandbox.take(tmp_path / "into")

        assert [item.path for item in taken] == ["a"]

    def test_what_a_command_does_to_its_tree_never_reaches_the_snapshot(self, bench: Bench) -> None:
        """P19: the snapshot."""
        tree = bench.snapshot({"train.py": candidates.VANDAL, "data/a.txt": "a", "data/b.txt": "b"})
        before = digest(tree)
        sandbox = bench.executor.prepare(bench.spec(("python", "train.py")))
        try:
            sandbox.start(tree)
            assert _wait(sandbox).exit_code == 0
        finally:
            sandbox.destroy()

        assert digest(tree) == before

    def test_nothing_is_left_after_destroy(self, bench: Bench, tmp_path: Path) -> None:
        before = traces(tmp_path)
        mark = f"mark-{os.urandom(8).hex()}"
        with bench.box(candidates.NASTY, mark) as box:
            made = groups(mark)
            box.wait(1.0)
        box.sandbox.destroy()

        self._assert_removed(made)
        assert traces(tmp_path) == before
        assert alive(mark) == []

    def test_destroy_without_wait_leaves_nothing(self, bench: Bench, tmp_path: Path) -> None:
        before = traces(tmp_path)
        mark = f"mark-{os.urandom(8).hex()}"
        with bench.box(candidates.NASTY, mark):
            pass
        bench.executor.prepare(bench.spec(("true",))).destroy()

        assert traces(tmp_path) == before
        assert alive(mark) == []

    def test_a_failed_start_says_why_and_leaves_nothing(self, bench: Bench, tmp_path: Path) -> None:
        before = traces(tmp_path)
        with pytest.raises(SandboxUnavailableError, match=r"no Python at /nowhere/python"):
            bench.executor.prepare(bench.spec(("true",), interpreter=Path("/nowhere/python")))
        sandbox = bench.executor.prepare(bench.spec(("true",)))
        with pytest.raises(SandboxUnavailableError, match="snapshot") as caught:
            sandbox.start(tmp_path / "not-there")

        assert "\n" not in str(caught.value)
        assert traces(tmp_path) == before

    def test_reconcile_leaves_a_living_sandbox_alone(self, bench: Bench) -> None:
        with bench.box("print('alive')") as box:
            assert bench.executor.reconcile(LABELS).ended == 0
            assert box.wait().text() == "alive\n"

    def _assert_removed(self, made: set[Path]) -> None:
        assert made or "cgroup" not in self.cpu_sources or len(self.cpu_sources) > 1
        assert [group for group in made if group.exists()] == []

    def _drive(
        self, bench: Bench, options: dict[str, Any], program: tuple[str, str], wall: float
    ) -> subprocess.Popen[bytes]:
        tree = bench.snapshot({"train.py": program[0]})
        spec = bench.spec(("python", "train.py", program[1]))
        return begin(options, spec, tree, wall)


def _wait(sandbox: Sandbox) -> Execution:
    return sandbox.wait(Deadline(wall_seconds=20), lambda *_: None)
