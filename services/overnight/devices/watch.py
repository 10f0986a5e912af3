"""A thread that hears of Xid events on some devices, as the driver tells them. Not run on a GPU."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from threading import Event, Thread
from typing import Any

import structlog

from overnight.contracts.errors import InfrastructureError
from overnight.devices.inventory import Gpu
from overnight.devices.nvml import WHOLE_CARD, Nvml, text_of
from overnight.devices.xid import Xid

log = structlog.get_logger()

WAIT_MS = 500  #: the driver wakes us up with an event; else we look whether to end
REST_SECONDS = 1.0  #: after an answer that is none, as of a lost card
KEPT = 200  #: newest events; more than an attempt has


class XidWatch:
    """Start it once; ask it after each attempt."""

    def __init__(self, nvml: Nvml, gpus: Iterable[Gpu]) -> None:
        self._nvml = nvml
        self._gpus = tuple(gpus)
        self._seen: deque[tuple[float, Xid]] = deque(maxlen=KEPT)
        self._over = Event()
        self._thread: Thread | None = None

    def start(self) -> bool:
        """Listen from now on; False where no driver tells, which then stays unknown."""
        module = self._nvml.module
        events = self._nvml.maybe(module.nvmlEventSetCreate)
        if events is None or not self._register(events):
            return False
        self._thread = Thread(target=self._listen, args=(events,), name="xid", daemon=True)
        self._thread.start()
        return True

    def since(self, moment: float) -> tuple[Xid, ...]:
        """What came after *moment* of the monotonic clock."""
        return tuple(xid for at, xid in list(self._seen) if at >= moment)

    def stop(self) -> None:
        """Listen no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=10 * WAIT_MS / 1000)

    def _register(self, events: Any) -> bool:
        """With the cards: a MIG instance has no events of its own."""
        heard = False
        for uuid in sorted({gpu.mig.card if gpu.mig else gpu.uuid for gpu in self._gpus}):
            try:
                handle = self._nvml.handle(uuid)
                with self._nvml.asking(uuid) as module:
                    module.nvmlDeviceRegisterEvents(
                        handle, module.nvmlEventTypeXidCriticalError, events
                    )
                heard = True
            except InfrastructureError as error:
                log.warning("xid_not_heard", device=uuid, reason=str(error))
        return heard

    def _listen(self, events: Any) -> None:
        module = self._nvml.module
        while not self._over.is_set():
            try:
                said = module.nvmlEventSetWait_v2(events, WAIT_MS)
                card = text_of(module.nvmlDeviceGetUUID(said.device))
            except module.NVMLError as error:
                if not self._nvml.is_one_of(error, "NVML_ERROR_TIMEOUT"):
                    self._over.wait(REST_SECONDS)
                continue
            for gpu in self._gpus:
                if _is_meant(gpu, card, int(said.gpuInstanceId), int(said.computeInstanceId)):
                    xid = Xid(gpu.uuid, int(said.eventData))
                    self._seen.append((time.monotonic(), xid))
                    log.warning("xid", device=gpu.uuid, xid=xid.number, fault=xid.fault.value)
        self._nvml.maybe(module.nvmlEventSetFree, events)


def _is_meant(gpu: Gpu, card: str, gpu_instance: int, compute_instance: int) -> bool:
    if gpu.mig is None:
        return gpu.uuid == card
    return (
        gpu.mig.card == card
        and gpu_instance in (gpu.mig.gpu_instance, WHOLE_CARD)
        and compute_instance in (gpu.mig.compute_instance, WHOLE_CARD)
    )
