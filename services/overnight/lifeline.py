"""How a service lives and dies: told to end by a signal, ended with its supervisor, ready once."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from types import FrameType

import structlog

from overnight import telemetry
from overnight.contracts.errors import OvernightError

log = structlog.get_logger()

_PR_SET_PDEATHSIG = 1


@dataclass
class Lifeline:
    """One process's life. `ending` is set by SIGTERM or SIGINT."""

    ending: Event = field(default_factory=Event)
    signals: int = 0

    def should_stop(self) -> bool:
        """Was this process asked to end?"""
        return self.ending.is_set()

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT ask for an end; SIGHUP (a lost terminal) is ignored."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1
        self.ending.set()


def die_with_parent(lifeline_fd: int | None, on_lost: Callable[[], None] | None = None) -> None:
    """End this process as soon as its supervisor is gone, however that went.

    lifeline_fd: read end of a pipe whose write end only the supervisor holds; None: no supervisor.
    on_lost: called first, to end what would outlive us where the kernel doesn't see to it.
    """
    if lifeline_fd is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.read(lifeline_fd, 1):
            pass
        if on_lost is not None:
            on_lost()
        os._exit(1)

    Thread(target=watch, name="lifeline", daemon=True).start()


def say_ready(ready_fd: int | None, **details: object) -> None:
    """Tell the supervisor, once, that this service works; *details* go into stack.json."""
    if ready_fd is None:
        return
    try:
        os.write(ready_fd, json.dumps(details).encode() + b"\n")
    except OSError:
        return  # the supervisor is gone: the lifeline says so


def say_waiting(ready_fd: int | None, why: str | None) -> None:
    """Tell the supervisor what this service waits for; None when it works again."""
    if ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(ready_fd, json.dumps({"waiting": why}).encode() + b"\n")


def run_service(
    name: str, lifeline_fd: int | None, serve: Callable[[Lifeline], int], slot: str | None = None
) -> int:
    """A service's main: logs, signals and supervisor set up, our errors as exit codes."""
    telemetry.configure(name if slot is None else f"{name}-{slot}")
    life = Lifeline()
    life.catch_signals()
    die_with_parent(lifeline_fd)
    try:
        return serve(life)
    except OvernightError as error:
        log.error("service_failed", reason=str(error))
        return error.exit_code
