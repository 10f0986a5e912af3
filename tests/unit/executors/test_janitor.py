"""What dead runners left is ended, however little is known of it; what lives is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from overnight.executors import records, tree
from overnight.executors.janitor import Janitor

SLEEP = "import time; print(flush=True); time.sleep(60)"
#: Starts a sleeper that carries a token, and dies before it: the sleeper is nobody's.
ORPHANED = 'TOKEN="$0" sleep 60 >/dev/null 2>&1 & echo $!'
DIES_WITH_A_RECORD = """
import os, sys
from pathlib import Path
from overnight.executors import records, tree
folder, scratch = map(Path, sys.argv[1:3])
record = records.write(folder, {"sid": "s", "runner": "r1"}, scratch, "")
tree.Place(scratch, None).make()
print(record.token, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def janitor(tmp_path: Path) -> Janitor:
    folder = tmp_path / "locks"
    folder.mkdir()
    return Janitor(folder, tmp_path / "no-cgroups")


@contextmanager
def orphan(token: str) -> Iterator[int]:
    """A process that carries *token* and whose starter is dead."""
    started = subprocess.run(["sh", "-c", ORPHANED, token], stdout=subprocess.PIPE, check=True)
    pid = int(started.stdout)
    try:
        yield pid
    finally:
        if _lives(pid):
            os.kill(pid, 9)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _token_of_the_dead(folder: Path) -> str:
    """As a process that is dead by now would have made it."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    return f"{records.folder_mark(folder)}{gone.pid:08x}{os.urandom(8).hex()}"


def _killed_runner(janitor: Janitor, scratch: Path) -> str:
    words = [sys.executable, "-c", DIES_WITH_A_RECORD, str(janitor.folder), str(scratch)]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def test_any_dead_runners_sandbox_is_ended_by_whoever_looks(
    janitor: Janitor, tmp_path: Path
) -> None:
    """Also of a slot and a session that nobody serves any more."""
    token = _killed_runner(janitor, tmp_path / "scratch")
    with orphan(token) as pid:
        assert janitor.sweep({"sid": "another"}).ended == 0
        assert _lives(pid)
        assert janitor.sweep({}).ended == 1
        assert not _lives(pid)

    assert not (tmp_path / "scratch").exists()
    assert list(janitor.folder.iterdir()) == []


def test_a_damaged_record_still_names_its_processes(janitor: Janitor) -> None:
    token = _token_of_the_dead(janitor.folder)
    for text in ("", "{", "[1]", '{"labels": 1, "scratch": 2, "token": 3, "own": 4}', "\0" * 70000):
        record = janitor.folder / f"sandbox-{token}.json"
        record.write_text(text)
        with orphan(token) as pid:
            assert janitor.sweep({"sid": "s"}).ended == 0
            assert janitor.sweep({}).ended == 1
            assert not _lives(pid)
        assert not record.exists()


def test_a_process_of_ours_without_a_record_is_ended(janitor: Janitor) -> None:
    with orphan(_token_of_the_dead(janitor.folder)) as pid:
        assert janitor.sweep({"sid": "s"}).ended == 0
        assert janitor.sweep({}).ended == 1
        assert not _lives(pid)


def test_what_a_living_owner_started_is_left_alone_even_without_its_record(
    janitor: Janitor,
) -> None:
    token = records.new_token(janitor.folder)
    child = subprocess.Popen([sys.executable, "-c", SLEEP, token], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert janitor.sweep({}).ended == 0
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()


def test_what_carries_another_folders_token_is_left_alone(janitor: Janitor, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with orphan(_token_of_the_dead(other)) as pid:
        assert janitor.sweep({}).ended == 0
        assert _lives(pid)


def test_a_record_that_a_living_owner_holds_is_counted_and_left(
    janitor: Janitor, tmp_path: Path
) -> None:
    record = records.write(janitor.folder, {"sid": "s"}, tmp_path / "scratch", "")
    (tmp_path / "scratch").mkdir(mode=0o700)
    swept = [janitor.sweep({"sid": "s"}), janitor.sweep({})]

    assert [(s.ended, s.held) for s in swept] == [(0, 1), (0, 1)]
    assert (tmp_path / "scratch").exists()
    record.remove()


def test_garbage_in_the_record_folder_harms_nothing(janitor: Janitor, tmp_path: Path) -> None:
    folder, dead = janitor.folder, _token_of_the_dead(janitor.folder)
    for number in range(300):
        (folder / f"garbage-{number}").write_bytes(os.urandom(20))
    os.mkfifo(folder / f"sandbox-{'a' * 32}.json")
    (folder / f"sandbox-{'b' * 32}.json").symlink_to("/etc/passwd")
    (folder / f"sandbox-{'c' * 32}.json").mkdir()
    (folder / "sandbox-not-a-token.json").write_text("{}")
    (folder / f"new-{dead}").write_text("")
    (folder / f"probe-{int(dead[8:16], 16)}-x" / "deep").mkdir(parents=True)
    mine = folder / f"new-{records.new_token(folder)}"
    mine.write_text("")
    before = len(list(folder.iterdir()))

    assert janitor.sweep({}).ended == 0
    assert len(list(folder.iterdir())) == before - 2, "a dead runner's half-made things go"
    assert mine.exists()
    assert Path("/etc/passwd").stat().st_size


def test_a_record_that_points_at_a_folder_of_somebody_removes_nothing(
    janitor: Janitor, tmp_path: Path
) -> None:
    _killed_runner(janitor, tmp_path / "home")
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    janitor.sweep({})

    assert (tmp_path / "home" / "thesis.tex").exists()
    assert list(janitor.folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_nothing_is_removed_through_a_mount(janitor: Janitor, tmp_path: Path) -> None:
    _killed_runner(janitor, tmp_path / "scratch")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").write_text("data")
    mount = ["mount", "--bind", str(tmp_path / "precious"), str(tmp_path / "scratch" / "work")]
    subprocess.run(mount, check=True)
    try:
        assert tree.mounts_below(tmp_path / "scratch") == [str(tmp_path / "scratch" / "work")]
        janitor.sweep({})
    finally:
        subprocess.run(["umount", str(tmp_path / "scratch" / "work")], check=True)

    assert (tmp_path / "precious" / "data").read_text() == "data"


def test_what_can_not_be_ended_is_stuck_and_tried_again(
    janitor: Janitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process of another user, which our signals don't reach."""
    token = _killed_runner(janitor, tmp_path / "scratch")
    with orphan(token) as pid:
        with monkeypatch.context() as patched:
            patched.setattr("overnight.executors.survivors.END_SECONDS", 0.1)
            patched.setattr("os.kill", lambda *_: (_ for _ in ()).throw(PermissionError()))
            (stuck,) = janitor.sweep({"runner": "r1"}).stuck
        assert stuck.pids == (pid,)
        assert stuck.labels["sid"] == "s"
        assert (tmp_path / "scratch").exists()
        assert janitor.sweep({"runner": "r1"}).ended == 1

    assert list(janitor.folder.iterdir()) == []
