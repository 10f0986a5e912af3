"""The GPUs of one worker, watched: whose fault a failure was, and when the next job may come.

A worker of a processor slot has none, and nothing here does anything. Not run on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from overnight.configuration.devices import DeviceSettings
from overnight.contracts.errors import InfrastructureError
from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.status import Status
from overnight.contracts.untrusted import one_line
from overnight.devices.inventory import MIB, Condition, Gpu, look_at
from overnight.devices.nvml import DeviceLostError, Nvml
from overnight.devices.watch import XidWatch
from overnight.devices.xid import Fault, worst
from overnight.runner.breaker import Breaker
from overnight.runner.metrics import DeviceMetrics

log = structlog.get_logger()

LOST, XID = "device_lost", "xid"  #: infra reasons
MEASURE_SECONDS = 5.0  #: between two looks for the metrics
IDLE_SHARE = 0.1  #: of its memory: more, with nobody on the card, was left by somebody


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a device takes no jobs now."""

    reason: str
    pids: tuple[int, ...] = ()  #: of a dead sandbox: while one lives, nobody uses the device
    is_news: bool = True  #: False: it lies beside the device's lock already, or passes by itself
    grace_seconds: float = 0.0  #: it may pass by itself; said only after that


@dataclass(kw_only=True)
class Cards:
    """Of one worker."""

    gpus: tuple[Gpu, ...] = ()
    nvml: Nvml | None = None
    settings: DeviceSettings = field(default_factory=DeviceSettings)
    is_alone: Callable[[], bool] = lambda: True  #: no other runner of this session lives
    on_lost: Callable[[], None] = lambda: None  #: a card is gone: told before each look again
    _since: float = 0.0
    _least: dict[str, int] = field(default_factory=dict)  #: bytes in use while it was empty
    _refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._breaker = Breaker(
            failures=self.settings.failures,
            pause_seconds=self.settings.pause_seconds,
            rest_seconds=self.settings.rest_seconds,
            rest_max_seconds=self.settings.rest_max_seconds,
        )
        self._watch = XidWatch(self.nvml, self.gpus) if self.nvml and self.gpus else None
        if self._watch is not None and not self._watch.start():
            log.warning("xid_not_heard", reason="this driver tells no events")

    def begin(self) -> None:
        """An attempt starts: what is heard from now on is about it."""
        self._since = time.monotonic()

    def judge(self, result: ExperimentResult) -> ExperimentResult:
        """*result* with what only the devices know of it.

        A card that was lost, or that failed by its own fault, makes it nobody's: it is run again.
        A fault of the candidate's own is a flag: how it ended has the verdict already.
        """
        if result.status is Status.CANCELLED:
            return result
        events = self._watch.since(self._since) if self._watch is not None else ()
        lost = [why for _, why in self.conditions() if isinstance(why, str)]
        bad = worst(events)
        if bad is not None and bad.fault is Fault.HARDWARE:
            return _infra(result, XID, bad.shown)
        if lost:
            return _infra(result, LOST, lost[0])
        flags = tuple(f"xid_{number}" for number in sorted({event.number for event in events}))
        return result.model_copy(update={"flags": (*result.flags, *flags)}) if flags else result

    def ended(self, result: ExperimentResult | None) -> None:
        """Count it for the breaker; None: it was dropped."""
        if not self.gpus or result is None or result.status is Status.CANCELLED:
            return
        reason = (result.reason or "infra") if result.status is Status.INFRA else None
        alone = reason is not None and self.is_alone()
        self._breaker.ended(reason, result.detail, now=time.monotonic(), alone=alone)
        if reason is not None and self._breaker.is_open:
            log.error("device_fails", devices=self._names, in_a_row=self._breaker.in_a_row,
                      reason=result.detail)  # fmt: skip

    def trouble(self) -> Trouble | None:
        """Why no job may be taken now; None: all cards are there, empty and trusted."""
        for gpu, found in self.conditions():
            if isinstance(found, str):
                self.on_lost()
                return Trouble(reason=found)
            held = self._held(gpu, found)
            if held is not None:
                grace = self.settings.clear_seconds
                # Without pids: who uses a card now need not do so as long as it lives.
                return Trouble(reason=held, grace_seconds=grace)
        rests = self._breaker.rests(time.monotonic()) if self.gpus else None
        return None if rests is None else Trouble(reason=rests)

    def conditions(self) -> Iterable[tuple[Gpu, Condition | str]]:
        """Each card that answers as it is now, each lost one with why."""
        for gpu in self.gpus:
            assert self.nvml is not None  # there are GPUs
            try:
                found: Condition | str = look_at(self.nvml, gpu.uuid)
            except DeviceLostError as error:
                found = str(error)
            except InfrastructureError as error:
                if gpu.uuid not in self._refused:  # an NVML that can't say, e.g. without rights
                    self._refused.add(gpu.uuid)
                    log.warning("device_not_seen", device=gpu.uuid, reason=str(error))
                continue
            yield gpu, found

    def measure(self, metrics: DeviceMetrics) -> None:
        """Bring the gauges up to date. From a thread of its own: a broken card may not answer."""
        seen = dict.fromkeys(self._names, False)
        for gpu, found in self.conditions():
            if isinstance(found, Condition):
                seen[gpu.uuid] = True
                metrics.memory_used.labels(gpu.uuid).set(found.used_bytes)
        for uuid, answers in seen.items():
            metrics.healthy.labels(uuid).set(answers or uuid in self._refused)

    def close(self) -> None:
        """Let go of the driver."""
        if self._watch is not None:
            self._watch.stop()
        if self.nvml is not None:
            self.nvml.close()

    def _held(self, gpu: Gpu, found: Condition) -> str | None:
        """What keeps it from being empty."""
        if found.pids:
            living = ", ".join(str(pid) for pid in found.pids[:5])
            return f"{gpu.uuid}: pid {living} still {'use' if len(found.pids) > 1 else 'uses'} it"
        least = self._least.get(gpu.uuid)
        if least is None:
            # A desktop may hold much; what nobody holds, and is more than a driver's own, is left.
            idle = int(gpu.memory_bytes * IDLE_SHARE)
            least = found.used_bytes if found.shows_graphics else min(found.used_bytes, idle)
        self._least[gpu.uuid] = min(least, found.used_bytes)
        over = found.used_bytes - self._least[gpu.uuid]
        if over <= self.settings.slack_mb * MIB or found.shows_graphics:
            return None
        return f"{gpu.uuid}: {over // MIB} MiB of its memory are held by no process that we see"

    @property
    def has_lost(self) -> bool:
        """Is a card gone?"""
        return any(isinstance(found, str) for _, found in self.conditions())

    @property
    def _names(self) -> list[str]:
        return [gpu.uuid for gpu in self.gpus]


def _infra(result: ExperimentResult, reason: str, why: str) -> ExperimentResult:
    log.error("attempt_lost_its_device", experiment_id=result.id, attempt=result.attempt,
              reason=why)  # fmt: skip
    changes = {"status": Status.INFRA, "reason": reason, "detail": one_line(why, 2000),
               "metric": None, "guard": None, "signature": None}  # fmt: skip
    return result.model_copy(update=changes)
