"""`python -m overnight.orchestrator`: the one decider of one session."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from overnight import lifeline, telemetry
from overnight.configuration import (
    OrchestratorSettings,
    load_settings,
    process_environ,
)
from overnight.contracts import wire
from overnight.contracts.errors import (
    InfrastructureError,
    LedgerError,
    VersionError,
    WireError,
)
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import Control, LedgerMessage, Opening
from overnight.contracts.status import ControlAction, RowKind
from overnight.faultpoints import Step, reach
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.ledger.disk import free_gb, freeable
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import read_identity
from overnight.ledger.lock import SERVICES, hold, hold_session
from overnight.ledger.program import kept_program
from overnight.ledger.reader import LedgerTail
from overnight.orchestrator.jobs import launch_of
from overnight.orchestrator.metrics import OrchestratorCollector
from overnight.orchestrator.planning import Bounds, prefetch
from overnight.orchestrator.ports import Ports
from overnight.orchestrator.redis_ports import RedisQueue
from overnight.orchestrator.service import Orchestrator, Timing
from overnight.orchestrator.session_trees import SessionTrees
from overnight.plugins import PROPOSERS, load
from overnight.snapshots import userrepo
from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.store import SnapshotStore

log = structlog.get_logger()

PENDING_SECONDS = 0.005  #: between two looks while an answer is under way
IDLE_SECONDS = 0.05  #: between two looks at the ledger otherwise
RESUME_SECONDS = 10.0  #: to wait for a recorder, before it is said who is waited for


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the session's run is over. Exit 0, 1 when the baseline failed, 3 on our faults."""
    options = _parse(argv)
    return lifeline.run_service("orchestrator", options.lifeline_fd, partial(_serve, options))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overnight orchestrator", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the session's directory")
    parser.add_argument("--redis", required=True, help="redis:// or unix:// address")
    parser.add_argument("--pool", default="default", help="pool that jobs go to")
    parser.add_argument("--lifeline-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def read_opening(files: SessionFiles) -> Opening:
    """What `overnight run` resolved. Raises LedgerError when it is not there or damaged."""
    try:
        return wire.decode(Opening, files.opening.read_text("utf-8"))
    except VersionError as error:
        raise LedgerError(f"{files.opening}: {error}") from error
    except (OSError, UnicodeDecodeError, WireError) as error:
        raise LedgerError(f"{files.opening}: {error}; start it with `overnight run`") from error


def _locks(files: SessionFiles, alone: bool) -> tuple[int, ...]:
    """alone: no supervisor holds the session for us."""
    own = hold(
        files.orchestrator_lock,
        lambda pid: f"another orchestrator (pid {pid}) runs for this session",
    )
    return (own, hold_session(files, SERVICES)) if alone else (own,)


def _resume(opening: Opening, sender: LedgerSender, stop: Callable[[], bool]) -> None:
    """The run goes on that was over when it was opened. By a key that says when, so that a start
    after a fault asks for nothing anew: who stopped it since meant it.

    Raises:
        InfrastructureError: no recorder answered yet.
    """
    control = Control(action=ControlAction.RESUME, by="open", why="")
    key = f"control:resume:{opening.resumes}"
    message = LedgerMessage(key=key, kind=RowKind.CONTROL, body=wire.dump(control))
    ack = sender.send_until_acked(message, stop=stop, deadline_seconds=RESUME_SECONDS)
    if ack.refused:
        log.info("not_resumed", reason=ack.reason)  # somebody else was first


def _build(
    options: argparse.Namespace, files: SessionFiles, settings: OrchestratorSettings
) -> Orchestrator:
    opening = read_opening(files)
    identity = read_identity(files)
    config = wire.build(LoopConfig, opening.session.config)
    connection = connect(options.redis)
    user = userrepo.find(Path(opening.repo)) if opening.session.branch else None
    trees = SessionTrees(
        store=SnapshotStore(files.root),
        opened=opening.session,
        editable=config.editable_files,
        user=user,
    )
    trees.store.create(trees.store.prefix)
    queue = RedisQueue(
        Jobs(connection),
        Leases(connection, identity.sid),
        Flags(connection),
        identity.sid,
        options.pool,
    )
    ports = Ports(
        rows=LedgerTail(files.ledger).rows,
        ledger=LedgerSender(connection, identity.sid),
        queue=queue,
        trees=trees,
        free_gb=partial(free_gb, files.root),
        freeable=partial(freeable, files),
        proposer=load(PROPOSERS, config.proposer.name)(dict(config.proposer.options)),
        program=kept_program(files, opening.session.program_digest),
    )
    return Orchestrator(
        ports,
        opening.session,
        bounds=Bounds(
            in_flight=opening.runners + prefetch(config.policy),
            max_attempts=settings.max_attempts,
            lost_after_seconds=settings.lost_after_seconds,
            rejected_pause=settings.rejected_pause,
            given_up_pause=settings.given_up_pause,
        ),
        timing=Timing(
            look_seconds=settings.poll_seconds,
            # Between a runner's renewal and the moment at which an attempt counts as lost.
            requeue_seconds=settings.lost_after_seconds * 0.4,
        ),
        launch=launch_of(opening, config),
        starter=os.urandom(8).hex(),
    )


def _is_open(
    options: argparse.Namespace,
    files: SessionFiles,
    life: lifeline.Lifeline,
    patience: lifeline.Patience,
) -> bool:
    """Before the first look, which would find the run over. False when told to end meanwhile."""
    opening = read_opening(files)
    if opening.resumes is not None:
        sender = LedgerSender(connect(options.redis), read_identity(files).sid)
        patience.until_done(partial(_resume, opening, sender, life.should_stop))
    return not life.should_stop()


def _metrics(
    files: SessionFiles, settings: OrchestratorSettings, orchestrator: Orchestrator
) -> str | None:
    """Serve what it exports; the address, None where it can't be bound."""
    registry = CollectorRegistry()
    registry.register(OrchestratorCollector(orchestrator, read_opening(files).runners))
    identity = read_identity(files)
    labels = {"session": identity.sid, "tag": identity.tag}
    port, host = settings.metrics_port, settings.metrics_host
    endpoint = telemetry.serve_metrics(registry, port, host, labels)
    return endpoint.url if endpoint else None


def _serve(options: argparse.Namespace, life: lifeline.Lifeline) -> int:
    settings = load_settings(OrchestratorSettings, process_environ())
    life.watch(settings.hang_seconds)
    files = SessionFiles(options.dir)
    locks = _locks(files, alone=options.lifeline_fd is None)
    try:
        reach(Step.ORCHESTRATOR_STARTED)
        patience = lifeline.Patience(life, options.ready_fd)
        orchestrator = patience.until_done(partial(_build, options, files, settings))
        if orchestrator is None or not _is_open(options, files, life, patience):
            return 0
        lifeline.say_ready(options.ready_fd, metrics=_metrics(files, settings, orchestrator))
        while not life.should_stop():
            try:
                busy = orchestrator.step(time.monotonic())
            except SnapshotMissingError:
                raise  # a damaged store does not mend itself by waiting
            except InfrastructureError as error:
                patience.wait(error)
                continue
            patience.over()
            if orchestrator.outcome is not None:
                log.info("run_over", outcome=orchestrator.outcome.outcome)
                return 1 if orchestrator.outcome.outcome == "baseline_failed" else 0
            if not busy:
                pending = orchestrator.waits_for_an_answer
                life.ending.wait(PENDING_SECONDS if pending else IDLE_SECONDS)
        return 0
    finally:
        for lock in locks:
            os.close(lock)


if __name__ == "__main__":
    sys.exit(main())
