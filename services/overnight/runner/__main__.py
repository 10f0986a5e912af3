"""`python -m overnight.runner`: one runner for one slot of one session."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Thread

import structlog
from prometheus_client import CollectorRegistry

from overnight import lifeline, telemetry
from overnight.configuration import RunnerSettings, device_lock_dir, load_settings, process_environ
from overnight.contracts.errors import OvernightError
from overnight.faultpoints import Step, reach
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.jobqueue.worker import PoolWorker
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import Identity, read_identity
from overnight.plugins import EXECUTORS, load
from overnight.runner.hardware import DeviceLock, SlotLock, hardware_class
from overnight.runner.metrics import RunnerMetrics
from overnight.runner.quarantine import Notice
from overnight.runner.service import Lines, Runner
from overnight.runner.specs import Bench

log = structlog.get_logger()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or until the supervisor is gone. Returns the exit code."""
    options = _parse(argv)
    return lifeline.run_service(
        "runner", options.lifeline_fd, partial(_serve, options), slot=options.slot
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overnight runner", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the session's directory")
    parser.add_argument("--redis", required=True, help="redis:// or unix:// address")
    parser.add_argument("--slot", default="r0", help="stable name of this runner")
    parser.add_argument("--device", default="cpu:0", help="device that this runner holds")
    parser.add_argument("--pool", default="default", help="pool whose jobs it takes")
    parser.add_argument("--executor", default="process", help="an installed executor's name")
    parser.add_argument(
        "--metrics-offset", type=int, default=0, help="added to a metrics port that is set"
    )
    parser.add_argument("--lifeline-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _metrics(
    options: argparse.Namespace, settings: RunnerSettings, identity: Identity
) -> tuple[RunnerMetrics, telemetry.MetricsEndpoint | None]:
    registry = CollectorRegistry()
    registry.register(telemetry.DiskCollector(options.dir))
    metrics = RunnerMetrics(registry)
    port = settings.metrics_port and settings.metrics_port + options.metrics_offset
    labels = {"session": identity.sid, "tag": identity.tag, "slot": options.slot}
    return metrics, telemetry.serve_metrics(registry, port, settings.metrics_host, labels)


def _serve(options: argparse.Namespace, life: lifeline.Lifeline) -> int:
    environ = process_environ()
    settings = load_settings(RunnerSettings, environ)
    life.watch(settings.hang_seconds)
    files = SessionFiles(options.dir)
    identity = read_identity(files)
    locks = device_lock_dir(environ)
    device, slot = DeviceLock(locks, options.device), SlotLock(files.runner(options.slot))
    for lock in (device, slot):
        lock.acquire(life.should_stop, partial(lifeline.say_waiting, options.ready_fd))
    reach(Step.RUNNER_STARTED)
    metrics, endpoint = _metrics(options, settings, identity)
    connection = connect(options.redis)
    bench = Bench(
        files=files,
        folder=files.runner(options.slot),
        executor=load(EXECUTORS, options.executor)({"protected": [str(files.root)]}),
        runner=options.slot,
        hardware=hardware_class(),
        environ=environ,
        device=options.device,
        disk_bytes=settings.disk_mb * 1024**2,
        disk_files=settings.disk_files,
    )
    flags = Flags(connection)
    lines = Lines(
        sid=identity.sid,
        sender=LedgerSender(connection, identity.sid),
        leases=Leases(connection, identity.sid, ttl_seconds=settings.lease_seconds),
        flags=flags,
        renew_seconds=settings.renew_seconds,
        resend_seconds=settings.resend_seconds,
    )
    waits = partial(lifeline.say_waiting, options.ready_fd)
    notice = Notice(locks / f"{device.name}.quarantined")
    metrics.about(device=bench.device, hardware=bench.hardware, isolation=bench.executor.isolation)
    runner = Runner(bench, lines, metrics, life, waits, notice=notice)
    lifeline.say_ready(
        options.ready_fd,
        metrics=endpoint.url if endpoint else None,
        isolation=bench.executor.isolation,
    )
    lifeline.Patience(life, options.ready_fd).until_done(runner.recover)
    metrics.ready()
    Thread(
        target=_beat, args=(life, flags, identity.sid, options.slot, metrics), daemon=True
    ).start()
    PoolWorker(
        connection,
        options.pool,
        f"{identity.sid}-{options.slot}",
        runner.handle,
        life.should_stop,
        on_wait=partial(lifeline.say_waiting, options.ready_fd),
    ).work()
    return 0


def _beat(
    life: lifeline.Lifeline, flags: Flags, sid: str, slot: str, metrics: RunnerMetrics
) -> None:
    """Say every few seconds that this runner lives; keeps the idle time up to date."""
    while not life.should_stop():
        metrics.tick()
        try:
            flags.beat(sid, slot, ttl_seconds=10.0)
            metrics.redis_up.set(1)
        except OvernightError as error:
            metrics.redis_up.set(0)
            log.debug("beat_failed", reason=str(error))
        time.sleep(2.0)


if __name__ == "__main__":
    sys.exit(main())
