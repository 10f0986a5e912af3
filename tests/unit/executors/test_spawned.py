"""The runner's side of a spawner that stands still: nobody waits twice, and it kills by itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from overnight.contracts.errors import SandboxAwayError, SandboxUnavailableError
from overnight.contracts.execution import SandboxSpec
from overnight.contracts.spawning import Done, Greet, Refused
from overnight.executors import frames
from overnight.executors.spawned import Spawned, SpawnerLine


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(str(tmp_path / "s"))
        made.listen()
        yield made


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one(
    listener: socket.socket, tmp_path: Path
) -> None:
    line = SpawnerLine(tmp_path / "s")
    theirs, _ = listener.accept()
    with theirs:
        with pytest.raises(SandboxAwayError, match="the spawner was lost"):
            line.ask(Greet(), seconds=0.05)
        frames.receive(theirs)
        with pytest.raises(OSError, match="pipe"):  # it has been told that nobody waits
            frames.send(theirs, Done())
        began = time.monotonic()
        with pytest.raises(SandboxAwayError, match="the spawner was lost: timed out"):
            line.ask(Greet(), seconds=20)

    assert time.monotonic() - began < 10


@pytest.mark.parametrize("away", [True, False])
def test_a_refusal_says_whether_waiting_may_help(
    listener: socket.socket, tmp_path: Path, away: bool
) -> None:
    line = SpawnerLine(tmp_path / "s")

    def refuse() -> None:
        theirs, _ = listener.accept()
        with theirs:
            frames.receive(theirs)
            frames.send(theirs, Refused(refused="no image", away=away))

    thread = threading.Thread(target=refuse)
    thread.start()
    with pytest.raises(SandboxUnavailableError, match="no image") as refused:
        line.ask(Greet())
    thread.join()
    line.close()

    assert isinstance(refused.value, SandboxAwayError) is away


def test_a_spawner_that_is_not_there_is_away(tmp_path: Path) -> None:
    with pytest.raises(SandboxAwayError, match="does not answer"):
        SpawnerLine(tmp_path / "nothing")


def test_a_spawner_that_stands_still_keeps_no_container_alive(
    listener: socket.socket, tmp_path: Path
) -> None:
    line = SpawnerLine(tmp_path / "s")
    spawned = Spawned(cast(SandboxSpec, None), line)
    line.close()
    with subprocess.Popen(["sleep", "60"]) as first:
        spawned._ended = os.pidfd_open(first.pid)

        spawned.kill()

        assert first.wait(5) == -signal.SIGKILL
        spawned.kill()  # again, of one that is gone
        os.close(spawned._ended)
