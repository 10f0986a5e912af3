"""A runner's process group dies with it, however it ends; a killed leader is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from overnight.executors.lifeguard import Lifeguard

DRIVER = """
import subprocess, sys, time
from overnight.executors.lifeguard import Lifeguard
guard = Lifeguard()
child = subprocess.Popen(["sleep", sys.argv[1]], process_group=guard.group())
print(child.pid, guard.group(), flush=True)
time.sleep(60)
"""


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def test_what_the_kernel_does_not_tie_dies_with_a_killed_runner() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, "61.25"], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    pids = [int(word) for word in driver.stdout.readline().split()]
    assert all(_alive(pid) for pid in pids)
    driver.kill()
    driver.wait()
    driver.stdout.close()
    until = time.monotonic() + 2
    while any(_alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.005)

    assert not any(_alive(pid) for pid in pids)


def test_a_killed_leader_is_replaced_and_closing_ends_the_group() -> None:
    guard = Lifeguard()
    first = guard.group()
    assert guard.group() == first
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 5
    while _alive(first) and time.monotonic() < until:
        time.sleep(0.005)
    second = guard.group()
    assert second != first
    child = subprocess.Popen(["sleep", "61.5"], process_group=second)
    guard.close()

    assert child.wait(5) == -signal.SIGKILL
    assert not _alive(second)
