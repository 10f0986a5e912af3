"""`python -m overnight.runner`: one runner for one slot of one session, or one for each device."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread

import structlog
from prometheus_client import CollectorRegistry

from overnight import lifeline, telemetry
from overnight.configuration import (
    RunnerSettings,
    SupervisorSettings,
    device_lock_dir,
    load_settings,
    process_environ,
    spawner_socket,
)
from overnight.configuration.devices import DeviceSettings
from overnight.contracts.errors import InfrastructureError, OvernightError, UsageError
from overnight.devices.granting import is_gpu
from overnight.devices.inventory import Gpu, Inventory, inventory_of, lost, take_inventory
from overnight.devices.nvml import Nvml
from overnight.faultpoints import Step, reach
from overnight.jobqueue.connection import connect
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.lease import Leases
from overnight.jobqueue.stream import LedgerSender
from overnight.jobqueue.worker import PoolWorker
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import Identity, read_identity
from overnight.plugins import EXECUTORS, load
from overnight.runner.cards import MEASURE_SECONDS, Cards
from overnight.runner.fleet import (
    Fleet,
    TooFewDevicesError,
    groups_of,
    pause_unless_served,
    workers_of,
)
from overnight.runner.gathering import Gathered
from overnight.runner.hardware import SlotLock, gpu_class, hardware_class
from overnight.runner.leasing import Lease, Leasing, TurnLock
from overnight.runner.metrics import DeviceMetrics, RunnerMetrics
from overnight.runner.quarantine import Notice
from overnight.runner.service import Lines, Runner
from overnight.runner.specs import Bench
from overnight.runner.wanted import gpus_each

log = structlog.get_logger()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or until the supervisor is gone. Returns the exit code."""
    options = _parse(argv)
    serve, slot = (_serve, options.slot) if _is_one(options) else (_serve_many, None)
    return lifeline.run_service("runner", options.lifeline_fd, partial(serve, options), slot=slot)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overnight runner", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the session's directory")
    parser.add_argument("--redis", required=True, help="redis:// or unix:// address")
    parser.add_argument("--slot", default="r0", help="stable name of this runner")
    parser.add_argument(
        "--device", action="append", metavar="DEVICE",
        help="a GPU's UUID or cpu:<n> that this runner may hold; may be given again (cpu:0)",
    )  # fmt: skip
    parser.add_argument(
        "--gpus", metavar="all|UUID,UUID", help="a worker for each of these, or for each group"
    )
    parser.add_argument("--workers", type=_at_least_one, metavar="N", help="N on processor slots")
    parser.add_argument("--pool", default="default", help="pool whose jobs it takes")
    parser.add_argument("--executor", default="process", help="an installed executor's name")
    parser.add_argument("--spawner", type=Path, help="socket of the spawner (OVERNIGHT_SPAWNER)")
    parser.add_argument(
        "--metrics-offset", type=int, default=0, help="added to a metrics port that is set"
    )
    parser.add_argument("--lifeline-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if sum(given is not None for given in (options.device, options.gpus, options.workers)) > 1:
        parser.error("--device, --gpus and --workers: one of them")
    return options


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _is_one(options: argparse.Namespace) -> bool:
    return options.gpus is None and options.workers is None


def _serve_many(options: argparse.Namespace, life: lifeline.Lifeline) -> int:
    """One worker a device: this process starts them, and starts them again."""
    environ = process_environ()
    settings = load_settings(SupervisorSettings, environ)
    files = SessionFiles(options.dir)
    identity = read_identity(files)
    ask = ("--spawner", str(options.spawner)) if options.spawner is not None else ()
    common = ("--dir", str(files.root), "--redis", options.redis, "--pool", options.pool,
              "--executor", options.executor, *ask)  # fmt: skip
    try:
        groups = groups_of(options.gpus, options.workers, gpus_each(files), take_inventory)
    except TooFewDevicesError as error:
        connection = connect(options.redis)
        flags, sender = Flags(connection), LedgerSender(connection, identity.sid)
        pause_unless_served(flags, sender, identity.sid, str(error), life.should_stop)
        raise
    # The first port is this process's: it serves what all workers serve.
    workers = workers_of(groups, common, options.metrics_offset + 1)
    waits = partial(lifeline.say_waiting, options.ready_fd)
    fleet = Fleet(workers, files.service_logs, settings, waits)
    endpoint = _gathered(options, identity, fleet)
    lifeline.say_ready(options.ready_fd, metrics=endpoint.url if endpoint else None)
    return fleet.run(life.ending)


def _gathered(
    options: argparse.Namespace, identity: Identity, fleet: Fleet
) -> telemetry.MetricsEndpoint | None:
    registry = CollectorRegistry()
    registry.register(Gathered(fleet.endpoints))
    settings = load_settings(RunnerSettings, process_environ())
    port = settings.metrics_port and settings.metrics_port + options.metrics_offset
    labels = {"session": identity.sid, "tag": identity.tag}
    return telemetry.serve_metrics(registry, port, settings.metrics_host, labels)


def _metrics(
    options: argparse.Namespace, settings: RunnerSettings, identity: Identity
) -> tuple[CollectorRegistry, RunnerMetrics, telemetry.MetricsEndpoint | None]:
    registry = CollectorRegistry()
    registry.register(telemetry.DiskCollector(options.dir))
    metrics = RunnerMetrics(registry)
    port = settings.metrics_port and settings.metrics_port + options.metrics_offset
    labels = {"session": identity.sid, "tag": identity.tag, "slot": options.slot}
    endpoint = telemetry.serve_metrics(registry, port, settings.metrics_host, labels)
    return registry, metrics, endpoint


@dataclass(frozen=True)
class _Held:
    """The devices of this runner."""

    lease: Lease
    gpus: tuple[Gpu, ...]
    nvml: Nvml | None
    driver: str | None
    leasing: Leasing

    @property
    def hardware(self) -> str:
        names = [gpu.name for gpu in self.gpus]
        return gpu_class(names, self.driver) if names else hardware_class()

    @property
    def name(self) -> str:
        """For a label, and for people: the first one, and how many if it is not the only one."""
        first, *more = self.lease.devices
        return f"{first}:{1 + len(more)}" if more else first


def _hold_devices(
    options: argparse.Namespace, files: SessionFiles, sid: str, life: lifeline.Lifeline
) -> _Held:
    """Wait for as many of the devices that it may have as an experiment needs."""
    wanted = tuple(options.device or ("cpu:0",))
    nvml = Nvml() if any(is_gpu(device) for device in wanted) else None
    needs = max(1, gpus_each(files)) if nvml is not None else 1
    if needs > len(wanted):
        raise UsageError(f"each experiment needs {needs} GPUs, --device names {len(wanted)}")
    locks = device_lock_dir(process_environ())
    leasing = Leasing(
        folder=locks,
        turn=TurnLock(locks, sid) if len(wanted) > needs else None,
        wanted=wanted,
        needs=needs,
        unfit=(lambda device: None) if nvml is None else partial(lost, nvml),
    )
    lease = leasing.acquire(life.should_stop, partial(lifeline.say_waiting, options.ready_fd))
    inventory = Inventory() if nvml is None else inventory_of(nvml)
    gpus = tuple(gpu for gpu in inventory.gpus if gpu.uuid in lease.devices)
    return _Held(lease, gpus, nvml, inventory.driver, leasing)


def _serve(options: argparse.Namespace, life: lifeline.Lifeline) -> int:
    environ = process_environ()
    settings = load_settings(RunnerSettings, environ)
    watching = load_settings(DeviceSettings, environ)
    life.watch(settings.hang_seconds)
    files = SessionFiles(options.dir)
    identity = read_identity(files)
    waits = partial(lifeline.say_waiting, options.ready_fd)
    held = _hold_devices(options, files, identity.sid, life)
    SlotLock(files.runner(options.slot)).acquire(life.should_stop, waits)
    reach(Step.RUNNER_STARTED)
    registry, metrics, endpoint = _metrics(options, settings, identity)
    connection = connect(options.redis)
    flags = Flags(connection)
    lines = Lines(
        sid=identity.sid,
        sender=LedgerSender(connection, identity.sid),
        leases=Leases(connection, identity.sid, ttl_seconds=settings.lease_seconds),
        flags=flags,
        renew_seconds=settings.renew_seconds,
        resend_seconds=settings.resend_seconds,
    )
    bench = _bench(options, settings, files, held)
    cards = Cards(
        gpus=held.gpus,
        nvml=held.nvml,
        settings=watching,
        is_alone=partial(_is_alone, flags, identity.sid),
        on_lost=partial(_let_go, life, held),
    )
    metrics.about(device=bench.device, hardware=bench.hardware, isolation=bench.executor.isolation)
    notices = tuple(Notice(lock.path.with_suffix(".quarantined")) for lock in held.lease.locks)
    runner = Runner(bench, lines, metrics, life, waits, notices=notices, cards=cards)
    lifeline.say_ready(
        options.ready_fd,
        metrics=endpoint.url if endpoint else None,
        isolation=bench.executor.isolation,
    )
    if held.gpus:
        watch = partial(_measure, life, cards, held, DeviceMetrics(registry))
        Thread(target=watch, daemon=True).start()
    lifeline.Patience(life, options.ready_fd).until_done(runner.recover)
    metrics.ready()
    beat = partial(_beat, life, flags, identity.sid, options.slot, metrics)
    Thread(target=beat, daemon=True).start()
    PoolWorker(
        connection,
        options.pool,
        f"{identity.sid}-{options.slot}",
        runner.handle,
        runner.should_stop,
        on_wait=waits,
        may_start=runner.may_start,
    ).work()
    # Started again, it leases one of those that are left over.
    return InfrastructureError.exit_code if life.signals == 0 and cards.has_lost else 0


def _bench(
    options: argparse.Namespace, settings: RunnerSettings, files: SessionFiles, held: _Held
) -> Bench:
    return Bench(
        files=files,
        folder=files.runner(options.slot),
        executor=load(EXECUTORS, options.executor)(_executor_options(options, files)),
        runner=options.slot,
        hardware=held.hardware,
        environ=process_environ(),
        device=held.name,
        devices=tuple(gpu.uuid for gpu in held.gpus),
        disk_bytes=settings.disk_mb * 1024**2,
        disk_files=settings.disk_files,
    )


def _executor_options(options: argparse.Namespace, files: SessionFiles) -> dict[str, object]:
    chosen: dict[str, object] = {"protected": [str(files.root)]}
    spawner = options.spawner or spawner_socket(process_environ())
    if options.executor == "docker" and spawner is not None:
        chosen["spawner"] = spawner
    return chosen


def _let_go(life: lifeline.Lifeline, held: _Held) -> None:
    """A card is lost: end, to be started again, where others are free to take its place."""
    if held.leasing.can_replace(held.lease):
        life.ending.set()


def _is_alone(flags: Flags, sid: str) -> bool:
    """Does no other runner of this session live, as far as we can see?"""
    try:
        return len(flags.runners(sid)) < 2
    except OvernightError:
        return True


def _measure(
    life: lifeline.Lifeline, cards: Cards, held: _Held, metrics: DeviceMetrics
) -> None:  # fmt: skip
    for gpu in held.gpus:
        metrics.info.labels(gpu.uuid, gpu.name, held.driver or "").set(1)
        metrics.memory.labels(gpu.uuid).set(gpu.memory_bytes)
    while not life.ending.is_set():
        cards.measure(metrics)
        life.ending.wait(MEASURE_SECONDS)


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
