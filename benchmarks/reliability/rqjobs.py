"""What an rq user's worker runs: a training script with a time limit, its metric into a file.

Two ways that people write it; both end the script at the deadline and report that it was too slow.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence


def train(id: int, command: Sequence[str], folder: str, deadline_seconds: float) -> str:
    """The short way: subprocess.run with a timeout."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=deadline_seconds,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _record(folder, id, "timeout")
    return _record(folder, id, _status(done.returncode, done.stdout))


def train_in_group(id: int, command: Sequence[str], folder: str, deadline_seconds: float) -> str:
    """The careful way: a process group of its own, output to a file, the group is killed."""
    late = False
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:  # also when rq's own job_timeout strikes
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what a finished script left behind
            process.wait()
        log.seek(0)
        status = "timeout" if late else _status(process.returncode, log.read())
    return _record(folder, id, status)


def _status(code: int, output: str) -> str:
    found = re.search(r"^val_bpb: (\S+)$", output, re.M)
    return found[1] if code == 0 and found else "crash"


def _record(folder: str, id: int, status: str) -> str:
    """One line, on the disk before it is said."""
    with open(os.path.join(os.path.dirname(folder), "results.tsv"), "a") as file:
        file.write(f"{id}\t{status}\n")
        file.flush()
        os.fsync(file.fileno())
    return status
