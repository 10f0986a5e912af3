"""How a service lives and dies: told to end by a signal, ended with its supervisor, ready once."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import TypeVar

import structlog

from overnight import telemetry
from overnight.contracts.errors import InfrastructureError, OvernightError

log = structlog.get_logger()

_PR_SET_PDEATHSIG = 1
HANG_EXIT_CODE = BUG_EXIT_CODE = 3  #: of ours, to be started again
RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)  #: when disk or Redis refuse; the last one repeats

T = TypeVar("T")


class Watchdog:
    """Ends this process when its main thread has stood still for too long, so that it is started
    again: a service that hangs answers no one and looks alive.

    It counts its own ticks and not a clock: while the whole process is stopped, or its host sleeps,
    nothing is held against it. What holds the interpreter's lock for ever escapes it.
    """

    def __init__(self, patience_seconds: float, bite: Callable[[], None] | None = None) -> None:
        self._patience = patience_seconds
        self._extra = 0.0
        self._silent = 0.0
        self._bite = bite or _end_hanging
        Thread(target=self._watch, name="watchdog", daemon=True).start()

    def beat(self) -> None:
        """The main thread goes on."""
        self._silent = 0.0

    @contextlib.contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """What is done inside may take *seconds* more without a word."""
        self._extra = seconds
        try:
            yield
        finally:
            self._silent = self._extra = 0.0

    def allow(self, seconds: float) -> None:
        """A new step begins inside `patient`, which may take *seconds* more."""
        self._extra, self._silent = seconds, 0.0

    def _watch(self) -> None:
        tick = min(1.0, self._patience / 10)
        never = Event()
        while not never.wait(tick):
            self._silent += tick
            if self._silent > self._patience + self._extra:
                self._bite()
                return


def _end_hanging() -> None:
    frame = sys._current_frames().get(main_thread().ident or 0)
    where = [line.strip() for line in traceback.format_stack(frame)][-8:]
    log.error("service_hangs", reason="it stood still for too long", where=where)
    os._exit(HANG_EXIT_CODE)


class Bell:
    """A signal handler that calls *ring* from a thread of its own, once or more often a signal.

    A handler runs between any two steps of the main thread, so that it must take no lock which that
    thread, or the handler of a signal before, may hold: `Event.set` in one hangs now and then.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        Thread(target=self._work, name="bell", daemon=True).start()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        with contextlib.suppress(BlockingIOError):  # full: it rings anyway
            os.write(self._writer, b"!")

    def close(self) -> None:
        """No more signals come; the thread ends."""
        os.close(self._writer)

    def _work(self) -> None:
        while os.read(self._reader, 64):
            self._ring()
        os.close(self._reader)


@dataclass
class Lifeline:
    """One process's life. `ending` is set by SIGTERM or SIGINT."""

    ending: Event = field(default_factory=Event)
    signals: int = 0
    watchdog: Watchdog | None = None

    def watch(self, patience_seconds: float) -> None:
        """From now on the main thread must ask `should_stop` at least that often."""
        self.watchdog = Watchdog(patience_seconds)

    def patient(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """Inside, the main thread may be silent for *seconds* longer."""
        if self.watchdog is None:
            return contextlib.nullcontext()
        return self.watchdog.patient(seconds)

    def allow(self, seconds: float) -> None:
        """Inside `patient`, a new step begins, which may be silent for *seconds* longer."""
        if self.watchdog is not None:
            self.watchdog.allow(seconds)

    def should_stop(self) -> bool:
        """Was this process asked to end? Asked from the main thread, it is a sign of life."""
        if self.watchdog is not None and current_thread() is main_thread():
            self.watchdog.beat()
        return self.ending.is_set()

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT ask for an end; SIGHUP (a lost terminal) is ignored."""
        bell = Bell(self._told)
        signal.signal(signal.SIGTERM, bell)
        signal.signal(signal.SIGINT, bell)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _told(self) -> None:
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


def end_with_parent(life: Lifeline, lifeline_fd: int | None) -> None:
    """As `die_with_parent`, for a service that has to tidy up first: it is asked to end."""
    if lifeline_fd is None:
        return
    if sys.platform == "linux":  # what starts it has tied it to its life
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, 0)

    def watch() -> None:
        while os.read(lifeline_fd, 1):
            pass
        life.ending.set()

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


class Patience:
    """Waits out what may mend itself (a full disk, Redis away), longer each time, and says so."""

    def __init__(self, life: Lifeline, ready_fd: int | None) -> None:
        self._life = life
        self._ready_fd = ready_fd
        self._failures = 0
        self._said: str | None = None  #: the reason that a user was told last

    def wait(self, error: InfrastructureError) -> None:
        """It failed (again). The first time is no news to a user: it may be over at once."""
        if self._failures == 0:
            log.warning("service_waits", reason=str(error))
        elif str(error) != self._said:
            self._said = str(error)
            say_waiting(self._ready_fd, self._said)
        self._life.ending.wait(RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)])
        self._failures += 1

    def over(self) -> None:
        """It works (again)."""
        if self._failures > 1:
            log.info("service_goes_on", failures=self._failures)
            say_waiting(self._ready_fd, None)
        self._failures, self._said = 0, None

    def until_done(self, work: Callable[[], T]) -> T | None:
        """The first answer of *work*; None when this process was asked to end before."""
        while not self._life.should_stop():
            try:
                answer = work()
            except InfrastructureError as error:
                self.wait(error)
                continue
            self.over()
            return answer
        return None


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
    except Exception as error:  # noqa: BLE001 - the process's edge: exit 1 would mean a bad result
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        log.error("service_bug", where=traceback.format_exc()[-4000:], reason=reason)
        return BUG_EXIT_CODE
