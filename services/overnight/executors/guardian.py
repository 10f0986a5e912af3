"""Runs one command where a host gives no namespaces, and ends all of it. Stands alone: stdlib only.

Started as `python -I -S guardian.py GATE STATUS NAME`. On GATE comes one JSON line, then silence:
its end of file means that the runner is gone or wants an end. On Linux every orphan of the command
becomes our child, so that a double fork does not escape; elsewhere what left the process group
is found by walking the process table. It confines nothing else: it is no sandbox.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any

SET_CHILD_SUBREAPER = 36
PATIENCE_SECONDS = 5.0


def main() -> None:
    """Wait for the order, run it, end everything, report."""
    gate, status = int(sys.argv[1]), int(sys.argv[2])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, waker = os.pipe()
    for descriptor in (wake, waker):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with os.fdopen(gate, "rb", buffering=0) as lifeline:
        line = lifeline.readline()
        if not line.endswith(b"\n"):
            return  # the runner died before it let us begin
        order = json.loads(line)
        child = start(order)
        began = time.monotonic()
        code = watch(child, lifeline.fileno(), wake, began + order["seconds"])
        seconds = time.monotonic() - began
    end_all()
    if code is not None:
        ending = {"signal": -code} if code < 0 else {"exit-code": code}
        report(status, {**ending, "seconds": seconds})


def start(order: dict[str, Any]) -> int:
    """The command's process."""

    def limit() -> None:
        for name, wanted in order["limits"].items():
            what = getattr(resource, name)
            hardest = resource.getrlimit(what)[1]
            value = wanted if hardest == resource.RLIM_INFINITY else min(wanted, hardest)
            resource.setrlimit(what, (value, value))

    try:
        return subprocess.Popen(
            order["command"], cwd=order["cwd"], env=order["env"], stdin=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=limit,
        ).pid  # fmt: skip
    except OSError as error:
        # Said and counted as a shell does it: the command is the candidate's affair.
        sys.stderr.write(f"{order['command'][0]}: {error.strerror}\n")
        sys.stderr.flush()
        return os.posix_spawn("/bin/sh", ["sh", "-c", "exit 127"], {})


def watch(child: int, lifeline: int, wake: int, until: float) -> int | None:
    """The command's code, negative for a signal; None when we are to end it."""
    while True:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    return os.waitstatus_to_exitcode(found[1])
        left = until - time.monotonic()
        if left <= 0:
            return -signal.SIGKILL
        ready, _, _ = select.select([lifeline, wake], [], [], left)
        if lifeline in ready:
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)


def end_all() -> None:
    """SIGKILL all descendants until none is left: with orphans ours, no child means none."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        pids = below(os.getpid())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if not pids:
                return
        time.sleep(0.002)


def below(top: int) -> list[int]:
    """All live descendants."""
    children: dict[int, list[int]] = {}
    for pid, parent in table():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = list(children.get(top, ()))
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, ())
    return found


def table() -> list[tuple[int, int]]:
    """(pid, parent) of every process that is not yet dead."""
    if sys.platform != "linux":
        text = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True).stdout
        return [(int(a), int(b)) for a, b in (line.split() for line in text.splitlines())]
    rows = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    rows.append((int(name), int(fields[1])))
    return rows


def report(status: int, line: dict[str, float]) -> None:
    """One JSON line for whoever started us."""
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main()
