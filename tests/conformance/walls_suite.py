"""What an executor must keep a candidate from, where its sandboxes have walls.

A test whose docstring begins with P and a number shows that row of the abuse catalogue.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import candidates
from tests.conformance.bench import Bench, Box, Listener, alive, status, traces

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Exit, Limits

SECRET = "a-secret-of-the-runner"
LIBRARY = {"lib/harness.py": "SCORE = 1\n", "lib/other.py": "", "frozen/a.py": "A = 1\n"}
FROZEN = ("lib/harness.py", "frozen")


class WallsSuite:
    """Together with ExecutorSuite, for executors whose isolation is not `none`."""

    @pytest.fixture
    def services(self) -> Iterator[dict[str, Listener]]:
        folder = tempfile.mkdtemp(prefix="ov-")
        made = {
            "tcp": Listener(socket.AF_INET, ("127.0.0.1", 0)),
            "abstract": Listener(socket.AF_UNIX, f"\0overnight-{os.urandom(6).hex()}"),
            "redis": Listener(socket.AF_UNIX, f"{folder}/redis.sock"),
        }
        yield made
        for listener in made.values():
            listener.close()
        os.unlink(f"{folder}/redis.sock")
        os.rmdir(folder)

    @pytest.fixture
    def canaries(self, bench: Bench) -> list[Path]:
        """Files of ours outside every mount: another session, and a secret beside this one."""
        other = bench.root / "another-session" / "work"
        other.mkdir(parents=True)
        places = [other / "train.py", bench.root / "secret"]
        for place in places:
            place.write_text("not for candidates")
        return [*places, bench.root / "another-session"]

    def attack(
        self, box_options: dict[str, Any], bench: Bench, services: dict[str, Listener],
        unreadable: list[str], seen: list[dict[str, str]],
    ) -> dict[str, Any]:  # fmt: skip
        """Run the probe; what it found, and in *seen* how the host sees it meanwhile."""
        mark = f"mark-{os.urandom(8).hex()}"
        asked = {
            "unreadable": unreadable,
            "port": services["tcp"].address[1],
            "abstract": services["abstract"].address[1:].decode(),
            "secret": SECRET,
            "linger": 0.5,
        }

        def look(name: str, chunk: bytes) -> None:
            if name == "stdout":
                seen.extend(status(pid) for pid in alive(mark) if _is_python(pid))

        with bench.box(candidates.PROBE, json.dumps(asked), mark, **box_options) as box:
            self.plant(box)
            run = box.wait(sink=look)
        assert run.execution.exit_code == 0, run.text()
        answers: dict[str, Any] = json.loads(run.text("stdout"))
        return answers

    def plant(self, box: Box) -> None:
        """Put canaries into the sandbox's own mounts, where the user allows to tell them apart."""

    def test_an_attacker_finds_every_door_closed(
        self, bench: Bench, services: dict[str, Listener], canaries: list[Path],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        """P14: the host's clock. P15: ptrace and process_vm of the first process. P16: kill(1).

        P17: secrets in environments, cloud metadata. P18: every way out. P19: frozen files, mounts.
        P20: a device.
        """
        monkeypatch.setenv("REDIS_PASSWORD", SECRET)
        unreadable = ["/etc/shadow", "/root/.bashrc", "/run", "/var", "/sys/fs/cgroup", "/home"]
        unreadable += [str(p) for p in canaries] + [str(services["redis"].address), "/proc/1/mem"]
        unreadable.append("/var/run/docker.sock")
        seen: list[dict[str, str]] = []

        answers = self.attack(
            {"files": LIBRARY, "frozen": FROZEN}, bench, services, unreadable, seen
        )
        opened = {name: answer for name, answer in answers.items() if str(answer)[:2] == "ok"}
        for harmless in ("environment of 1", "root of 1"):  # an ordinary user's first process
            opened.pop(harmless, None)
        opened.pop("read /proc/1/mem", None)
        opened.pop("kill 1", None)  # may be sent, and is ignored: the probe went on

        assert opened == {}, opened
        assert answers["environment of 1"] in ("EACCES", "ok"), "it must be closed or empty"
        assert {k: v for k, v in answers.items() if "outside" in k or k == "metadata"} == {
            "outside tcp": "ENETUNREACH",
            "outside udp": "ENETUNREACH",
            "metadata": "ENETUNREACH",
        }
        assert answers["vsock"] == "EAFNOSUPPORT"
        forbidden = ("ptrace", "process_vm_readv", "process_vm_writev", "unshare", "clone",
                     "mount", "clock_settime")  # fmt: skip
        assert {n: answers[n] for n in forbidden} == dict.fromkeys(forbidden, "EPERM")
        assert answers["interfaces"] == ["lo"]
        assert answers["rename the frozen file's parent"] == "EBUSY"
        assert answers["write /w/lib/harness.py"] == "EROFS"
        assert len(answers["pids"]) <= 4
        assert answers["fds"] == ["0", "1", "2", "3"]
        assert [listener.visits for listener in services.values()] == [0, 0, 0]
        assert len(seen) == 1
        assert seen[0]["Uid"].split() == [str(self.host_uid(answers))] * 4
        assert {seen[0][name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
            "0" * 16
        }
        assert (seen[0]["NoNewPrivs"], seen[0]["Seccomp"]) == ("1", "2")

    def host_uid(self, answers: dict[str, Any]) -> int:
        """The user that the host must see the candidate as."""
        return os.geteuid()

    def test_loopback_inside_works(self, bench: Bench) -> None:
        code = (
            "import socket\n"
            "s = socket.create_server(('localhost', 0))\n"
            "c = socket.create_connection(s.getsockname())\n"
            "print(socket.gethostbyname(socket.gethostname()))\n"
        )
        assert bench.run(code).text() == "127.0.0.1\n"

    def test_network_host_is_the_host_s(self, bench: Bench, services: dict[str, Listener]) -> None:
        code = f"import socket; socket.create_connection({services['tcp'].address!r})"
        assert bench.run(code, network="host").execution.exit_code == 0
        assert bench.run(code).execution.exit_code == 1

    def test_a_frozen_tree_still_takes_new_files_beside_what_is_frozen(self, bench: Bench) -> None:
        code = (
            "import lib.harness, frozen.a\n"
            "open('lib/new.py', 'w').close()\n"
            "open('new.py', 'w').close()\n"
            "open('train.py', 'a').close()\n"
            "print(lib.harness.SCORE)\n"
        )
        assert bench.run(code, files=LIBRARY, frozen=FROZEN).text() == "1\n"

    def test_hundreds_of_frozen_files_are_frozen(self, bench: Bench) -> None:
        files = {f"pkg{i % 3}/sub/m{i}.py": "" for i in range(400)}
        code = (
            "import os\n"
            "count = 0\n"
            "for folder, _, names in os.walk('.'):\n"
            "    for name in names:\n"
            "        try: open(os.path.join(folder, name), 'a').close()\n"
            "        except OSError: count += 1\n"
            "print(count)\n"
        )
        assert bench.run(code, files=files, frozen=tuple(files)).text() == "400\n"

    def test_a_frozen_link_is_frozen_with_what_it_leads_to(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "x").write_text("data")
        code = (
            "import os\n"
            "print(open('data/x').read(), open('alias').read())\n"
            "for name in ('data', 'alias'):\n"
            "    try: os.unlink(name)\n"
            "    except OSError as error: print(error.strerror)\n"
            "print(os.path.exists('stray/x'))\n"
        )
        tree = bench.snapshot({"train.py": code, "real": "real"})
        (tree / "data").symlink_to(tmp_path / "data")
        (tree / "alias").symlink_to("real")
        (tmp_path / "hidden").mkdir()
        (tmp_path / "hidden" / "x").write_text("hidden")
        (tree / "stray").symlink_to(tmp_path / "hidden")
        spec = bench.spec(
            ("python", "train.py"), frozen=("data", "alias", "stray"), reads=(tmp_path / "data",)
        )
        sandbox = bench.executor.prepare(spec)
        try:
            sandbox.start(tree)
            run = Box(sandbox, spec).wait()
        finally:
            sandbox.destroy()

        assert run.text().splitlines()[0] == "data real"
        assert run.text().splitlines()[-1] == "False"
        assert "Is a directory" in run.text() or "busy" in run.text()
        assert run.text().count("\n") == 4

    @pytest.mark.parametrize("frozen", ["missing.py", "link/x"])
    def test_what_can_not_be_frozen_is_an_error(self, bench: Bench, frozen: str) -> None:
        tree = bench.snapshot({"train.py": "", "real/x": ""})
        (tree / "link").symlink_to("real")
        sandbox = bench.executor.prepare(bench.spec(("true",), frozen=(frozen,)))
        with pytest.raises(SandboxUnavailableError, match=frozen):
            sandbox.start(tree)

    def test_reads_are_visible_read_only_at_the_same_place(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        data = tmp_path / "deep" / "down" / "data"
        data.mkdir(parents=True)
        (data / "x").write_text("data")
        (tmp_path / "deep" / "beside").write_text("hidden")
        code = (
            "import os, sys\n"
            "data = sys.argv[1]\n"
            "print(open(data + '/x').read(), os.listdir(os.path.dirname(os.path.dirname(data))))\n"
            "open(data + '/y', 'w')\n"
        )
        run = bench.run(code, str(data), reads=(data,))

        assert run.text("stdout") == "data ['down']\n"
        assert "Read-only file system" in run.text("stderr")

    def test_reads_that_would_show_what_is_secret_are_refused(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        before = traces(tmp_path)
        for path in (Path("/"), Path("/run"), tmp_path, tmp_path.parent, Path("/proc/1")):
            with pytest.raises(SandboxUnavailableError, match=re.escape(str(path))):
                bench.executor.prepare(bench.spec(("true",), reads=(path,)))
        with pytest.raises(SandboxUnavailableError, match="is not there"):
            bench.executor.prepare(bench.spec(("true",), reads=(tmp_path / "missing",)))

        assert traces(tmp_path) == before

    def test_a_virtual_environment_in_a_closed_home_works(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        (home / "secret").write_text("secret")
        command = [sys.executable, "-m", "venv", "--without-pip", str(home / ".venv")]
        subprocess.run(command, check=True)
        (home / ".venv" / "data").write_text("mine")
        bench.python = home / ".venv" / "bin" / "python"
        code = (
            "import os, sys, subprocess\n"
            "print(sys.prefix, os.path.exists(sys.argv[1] + '/secret'))\n"
            "print(subprocess.run(['python', '-c', 'import json; print(1)'], text=True,\n"
            "                     capture_output=True).stdout)\n"
        )
        run = bench.run(code, str(home))

        assert run.text().splitlines()[:2] == [f"{home}/.venv False", "1"]

    def test_fork_stops_at_the_process_limit(self, bench: Bench) -> None:
        """P01: forks."""
        code = (
            "import os, time\n"
            "count = 0\n"
            "try:\n"
            "    while count < 500:\n"
            "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
            "        count += 1\n"
            "except OSError as error: print(error.strerror, count)\n"
        )
        run = bench.run(code, limits=Limits(pids=40))
        words = run.text().rsplit(None, 1)

        assert words[0] == "Resource temporarily unavailable", run.text()
        assert 20 < int(words[1]) <= 40

    def test_threads_stop_at_the_process_limit(self, bench: Bench) -> None:
        """P10: threads."""
        code = (
            "import threading, time\n"
            "count = 0\n"
            "try:\n"
            "    while count < 500:\n"
            "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
            "        count += 1\n"
            "except RuntimeError as error: print(count, flush=True)\n"
        )
        count = int(bench.run(code, limits=Limits(pids=40)).text("stdout"))

        assert 20 < count <= 40

    def test_a_candidate_that_kills_all_it_can_see_ends_only_itself(self, bench: Bench) -> None:
        """P16: kill(-1)."""
        bystander = subprocess.Popen(["sleep", "60"])
        code = "import os; print('going', flush=True); os.kill(-1, 9); os.kill(os.getpid(), 9)"
        try:
            run = bench.run(code)
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()

        assert (run.execution.exit, run.execution.signal) == (Exit.EXITED, 9)
        assert run.execution.survivors == 0

    def test_memory_of_the_whole_sandbox_is_limited(self, bench: Bench) -> None:
        """P02: of all its processes together."""
        code = (
            "import os, time\n"
            "if os.fork():\n"
            "    os.wait(); raise SystemExit(0)\n"
            "hold = [bytearray(os.urandom(1 << 20)) * 16 for _ in range(40)]\n"
            "time.sleep(30)\n"
        )
        execution = bench.run(code, limits=Limits(memory_bytes=256 * 1024**2)).execution

        assert execution.exit is Exit.OOM
        assert execution.wall_seconds < 15

    def test_a_crash_or_a_kill_is_not_taken_for_lack_of_memory(self, bench: Bench) -> None:
        limits = Limits(memory_bytes=256 * 1024**2)
        crash = bench.run("raise MemoryError", limits=limits).execution
        killed = bench.run("import os; os.kill(os.getpid(), 9)", limits=limits).execution

        assert (crash.exit, crash.exit_code) == (Exit.EXITED, 1)
        assert (killed.exit, killed.signal) == (Exit.EXITED, 9)

    def test_the_peak_of_memory_is_seen(self, bench: Bench) -> None:
        code = "import time; x = bytearray(200 << 20); time.sleep(0.8)"
        peak = bench.run(code).execution.max_rss_bytes

        assert peak is not None
        assert 200 << 20 < peak < 400 << 20

    def test_sizes_of_files_and_of_the_temporary_folders_are_limited(self, bench: Bench) -> None:
        """P03: one file, /tmp, /dev/shm. P13: on and on."""
        code = (
            "import errno, signal\n"
            "for path, size in (('/tmp/x', 40), ('/dev/shm/x', 40), ('x', 80)):\n"
            "    try:\n"
            "        with open(path, 'wb', buffering=0) as file:\n"
            "            for _ in range(size): file.write(b'x' * (1 << 20))\n"
            "        print('written')\n"
            "    except OSError as error: print(errno.errorcode[error.errno])\n"
        )
        limits = Limits(tmp_bytes=32 << 20, file_bytes=64 << 20)

        assert bench.run(code, limits=limits).text() == "ENOSPC\nENOSPC\nEFBIG\n"

    def test_cpu_of_children_that_nobody_reaps_counts_too(self, bench: Bench) -> None:
        execution = bench.run(candidates.SHORT_WORKERS, cpu=0.6).execution

        assert execution.exit is Exit.DEADLINE_CPU
        assert execution.cpu_source in ("cgroup", "perf")
        assert execution.wall_seconds < 15

    def test_the_user_has_a_name(self, bench: Bench) -> None:
        code = "import getpass, os; print(getpass.getuser(), os.path.expanduser('~'))"
        assert bench.run(code).text() == "overnight /tmp/home\n"


def _is_python(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[1:2] == [b"train.py"]
