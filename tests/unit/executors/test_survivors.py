"""Live processes are found from outside, by namespace and by marker."""

from __future__ import annotations

import os
import subprocess
import sys

from overnight.executors import survivors

SLEEP = "import sys, time; print(flush=True); time.sleep(60)"


def test_a_marked_process_is_found_in_arguments_and_environment_until_it_is_ended() -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    processes = [
        subprocess.Popen([sys.executable, "-c", SLEEP, mark], stdout=subprocess.PIPE),
        subprocess.Popen([sys.executable, "-c", SLEEP], env={"MARK": mark}, stdout=subprocess.PIPE),
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    found = survivors.alive_with_marker(mark.encode())
    below = survivors.descendants(os.getpid())
    ended = survivors.end_all(mark.encode())
    left = survivors.alive_with_marker(mark.encode())
    for process in processes:
        process.communicate()

    assert sorted(found) == sorted(p.pid for p in processes)
    assert set(found) <= set(below)
    assert (ended, left) == (True, [])


def test_we_are_alive_in_our_own_namespace_and_not_in_another() -> None:
    mine = survivors.namespace_of(os.getpid())

    assert os.getpid() in survivors.alive_in_namespace(mine)
    assert survivors.alive_in_namespace((mine[0], 1)) == []
