"""A session whose supervisor runs in the background, without a terminal: started and ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence

from overnight.contracts.errors import InfrastructureError, OvernightError
from overnight.contracts.status import ControlAction
from overnight.sessions.locate import Found
from overnight.sessions.stack import ask, read_stack, wait_until_gone

START_SECONDS = 60.0
KILL_GRACE_SECONDS = 15.0


class FailedToStartError(OvernightError):
    """The background process ended before it was ready; carries its own words and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[FailedToStartError], tuple[str, int]]:
        return type(self), (str(self), self.exit_code)


def start(argv: Sequence[str], timeout_seconds: float = START_SECONDS) -> int | None:
    """Start *argv* (a `run`) in a session of its own and wait until its services work.

    It gets `--ready-fd N` and must write to it once. Returns its pid; None when its run was over
    before that, since there was nothing left to do.

    Raises:
        FailedToStartError: it refused; with its message.
        InfrastructureError: it is not ready in time, and was ended.
    """
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as words:
        try:
            child = subprocess.Popen(
                [*argv, "--ready-fd", str(write_end)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                pass_fds=(write_end,),
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        try:
            return _until_ready(child, read_end, words.fileno(), timeout_seconds)
        finally:
            os.close(read_end)


def _until_ready(
    child: subprocess.Popen[bytes], read_end: int, words: int, timeout_seconds: float
) -> int | None:
    readable, _, _ = select.select([read_end], [], [], timeout_seconds)
    if readable and os.read(read_end, 16):
        child.returncode = 0  # it outlives us on purpose
        return child.pid
    if readable:
        try:
            code = child.wait(KILL_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            code = 3
        if code == 0:
            return None
        raise FailedToStartError(_said(words), code if code > 0 else 3)
    child.terminate()
    try:
        child.wait(KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    raise InfrastructureError(f"the services did not come up in {timeout_seconds:g} s")


def _said(words: int) -> str:
    data = os.pread(words, 64 * 1024, 0).decode(errors="replace").strip()
    last = data.splitlines()[-1] if data else "it ended without a word"
    return last.removeprefix("overnight: ")


def down(found: Found, timeout_seconds: float) -> bool:
    """End the stack of a session: what runs is cancelled and runs again with the next start.

    False when none runs. Asked through the ledger first; a stack that does not answer is ended
    by signals.

    Raises:
        InfrastructureError: it is still there.
    """
    stack = read_stack(found.files)
    if stack is None:
        return False
    if stack.pid == 0:
        raise InfrastructureError("this session runs as services: end them by docker compose down")
    deadline = time.monotonic() + timeout_seconds
    try:
        ask(stack.redis_url, found.sid, ControlAction.STOP, why="down", by="cli")
        wait_until_gone(found.files, max(0.0, deadline - time.monotonic()))
    except OvernightError:
        _end_by_signals(found)
    return True


def _end_by_signals(found: Found) -> None:
    for _ in range(2):  # the second one kills
        stack = read_stack(found.files)
        if stack is None or not _holds_session(found, stack.pid):
            return
        os.kill(stack.pid, signal.SIGTERM)
        time.sleep(0.2)
    wait_until_gone(found.files, KILL_GRACE_SECONDS)


def _holds_session(found: Found, pid: int) -> bool:
    """Is it the supervisor still, not somebody who got its number?"""
    try:
        return found.files.session_lock.read_text().strip() == str(pid)
    except OSError:
        return False
