"""One worker a device, or a group of devices: started, started again, ended by one parent.

Each worker is a runner as `overnight run` starts it, in a process session of its own, which dies
with this parent however that ends. GPUs: not run on a GPU.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import structlog

from overnight.children import Child, ChildSpec, service_argv
from overnight.configuration import SupervisorSettings
from overnight.contracts import wire
from overnight.contracts.errors import (
    ConfigError,
    InfrastructureError,
    OvernightError,
    UsageError,
)
from overnight.contracts.rows import Control, LedgerMessage
from overnight.contracts.status import ControlAction, RowKind
from overnight.devices.inventory import Inventory
from overnight.devices.sharing import shares, too_few
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.stream import LedgerSender
from overnight.runner.wanted import check_slots

log = structlog.get_logger()

TICK_SECONDS = 0.05
GRACE_SECONDS = 8.0  #: from SIGTERM to SIGKILL; Docker itself gives 10
PAUSE_SECONDS = 10.0  #: how long a wish to pause may take


class TooFewDevicesError(UsageError):
    """No experiment of this session can run with the devices that are here."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One of a fleet."""

    slot: str  #: stable: by the order of the devices
    argv: tuple[str, ...]  #: after `runner`


def groups_of(
    gpus: str | None, workers: int | None, each: int, take: Callable[[], Inventory]
) -> list[tuple[str, ...]]:
    """The devices that each worker may have, its own first.

    gpus: what --gpus says; workers: what --workers says; each: GPUs an experiment.

    Raises:
        TooFewDevicesError: there are too few for one experiment.
        UsageError: a device is not here, or the session wants another kind.
    """
    if gpus is None:
        check_slots(each)
        return [(f"cpu:{index}",) for index in range(workers or 1)]
    if each == 0:
        raise UsageError(
            "the experiments of this session want no GPU (gpus: 0): start runners with --workers N"
        )
    inventory = take()
    chosen = Inventory(gpus=inventory.named(gpus), problems=inventory.problems)
    few = too_few(chosen, each)
    if few is not None:
        raise TooFewDevicesError(f"each experiment of this session (gpus: {each}) {few}")
    groups = shares(chosen.gpus, each)
    spare = len(chosen.gpus) - each * len(groups)
    log.info("devices_shared", devices=len(chosen.gpus), workers=len(groups), spare=spare)
    for problem in inventory.problems:
        log.warning("device_not_usable", reason=problem)
    return groups


def workers_of(
    groups: Sequence[tuple[str, ...]], common: Sequence[str], first_port: int = 0
) -> list[Worker]:
    """Slots r0, r1, .. in the order of the devices; first_port: offset of the first one's port."""
    return [
        Worker(
            slot=f"r{number}",
            argv=(
                *common, "--slot", f"r{number}", "--metrics-offset", str(first_port + number),
                *(word for device in devices for word in ("--device", device)),
            ),
        )
        for number, devices in enumerate(groups)
    ]  # fmt: skip


def pause_unless_served(
    flags: Flags, sender: LedgerSender, sid: str, why: str, stop: Callable[[], bool]
) -> None:
    """Nobody here can run this session's experiments: it pauses and says so, instead of waiting
    for ever. Runners elsewhere that live may have what is missing here."""
    control = Control(action=ControlAction.PAUSE, by="runner", why=why[:500])
    message = LedgerMessage(
        key=f"control:no-device:{sid}", kind=RowKind.CONTROL, body=wire.dump(control)
    )
    try:
        if not flags.runners(sid):
            sender.send_until_acked(message, stop=stop, deadline_seconds=PAUSE_SECONDS)
    except OvernightError as error:
        log.warning("pause_not_recorded", reason=str(error))


class Fleet:
    """Call `run` from the thread that outlives the workers: the kernel ends them with it."""

    def __init__(
        self,
        workers: Sequence[Worker],
        logs: Path,
        settings: SupervisorSettings,
        on_wait: Callable[[str | None], None] = lambda why: None,
    ) -> None:
        """*on_wait* is told which worker waits for what, and None when none does any more."""
        self._settings = settings
        self._on_wait = on_wait
        self._told: str | None = None
        self._lifeline, self._held = os.pipe()
        self._children = [self._child(worker, logs) for worker in workers]

    def endpoints(self) -> list[str]:
        """Where workers serve their metrics, as far as they were ready once."""
        return [str(c.details["metrics"]) for c in self._children if c.details.get("metrics")]

    def run(self, ending: Event) -> int:
        """Until *ending* is set; then all workers have ended. Returns the exit code.

        Raises:
            ConfigError: a worker refuses its settings; says which.
            InfrastructureError: all of them die before they are ready; says why.
        """
        try:
            for child in self._children:
                child.start()
                log.info("worker_started", slot=child.spec.name, pid=child.pid)
            while not ending.is_set():
                for child in self._children:
                    self._tend(child)
                self._tell_waiting()
                ending.wait(TICK_SECONDS)
            return 0
        finally:
            self._end_all()

    def _child(self, worker: Worker, logs: Path) -> Child:
        return Child(
            spec=ChildSpec(name=worker.slot, argv=service_argv("runner", *worker.argv)),
            log_path=logs / f"{worker.slot}.log",
            lifeline=self._lifeline,
            backoff_seconds=self._settings.backoff_seconds,
            backoff_max_seconds=self._settings.backoff_max_seconds,
        )

    def _tend(self, child: Child) -> None:
        waited, ready = child.waiting, child.ready
        code = child.poll()
        if child.waiting != waited:
            log.warning("worker_waits", slot=child.spec.name, reason=child.waiting)
        if child.ready and not ready:
            log.info("worker_ready", slot=child.spec.name, **child.details)
        if code is None:
            if child.due():
                child.start()
                log.info("worker_started", slot=child.spec.name, pid=child.pid)
            return
        reason = child.last_reason() or f"exit code {code}"
        if code == ConfigError.exit_code:
            raise ConfigError(reason)
        log.warning("worker_died", slot=child.spec.name, code=code, reason=reason)
        if all(each.early_deaths >= self._settings.crash_loop for each in self._children):
            raise InfrastructureError(f"all workers die at once, {child.spec.name}: {reason}")
        child.restart_later()

    def _tell_waiting(self) -> None:
        """What one of them waits for the whole fleet says: else it would look well."""
        waits = (f"{c.spec.name}: {c.waiting}" for c in self._children if c.waiting)
        now = next(waits, None)
        if now != self._told:
            self._told = now
            self._on_wait(now)

    def _end_all(self) -> None:
        """SIGTERM to all, so that what runs is told as cancelled; SIGKILL after the grace."""
        deadline = time.monotonic() + GRACE_SECONDS
        for child in self._children:
            child.signal(signal.SIGTERM)
        for child in self._children:
            while child.process is not None and child.process.poll() is None:
                if time.monotonic() >= deadline:
                    child.process.kill()
                    child.process.wait()
                time.sleep(0.01)
        os.close(self._held)
        os.close(self._lifeline)
        log.info("fleet_ended", workers=len(self._children))
