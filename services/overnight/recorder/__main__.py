"""`python -m overnight.recorder`: the single writer of one session's ledger."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from overnight import lifeline, telemetry
from overnight.configuration import RecorderSettings, load_settings, process_environ
from overnight.contracts.errors import InfrastructureError
from overnight.contracts.rows import Ack, Row
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step, reach
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.stream import Entry, LedgerInbox
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import read_identity
from overnight.ledger.writer import LedgerWriter
from overnight.recorder.entries import entries, entry
from overnight.recorder.exports import Exports
from overnight.recorder.metrics import RecorderMetrics
from overnight.recorder.retention import Retention
from overnight.recorder.service import Recorder

log = structlog.get_logger()

LOOK_SECONDS = 2.0  #: between two looks at queue and runners for the gauges


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or until the supervisor is gone. Returns the exit code."""
    options = _parse(argv)
    return lifeline.run_service("recorder", options.lifeline_fd, partial(_serve, options))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overnight recorder", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the session's directory")
    parser.add_argument("--redis", required=True, help="redis:// or unix:// address")
    parser.add_argument("--pool", default="default", help="pool whose depth is exported")
    parser.add_argument("--lifeline-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


class _Desk:
    """The recorder with its inbox, exports and gauges around it."""

    def __init__(self, options: argparse.Namespace, writer: LedgerWriter) -> None:
        connection = connect(options.redis)
        sid = writer.sid
        self._writer = writer
        self._pool = options.pool
        self._sid = sid
        self._exports: Exports | None = None
        self._root = options.dir
        self._inbox = LedgerInbox(connection, sid)
        self._jobs = Jobs(connection)
        self._flags = Flags(connection)
        self._looked_at = 0.0
        self._said_behind = False
        self.registry = CollectorRegistry()
        self.registry.register(telemetry.DiskCollector(options.dir))
        self._metrics = RecorderMetrics(self.registry, lambda: writer.state)
        writer.on_fsync = self._metrics.fsync_seconds.observe
        self._recorder = Recorder(writer, self._on_row)
        self._retention = Retention(SessionFiles(options.dir))
        self._catch_up_exports()
        self._retention.catch_up(writer.state)

    def work(self, poll_seconds: float) -> None:
        """One batch of the inbox, oldest first. Raises InfrastructureError; nothing is lost."""
        self._look()
        for found in self._inbox.read(64, poll_seconds):
            reach(Step.RECORDER_READ)
            self._settle(found)

    def _settle(self, found: Entry) -> None:
        if found.message is None:
            log.warning("message_undecodable", reason=found.problem)
            self._metrics.refused.inc()
            refusal = Ack(refused=True, reason=(found.problem or "")[:2000])
            self._inbox.acknowledge(found, found.key, refusal)
            return
        try:
            ack = self._recorder.handle(found.message)
        except InfrastructureError:
            self._metrics.disk_errors.inc()
            raise
        if ack.refused:
            self._metrics.refused.inc()
        reach(Step.RECORDER_ACK)
        self._inbox.acknowledge(found, found.message.key, ack)
        reach(Step.RECORDER_ACKED)

    def _on_row(self, row: Row) -> None:
        """A row is on the disk. Exports only ever follow; they can't fail it."""
        if row.kind is RowKind.SESSION_OPENED and self._exports is None:
            self._catch_up_exports()
        if row.kind is not RowKind.DECISION:
            return
        state = self._writer.state
        assert self._exports is not None  # a decision comes after an opening
        try:
            if not self._exports.append(entry(state, state.experiments[row.body["id"]])):
                self._exports.rebuild(entries(state))
        except InfrastructureError as error:
            self._behind(error)
        self._retention.follow(state, row.body["id"])

    def _catch_up_exports(self) -> None:
        """After a start, a full disk or somebody else's hand in the files: as the fold says."""
        state = self._writer.state
        if state.config is None:
            return
        self._exports = self._exports or Exports(self._root, state.config.metric.name)
        try:
            everything = entries(state)
            if not self._exports.matches(everything):
                self._exports.rebuild(everything)
        except InfrastructureError as error:
            self._behind(error)
            return
        self._said_behind = False

    def _behind(self, error: InfrastructureError) -> None:
        self._metrics.disk_errors.inc()
        if not self._said_behind:
            log.error("exports_behind", reason=str(error))
        self._said_behind = True

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            if self._exports is not None and not self._exports.untouched:
                self._catch_up_exports()
            try:
                self._metrics.queue_depth.set(self._jobs.depth(self._pool))
                self._metrics.runners.set(len(self._flags.runners(self._sid)))
                self._metrics.backlog.set(self._inbox.waiting())
                self._metrics.redis_up.set(1)
            except InfrastructureError as error:
                # A gauge keeps no message waiting; where all of Redis is away, reading says so.
                log.debug("gauges_behind", reason=str(error))
                self._metrics.redis_up.set(0)


def _serve(options: argparse.Namespace, life: lifeline.Lifeline) -> int:
    settings = load_settings(RecorderSettings, process_environ())
    life.watch(settings.hang_seconds)
    patience = lifeline.Patience(life, options.ready_fd)
    writer = patience.until_done(partial(_open, SessionFiles(options.dir)))
    if writer is None:
        return 0
    reach(Step.RECORDER_STARTED)
    if writer.healed_bytes:
        log.warning("torn_tail_healed", bytes=writer.healed_bytes)
    try:
        desk = _Desk(options, writer)
        labels = {"session": writer.sid, "tag": read_identity(SessionFiles(options.dir)).tag}
        endpoint = telemetry.serve_metrics(
            desk.registry, settings.metrics_port, settings.metrics_host, labels
        )
        lifeline.say_ready(options.ready_fd, metrics=endpoint.url if endpoint else None)
        while not life.should_stop():
            patience.until_done(partial(desk.work, settings.poll_seconds))
        return 0
    finally:
        writer.close()


def _open(files: SessionFiles) -> LedgerWriter:
    writer = LedgerWriter(files, read_identity(files).sid)
    writer.open()
    return writer


if __name__ == "__main__":
    sys.exit(main())
