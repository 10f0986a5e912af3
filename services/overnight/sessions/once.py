"""One experiment of a tree as it lies, by the runner's own path. Only its figure is remembered."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock

from overnight import __version__, telemetry
from overnight.configuration import (
    ResolvedLoop,
    config_digest,
    resolve_command,
    resolve_loop,
    track_digest,
)
from overnight.configuration.candidate import candidate_env
from overnight.contracts import rows, wire
from overnight.contracts.errors import InfrastructureError, OvernightError
from overnight.contracts.execution import Sandbox
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import Role, RowKind, Status
from overnight.contracts.untrusted import strip_terminal
from overnight.ledger.chain import link
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.lock import hold
from overnight.ledger.stamp import utc_label
from overnight.lifeline import Bell
from overnight.orchestrator.deadlines import deadlines
from overnight.orchestrator.jobs import Launch, job_for, links_into
from overnight.orchestrator.policy import POLICY_VERSION, decide
from overnight.orchestrator.policy.requirements import objection
from overnight.plugins import EXECUTORS, load
from overnight.runner.attempt import run_attempt
from overnight.runner.lines import TAIL_LINES
from overnight.runner.specs import Bench
from overnight.sessions.devices import hold_now
from overnight.sessions.images import image_name, settled
from overnight.sessions.measured import remember
from overnight.sessions.preflight import check_plugins, check_prepared, check_sources
from overnight.sessions.spawning import executor_options
from overnight.snapshots.manifest import tree_digest
from overnight.snapshots.root import prepare_root
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.tree import check_editable, scan

FOLDER = ".overnight-once-"  #: beside sandbox_root, so on the same disk; removed at the end
TAIL_BYTES = 64 * 1024
RUNNER = "once"


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is about to run."""

    argv: tuple[str, ...]  #: as the bindings name it
    wall_seconds: float  #: killed then
    isolation: str
    network: str
    left_out: tuple[str, ...]  #: of the tree, each with its reason


@dataclass(frozen=True, kw_only=True)
class Once:
    """What came of it."""

    config: LoopConfig
    result: ExperimentResult
    decision: Decision  #: as of a session's baseline: keep, or what stands against it
    why: str  #: one line, where it is not good
    log_tail: str  #: last lines of what failed, terminal-safe

    @property
    def good(self) -> bool:
        """Could a session begin with it?"""
        return self.decision.verdict is Status.KEEP


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user asked for."""

    repo: Path
    flags: Mapping[str, object]
    environ: Mapping[str, str]
    track: Path | None = None


def run_once(wanted: Wanted, on_start: Callable[[Start], None]) -> Once:
    """Run the tree of a repository once, changes that are in no commit included.

    Call from the main thread.

    Raises:
        UsageError: bindings or repository are not right; names the fix. Nothing was run.
        InfrastructureError: it could not be run, or not to its end, by our fault.
        KeyboardInterrupt: it was told to end. Nothing is left running.
    """
    resolved = resolve_loop(
        wanted.repo, flags=wanted.flags, environ=wanted.environ, track=wanted.track
    )
    check_plugins(resolved.config)
    check_prepared(resolved)
    resolved = settled(resolved, wanted.environ, None)
    check_sources(resolved.repo, resolved.config.editable_files)
    command = resolve_command(resolved.repo, resolved.config, wanted.environ)
    launch = Launch(
        argv=command.argv,
        python=None if command.python is None else str(command.python),
        image=image_name(resolved.config),
        env=candidate_env(resolved.config, {}, resolved.config.seed),
        links=links_into(resolved.repo, resolved.config.reads),
    )
    with (
        _ending() as ending,
        hold_now(resolved.config, wanted.environ) as held,
        _folder(resolved.session_root, resolved.repo) as files,
        executor_options(
            resolved.config.pools["default"].executor,
            files.root,
            (files.root, resolved.session_root),
            wanted.environ,
        ) as options,
    ):
        executor = load(EXECUTORS, resolved.config.pools["default"].executor)(options)
        executor.reconcile({})  # what a killed runner, or another one of these, left on this host
        bench = Bench(
            files=files,
            folder=files.runner(RUNNER),
            executor=executor,
            runner=RUNNER,
            hardware=held.hardware,
            environ=wanted.environ,
            device=held.device,
            devices=held.gpus,
        )
        return _Experiment(resolved, launch, bench, ending).run(on_start)


@dataclass(frozen=True)
class _Experiment:
    """The one experiment of a session that is never written."""

    resolved: ResolvedLoop
    launch: Launch
    bench: Bench
    ending: _Ending

    def run(self, on_start: Callable[[Start], None]) -> Once:
        """Fold, run, decide: as the services do it, in memory."""
        state, left_out = self._issued()
        job = job_for(state, 1, self.launch)
        self.ending.check()
        on_start(
            Start(
                argv=self.resolved.config.run_cmd,
                wall_seconds=job.wall_seconds,
                isolation=self.bench.executor.isolation,
                network=job.network,
                left_out=left_out,
            )
        )
        result = run_attempt(self.bench, job, self.ending.attach)
        self.ending.check()
        if result.status in (Status.INFRA, Status.CANCELLED):
            raise InfrastructureError(f"{result.reason or result.status.value}: {result.detail}")
        _apply(state, RowKind.RESULT, "result:1:1", result)
        decision = decide(state, 1)
        assert isinstance(decision, Decision)  # a first experiment waits for no re-runs
        config = self.resolved.config
        against = objection(config, result) if result.status is Status.SCORED else None
        if decision.verdict is Status.KEEP:
            remember(self.bench.environ, self.resolved, result)
        return Once(
            config=config,
            result=result,
            decision=decision,
            why=result.detail or (against.why if against else ""),
            log_tail=self._last_words(result),
        )

    def _issued(self) -> tuple[SessionState, tuple[str, ...]]:
        """The session as it stands when its baseline is about to run."""
        config, files = self.resolved.config, self.bench.files
        listing = scan(self.resolved.repo, self.resolved.session_root)
        check_editable(listing, config.editable_files)
        store = SnapshotStore(files.root)
        store.create()
        base = store.write_base(listing)
        frozen = [e for e in store.entries(base.commit) if e.path not in config.editable_files]
        state = SessionState()
        opened = rows.SessionOpened(
            epoch=1,
            tag=RUNNER,
            config=wire.dump(config),
            config_digest=config_digest(config),
            track_digest=track_digest(config, tree_digest(frozen)),
            base_commit=base.commit,
            base_digest=base.tree_digest,
            base_head=listing.head,
            branch=None,
            code_version=__version__,
            policy_version=POLICY_VERSION,
        )
        proposed = rows.Proposed(
            id=1,
            role=Role.BASELINE,
            parent=None,
            commit=base.commit,
            tree_digest=base.tree_digest,
            branch="iter1",
            hypothesis="the tree as it lies",
            proposer=RUNNER,
            seen_seq=0,
        )
        _apply(state, RowKind.SESSION_OPENED, "open:1", opened)
        _apply(state, RowKind.PROPOSED, "proposed:1", proposed)
        wall, cpu = deadlines(config, state)
        issued = rows.AttemptIssued(id=1, attempt=1, wall_seconds=wall, cpu_seconds=cpu)
        _apply(state, RowKind.ATTEMPT_ISSUED, "attempt:1:1", issued)
        return state, tuple(f"{item.path}: {item.why}" for item in listing.left_out)

    def _last_words(self, result: ExperimentResult) -> str:
        """Of what failed: the run or the metric's command, else the guard."""
        if result.guard != "failed":
            return result.log_tail
        log = self.bench.files.check_log(1, "guard")
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = strip_terminal(file.read().decode("utf-8", "replace"))
        return "\n".join(text.rstrip().split("\n")[-TAIL_LINES:])


def _apply(state: SessionState, kind: RowKind, key: str, body: wire.Wire) -> None:
    sid = state.sid or secrets.token_hex(6)
    state.apply(
        link(
            seq=state.seq + 1,
            ts=utc_label(),
            session=sid,
            kind=kind,
            key=key,
            body=body,
            prev=state.hash,
        )
    )


class _Ending:
    """Told by a signal to end: the sandbox is killed, from the thread of the signals' bell."""

    def __init__(self) -> None:
        self._told = Event()
        self._lock = Lock()
        self._sandbox: Sandbox | None = None

    def tell(self) -> None:
        """End it. Idempotent."""
        self._told.set()
        with self._lock:
            if self._sandbox is not None:
                self._sandbox.kill()

    def attach(self, sandbox: Sandbox, _seconds: float) -> None:
        """This is what runs now."""
        with self._lock:
            self._sandbox = sandbox
            if self._told.is_set():
                sandbox.kill()

    def check(self) -> None:
        """Raises KeyboardInterrupt when it was told to end."""
        if self._told.is_set():
            raise KeyboardInterrupt

    def over(self) -> None:
        """Nothing runs any more."""
        with self._lock:
            self._sandbox = None


@contextmanager
def _ending() -> Iterator[_Ending]:
    """Signals end what runs, and then this; a lost terminal too: nobody would see the answer."""
    ending = _Ending()
    bell = Bell(ending.tell)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, bell) for number in numbers]
    try:
        yield ending
    finally:
        ending.over()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        bell.close()


@contextmanager
def _folder(session_root: Path, repo: Path) -> Iterator[SessionFiles]:
    """A private folder beside *session_root*, with a `.gitignore` of its own. Gone at the end."""
    parent = session_root.parent if session_root.parent.is_dir() else repo
    for left in parent.glob(f"{FOLDER}*"):
        _sweep(SessionFiles(left))
    files = SessionFiles(parent / f"{FOLDER}{secrets.token_hex(4)}")
    prepare_root(files.root, repo)
    try:
        lock = hold(files.session_lock, lambda pid: f"{files.root} is in use by pid {pid}")
        try:
            telemetry.configure(RUNNER, to=files.service_logs / "once.log")
            files.make_folder(files.runner(RUNNER))
            yield files
        finally:
            os.close(lock)
    finally:
        telemetry.configure(RUNNER)
        shutil.rmtree(files.root, ignore_errors=True)


def _sweep(files: SessionFiles) -> None:
    """One that was killed left its folder; whoever lives holds the lock in it."""
    if not files.session_lock.exists():
        return  # just being made
    try:
        lock = hold(files.session_lock, lambda pid: f"in use by pid {pid}")
    except OvernightError:
        return
    os.close(lock)
    shutil.rmtree(files.root, ignore_errors=True)
