"""Rows of the abuse catalogue (docs/hardening.md) that every executor with walls must withstand."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import abusers
from tests.conformance.bench import Bench, alive, digest, until
from tests.conformance.driver import begin, end

from overnight.contracts.execution import Exit, Limits

CANARY = "a-secret-that-is-in-our-environment"
PIDS = 64
OUR_OWN = 8  #: what holds a sandbox may carry the mark in its arguments, too
#: After a deadline a process is dead within half a second on a quiet host; a busy one gets this.
LATE_SECONDS = 5.0
#: Folders that a candidate may write. All are bounded: in the sandbox's folders by `disk_bytes`,
#: in temporary file systems by `tmp_bytes`.
WRITABLE = {"/w", "/out", "/tmp", "/dev/shm"}


class AbuseSuite:
    """Together with ExecutorSuite and WallsSuite."""

    #: How the kernel's end for want of memory is told of the command: by 9, which is exit code 137.
    oom_signals: tuple[int | None, ...] = (9,)
    #: Beside WRITABLE, where nothing but the kernel's own small limits hold.
    more_writable: frozenset[str] = frozenset()

    def test_a_fork_bomb_stays_small_and_the_host_goes_on(self, bench: Bench) -> None:
        """P01: everybody forks."""
        seen: list[tuple[int, float]] = []

        def look(_: str, chunk: bytes) -> None:
            if not seen:
                began = time.monotonic()
                subprocess.run(["true"], check=True)
                seen.append((len(alive(bench.mark)), time.monotonic() - began))

        with bench.box(abusers.FORK_BOMB, limits=Limits(pids=PIDS)) as box:
            run = box.wait(2.0, sink=look)

        assert run.execution.exit is Exit.DEADLINE_WALL
        assert set(run.text().split()) == {"EAGAIN"}
        (processes, seconds), *_ = seen
        assert PIDS // 2 < processes <= PIDS + OUR_OWN
        assert seconds < LATE_SECONDS, "a process of the host could hardly start"

    def test_want_of_memory_a_kill_of_ours_and_a_kill_of_its_own_are_told_apart(
        self, bench: Bench
    ) -> None:
        """P02: a memory bomb."""
        limits = Limits(memory_bytes=192 << 20)
        bomb = bench.run(abusers.MEMORY_BOMB, limits=limits).execution
        own = bench.run("import os; os.kill(os.getpid(), 9)", limits=limits).execution
        with bench.box("import time; print('up', flush=True); time.sleep(60)") as box:
            ours = box.wait(sink=lambda *_: box.sandbox.kill()).execution

        assert bomb.exit is Exit.OOM
        assert bomb.signal in self.oom_signals
        assert (own.exit, own.signal) == (Exit.EXITED, 9)
        assert (ours.exit, ours.signal) == (Exit.KILLED, None)

    def test_every_place_that_can_be_written_is_bounded(self, bench: Bench) -> None:
        """P03: there is no other place to fill."""
        found = set(bench.run(abusers.WRITABLE).text("stdout").split())

        assert found == WRITABLE | self.more_writable, sorted(found)

    def test_a_command_that_is_deaf_to_signals_is_dead_at_its_deadline(self, bench: Bench) -> None:
        """P07: all signals ignored, and busy."""
        run = bench.run(abusers.DEAF, wall=1.0)

        assert run.text() == "deaf\n"
        assert run.execution.exit is Exit.DEADLINE_WALL
        assert 1.0 <= run.execution.wall_seconds < 1.0 + LATE_SECONDS
        assert run.execution.kill_latency_seconds is not None
        assert 0 <= run.execution.kill_latency_seconds < LATE_SECONDS

    def test_no_clock_can_be_changed_and_our_times_are_our_own(self, bench: Bench) -> None:
        """P14: setting clocks, and a library of its own loaded first."""
        before = time.time() - time.monotonic()
        run = bench.run(abusers.CLOCKS, files={"clock.so": "no library"})

        calls = [f"{name} EPERM\n" for name in
                 ("settimeofday", "clock_settime", "adjtimex", "clock_adjtime")]  # fmt: skip
        assert run.text("stdout") == ("".join(calls) + "[]\n") * 2
        assert "clock.so" in run.text("stderr"), "its own library was not even tried"
        assert run.execution.exit_code == 0
        assert 0.5 <= run.execution.wall_seconds < 20
        assert abs(time.time() - time.monotonic() - before) < 1.0

    def test_no_process_inside_can_be_traced_or_read(self, bench: Bench) -> None:
        """P15: a child of its own, and the first process."""
        words = bench.run(abusers.TRACER).text("stdout").split()

        assert len(words) == 24
        assert set(words[1::2]) == {"EPERM"}

    def test_processes_of_the_host_have_no_number_inside(
        self, bench: Bench, request: pytest.FixtureRequest
    ) -> None:
        """P16: the runner, and whoever holds the sandbox."""
        pids = [*self.handlers(request).values(), os.getppid()]
        words = bench.run(abusers.SNIPER, ",".join(map(str, pids))).text("stdout").split()

        assert len(words) == 6 * len(pids)
        assert set(words[1::2]) == {"ESRCH"}

    def test_nothing_in_proc_tells_a_secret_of_ours(
        self, bench: Bench, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest,
    ) -> None:  # fmt: skip
        """P17: environments, arguments and mounts of all processes."""
        monkeypatch.setenv("REDIS_PASSWORD", CANARY)
        (bench.root / "beside").mkdir()
        words = [CANARY, str(bench.root / "beside"), *self.places(request)]
        spec = bench.spec(("python", "train.py", ",".join(words)))
        driver = begin(options, spec, bench.snapshot({"train.py": abusers.SPY}), 20)
        try:
            assert driver.stdout is not None
            environ = Path(f"/proc/{driver.pid}/environ")
            assert until(lambda: CANARY.encode() in environ.read_bytes(), 5.0)
            said = driver.stdout.read().decode().split("\n")
        finally:
            end(driver)

        assert [line for line in said if line.startswith("found")] == []
        assert said[0].startswith("searched")
        assert int(said[0].split()[1]) >= 1

    def places(self, request: pytest.FixtureRequest) -> list[str]:
        """Of ours, whose names no candidate has any business with."""
        return []

    def test_no_odd_socket_and_no_change_of_the_network(self, bench: Bench) -> None:
        """P18: netlink, raw and packet sockets, families that no namespace holds."""
        lines = bench.run(abusers.ODD_SOCKETS).text("stdout").splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines)

        assert found == {
            "new link": "EPERM", "new address": "EPERM", "new route": "EPERM",
            "packet": "EAFNOSUPPORT", "raw": "EPERM", "vsock": "EAFNOSUPPORT",
            "alg": "EAFNOSUPPORT", "bluetooth": "EAFNOSUPPORT",
        }  # fmt: skip

    def test_what_is_only_shown_can_not_be_changed_in_any_way(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        """P19: data, frozen files, remounts, modes."""
        data = tmp_path / "data"
        data.mkdir()
        (data / "x").write_text("data")
        before = digest(data)
        code = abusers.DEFACER + "print('frozen', open('/w/frozen/x').read())\n"
        files = {"frozen/x": "frozen"}
        run = bench.run(code, f"{data},/w/frozen", files=files, frozen=("frozen",), reads=(data,))
        lines = run.text("stdout").splitlines()

        assert digest(data) == before
        assert lines.pop() == "frozen frozen"
        assert len(lines) == 30
        assert {line.rsplit(" ", 1)[1] for line in lines} <= {"EROFS", "EPERM", "EACCES", "EBUSY"}

    def test_no_way_out_of_out_is_followed(self, bench: Bench, tmp_path: Path) -> None:
        """P20: links to secrets and above, devices, names with dots."""
        secret = tmp_path / "secret"
        secret.write_text("secret")
        with bench.box(abusers.ESCAPES, str(secret)) as box:
            run = box.wait()
            assert (run.execution.exit_code, run.text()) == (0, "")
            taken = box.sandbox.collect(tmp_path / "into")

        assert sorted(item.path for item in taken) == [".. ", "honest"]
        assert not any(p.is_symlink() for p in (tmp_path / "into").rglob("*"))
        assert not (tmp_path / "beside").exists()


class ApartSuite:
    """For executors that run candidates as users of their own: ours can't be signalled."""

    def test_who_stops_all_that_it_can_see_stops_no_deadline(
        self, bench: Bench, options: dict[str, Any]
    ) -> None:
        """P16: SIGSTOP for everybody inside, while the runner is stopped too."""
        mark = f"mark-{os.urandom(8).hex()}"
        spec = bench.spec(("python", "train.py", mark))
        driver = begin(options, spec, bench.snapshot({"train.py": abusers.STOPPER}), 1.0)
        try:
            assert driver.stdout is not None
            assert b"stopped" in driver.stdout.readline()
            driver.send_signal(signal.SIGSTOP)

            assert until(lambda: not set(alive(mark)) - {driver.pid}, 1.0 + 5.0 + LATE_SECONDS)
            driver.send_signal(signal.SIGCONT)
            assert b"deadline_wall" in driver.communicate(timeout=20)[0]
        finally:
            end(driver)
