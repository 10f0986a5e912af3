"""The embedded tree: Redis, recorder, orchestrator and runners as children of one supervisor."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from types import FrameType

import structlog

from overnight.children import Child, ChildSpec
from overnight.configuration import (
    RedisCandidate,
    SupervisorSettings,
    load_settings,
    redis_source,
    socket_dir,
)
from overnight.contracts.errors import ConfigError, InfrastructureError, OvernightError
from overnight.contracts.rows import Row, SessionClosed
from overnight.contracts.status import ControlAction
from overnight.faultpoints import Step, reach
from overnight.ledger.fold import RunState, SessionState
from overnight.ledger.reader import LedgerTail
from overnight.plugins import EXECUTORS, load
from overnight.sessions.asking import Asking
from overnight.sessions.opening import Opened
from overnight.sessions.services import needs_spawner, runner_words, spawner_words
from overnight.sessions.stack import (
    Stack,
    ask,
    file_identity,
    fresh_socket_folder,
    hold_socket_folder,
    remove_socket_folder,
)
from overnight.sessions.targets import Targets

log = structlog.get_logger()

TICK_SECONDS = 0.05
ASK_AGAIN_SECONDS = 0.2
SERVICE_ENTRY = (sys.executable, "-m")  #: followed by a service's module; tests have their own
ROOT_LOOK_SECONDS = 1.0  #: between two looks whether the session's folder is where it was
GRACE_SECONDS = 5.0  #: from SIGTERM to SIGKILL when the tree is taken down


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """Who is told what happens. Called from the supervisor's only thread; must not block."""

    on_row: Callable[[Row, SessionState], None]
    on_event: Callable[[str, Mapping[str, object]], None]  #: name, fields
    on_tick: Callable[[SessionState], None] = lambda state: None


class Supervisor:
    """Runs one opened session until its run is over. `run` must be called from the main thread."""

    def __init__(self, opened: Opened, watcher: Watcher, environ: Mapping[str, str]) -> None:
        self._opened = opened
        self._files = opened.files
        self._watcher = watcher
        self._settings = load_settings(SupervisorSettings, environ)
        self._targets = Targets(self._settings.targets_dir, opened.sid)
        self._redis: RedisCandidate = redis_source(environ)
        self._sockets = socket_dir(environ)
        self._children: dict[str, Child] = {}
        self._tail = LedgerTail(opened.files.ledger)
        self.state = SessionState()
        self._interrupts = 0
        self._answered = 0
        self._give_up_at = math.inf
        self._root_look_at = 0.0
        self._socket_dir: Path | None = None
        self._socket_lock: int | None = None
        self._unwritten = False  #: what stands in stack.json is older than what is known
        self._stack: Stack | None = None
        self._start_seq = opened.state.seq
        self._contained = needs_spawner(opened.config.pools["default"].executor)

    def run(self) -> SessionClosed | None:
        """Start all, watch all, end all. The closing row, None when it was killed.

        Raises:
            InfrastructureError: a service keeps dying, or there is no Redis; names why.
            ConfigError: a service refuses its settings; names which.
        """
        read_end, write_end = os.pipe()
        previous = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
        hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            reach(Step.SUPERVISOR_OPENED)
            if not self._start(read_end):
                self._watcher.on_event("killed", {})
                return None
            return self._watch()
        finally:
            self._end_all()
            os.close(write_end)
            os.close(read_end)
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.signal(signal.SIGHUP, hangup)

    # -- starting -------------------------------------------------------------------------------

    def _start(self, lifeline: int) -> bool:
        """All of it; False when it was interrupted before anything could run."""
        try:
            self._files.service_logs.mkdir(exist_ok=True)
        except OSError as error:
            raise InfrastructureError(f"{self._files.service_logs}: {error.strerror}") from error
        self._sweep()
        url = self._redis.url or self._prepare_redis(lifeline)
        self._stack = Stack(
            pid=os.getpid(), redis_url=url, lock=file_identity(self._files.session_lock)
        )
        # A pool of its own: on a shared Redis no other session's runner may take its jobs.
        own_pool = f"default-{self._opened.sid}"
        common = ("--dir", str(self._files.root), "--redis", url, "--pool", own_pool)
        self._add("recorder", ("recorder", *common), lifeline)
        for child in self._children.values():
            child.start()
        closed = self._opened.state.run_state is not RunState.RUNNING
        if self._opened.resumed and closed and not self._resume(url):
            return False
        self._add("orchestrator", ("orchestrator", *common), lifeline)
        spawner = self._prepare_spawner(lifeline) if self._contained else None
        for name, words in runner_words(self._opened, common, spawner):
            self._add(name, words, lifeline)
        for child in self._children.values():
            if child.process is None:
                child.start()
                reach(Step.SUPERVISOR_CHILD)
        self._write_stack()
        reach(Step.SUPERVISOR_STACK)
        return True

    def _resume(self, url: str) -> bool:
        """Before the orchestrator, which would find the run over. False when interrupted."""
        wish = partial(ask, url, self._opened.sid, ControlAction.RESUME, by="run")
        asking = Asking(partial(wish, deadline_seconds=math.inf))
        while not asking.done:
            if self._interrupts:
                return False
            self._tend()
            time.sleep(TICK_SECONDS)
        asking.check()
        return True

    def _add(self, name: str, words: tuple[str, ...], lifeline: int) -> None:
        argv = (*SERVICE_ENTRY, f"overnight.{words[0]}", *words[1:])
        self._children[name] = self._child(ChildSpec(name=name, argv=argv), lifeline)

    def _child(self, spec: ChildSpec, lifeline: int) -> Child:
        return Child(
            spec=spec,
            log_path=self._files.service_logs / f"{spec.name}.log",
            lifeline=lifeline,
            backoff_seconds=self._settings.backoff_seconds,
            backoff_max_seconds=self._settings.backoff_max_seconds,
        )

    def _prepare_redis(self, lifeline: int) -> str:
        """A private server on a unix socket in a short folder: a socket's path has 108 bytes."""
        folder = self._socket_folder()
        socket = folder / "redis.sock"
        argv = (
            str(self._redis.binary), "--port", "0", "--unixsocket", str(socket),
            "--unixsocketperm", "600", "--save", "", "--appendonly", "no",
            "--maxmemory-policy", "noeviction", "--dir", str(folder),
        )  # fmt: skip
        reach(Step.SUPERVISOR_REDIS)
        spec = ChildSpec(name="redis", argv=argv, service=False)
        self._children["redis"] = self._child(spec, lifeline)
        return f"unix://{socket}?db=0"

    def _prepare_spawner(self, lifeline: int) -> Path:
        """The only one of the tree that reaches the container engine."""
        socket = self._socket_folder() / "spawner.sock"
        self._add("spawner", spawner_words(self._opened, socket), lifeline)
        return socket

    def _socket_folder(self) -> Path:
        if self._socket_dir is None:
            self._socket_dir = fresh_socket_folder(self._sockets, self._opened.sid)
            self._socket_lock = hold_socket_folder(self._socket_dir)
        return self._socket_dir

    # -- watching -------------------------------------------------------------------------------

    def _watch(self) -> SessionClosed | None:
        while True:
            self._fold()
            self._watcher.on_tick(self.state)
            if self._interrupts != self._answered:
                self._answered = self._interrupts
                if self._interrupts > 1:
                    self._watcher.on_event("killed", {})
                    return None
                self._watcher.on_event("stopping", {})
                self._give_up_at = time.monotonic() + self._settings.stop_seconds
                Thread(target=self._ask_to_stop, daemon=True).start()
            if self._stops_in_vain():
                self._watcher.on_event("killed", {})
                return None
            over = self._tend()
            if over:
                self._fold()
                return self._closing()
            time.sleep(TICK_SECONDS)

    def _stops_in_vain(self) -> bool:
        """Asked to stop, and no row can say so (Redis or the disk is away): it ends all the same,
        and what runs is run again with the next start."""
        recorded = self.state.run_state in (RunState.STOPPING, RunState.CLOSED)
        return not recorded and time.monotonic() > self._give_up_at

    def _fold(self) -> None:
        for row in self._tail.rows():
            self.state.apply(row)
            if row.seq > self._start_seq:
                self._watcher.on_row(row, self.state)

    def _closing(self) -> SessionClosed | None:
        if self.state.closed is None:
            raise InfrastructureError("the orchestrator ended, but the session is not closed")
        return self.state.closed

    def _ask_to_stop(self) -> None:
        """In a thread: the recorder may need a moment, and the tree must be tended meanwhile."""
        assert self._stack is not None  # started
        wish = partial(ask, self._stack.redis_url, self._opened.sid, ControlAction.STOP)
        while self.state.closed is None:
            try:
                wish(why="interrupted", by="run", deadline_seconds=600.0)
            except OvernightError as error:
                # Before its first row the session can't take a wish: it is asked again.
                log.info("stop_not_taken", reason=str(error))
                time.sleep(ASK_AGAIN_SECONDS)
                continue
            return

    def _tend(self) -> bool:
        """Restart what died. True when the orchestrator says that the run is over."""
        changed = False
        if time.monotonic() >= self._root_look_at:  # services that hold their files open go on
            self._root_look_at = time.monotonic() + ROOT_LOOK_SECONDS
            self._check_root()
        for name, child in self._children.items():
            was_ready, waited = child.ready, child.waiting
            code = child.poll()
            if child.waiting != waited:
                self._watcher.on_event("waiting", {"service": name, "why": child.waiting})
            changed |= (child.ready, child.waiting) != (was_ready, waited)
            if code is None:
                if child.due():
                    self._check_root()
                    child.start()
                    changed = True
                continue
            changed = True
            if name == "orchestrator" and code in (0, 1):
                return True
            self._died(name, child, code)
        if changed or self._unwritten:
            self._write_stack()
        return False

    def _check_root(self) -> None:
        if not (self._files.identity.exists() or self._files.ledger.exists()):
            raise InfrastructureError(
                f"{self._files.root} is gone: it was moved or removed while the session ran; "
                "put it back, or go on from where it lies with `overnight run`"
            )

    def _died(self, name: str, child: Child, code: int) -> None:
        limit = self._settings.crash_loop
        if child.early_deaths >= limit or child.quick_failures >= 2 * limit:
            self._check_root()
            times = max(child.early_deaths, child.quick_failures)
            reason = child.last_reason() or f"exit code {code}"
            raise InfrastructureError(f"{name} died {times} times in a row: {reason}")
        if code == ConfigError.exit_code:
            raise ConfigError(child.last_reason() or f"{name} ended with exit code {code}")
        log.warning("child_died", name=name, code=code)
        reach(Step.SUPERVISOR_DIED)
        self._watcher.on_event("restarted", {"service": name, "code": code})
        child.restart_later()
        if code != -signal.SIGKILL:  # by itself: whoever asks for the status is told why
            child.waiting = f"it died and is started again: {child.last_reason() or code}"

    def _write_stack(self) -> None:
        stack = self._stack
        if stack is None:
            return
        stack.children = {n: c.pid for n, c in self._children.items() if c.pid is not None}
        stack.waiting = {n: c.waiting for n, c in self._children.items() if c.waiting}
        for name, child in self._children.items():
            if child.details.get("metrics"):
                stack.endpoints[name] = child.details["metrics"]
            if child.details.get("isolation"):
                stack.isolation = child.details["isolation"]
        self._targets.tell(stack.endpoints)
        try:
            stack.write(self._files)
            self._unwritten = False
        except OSError as error:
            if not self._unwritten:
                log.warning("stack_not_written", reason=str(error))
            self._unwritten = True  # with the next look: else `status` would never say who waits

    @property
    def endpoints(self) -> dict[str, str]:
        """Metric endpoints by service."""
        return dict(self._stack.endpoints) if self._stack else {}

    @property
    def isolation(self) -> str | None:
        """What the runners' sandboxes give; None until one is ready."""
        return self._stack.isolation if self._stack else None

    @property
    def ready(self) -> bool:
        """All services work."""
        return bool(self._children) and all(c.ready for c in self._children.values())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1

    # -- ending ---------------------------------------------------------------------------------

    def _end_all(self) -> None:
        """SIGTERM, what depends first; SIGKILL after the grace, at once when interrupted twice."""
        reach(Step.SUPERVISOR_ENDING)
        grace = 0.0 if self._interrupts > 1 else GRACE_SECONDS
        last: list[str] = [n for n in ("spawner", "recorder", "redis") if n in self._children]
        for names in ([n for n in self._children if n not in last], last):
            for name in names:
                self._children[name].signal(signal.SIGTERM if grace else signal.SIGKILL)
            self._reap(names, grace)
        self._sweep()
        reach(Step.SUPERVISOR_ENDED)
        if self._socket_dir is not None:
            remove_socket_folder(self._socket_dir)
        if self._socket_lock is not None:
            os.close(self._socket_lock)
        self._targets.forget()
        try:
            self._files.stack.unlink(missing_ok=True)
        except OSError as error:  # it says that a dead process runs, which nobody believes
            log.warning("stack_not_removed", reason=str(error))

    def _sweep(self) -> None:
        """End what dead runners of this session left on this host; each runner looks, too."""
        if self._contained:
            return  # the spawner does, when it starts and when it ends
        try:
            executor = load(EXECUTORS, self._opened.config.pools["default"].executor)({})
            swept = executor.reconcile({"sid": self._opened.sid})
        except OvernightError as error:
            log.warning("leftovers_not_looked_for", reason=str(error))
            return
        if swept.ended or swept.stuck:
            stuck = [left.reason for left in swept.stuck]
            log.warning("leftovers_ended", sandboxes=swept.ended, stuck=stuck)

    def _reap(self, names: list[str], grace: float) -> None:
        deadline = time.monotonic() + grace
        for name in names:
            child = self._children.get(name)
            process = child.process if child else None
            if process is None:
                continue
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            if process.poll() is None:
                process.kill()
                process.wait()
