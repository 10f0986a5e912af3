"""Ends half-started sandboxes of a killed runner: what the kernel's own ties do not reach yet.

Bubblewrap's first process waits for its parent before anything binds it to that parent's life. If
the parent is killed in these few hundred microseconds, it waits for ever. So all of a runner's
bubblewraps stand in one process group, whose leader does nothing but wait for the runner's end and
then kill the group. A sandbox that runs has left the group's session; its own ties end it.
"""

from __future__ import annotations

import os
import subprocess
import threading

_WATCH = "read -r nothing; kill -KILL 0"


class Lifeguard:
    """One process group that dies with this process, however it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leader: subprocess.Popen[bytes] | None = None
        self._lifeline = -1  #: write end: closed by the kernel when we are gone

    def group(self) -> int:
        """The group to start in. Its leader is started again if somebody killed it."""
        with self._lock:
            if self._leader is None or self._leader.poll() is not None:
                self._start()
            assert self._leader is not None
            return self._leader.pid

    def close(self) -> None:
        """End the group now. Idempotent."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        lifeline, self._lifeline = os.pipe()
        try:
            self._leader = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH],
                stdin=lifeline,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                process_group=0,
            )
        finally:
            os.close(lifeline)

    def _end(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._leader is not None:
            self._leader.wait()
            self._leader = None

    def __del__(self) -> None:
        self._end()
