"""Which GPUs there are, each named for good by its UUID; and how one of them is now.

A card in MIG mode is no device itself: its instances are. An index is where NVML lists a card
today; cards that fail leave gaps, and another boot may count otherwise, so nothing is kept by it.
Not run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.devices.nvml import DeviceLostError, Nvml, NvmlUnavailableError, nvml_module, text_of

MIB = 1024**2
ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Mig:
    """What a MIG instance is a part of."""

    card: str  #: UUID
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One device that an experiment can have: a whole card, or one MIG instance."""

    uuid: str
    name: str
    memory_bytes: int
    index: int  #: of the card, as NVML counts today
    minor: int | None = None  #: of /dev/nvidia<minor>
    mig: Mig | None = None


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """All of this host, in NVML's order."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None  #: the newest version that the driver takes, e.g. 12.8
    problems: tuple[str, ...] = ()  #: cards that are there and can't be used, one line each

    def named(self, wanted: str) -> tuple[Gpu, ...]:
        """`all`, or the UUIDs of a comma-separated list, in this inventory's order.

        Raises:
            UsageError: one of them is not here; says what is.
        """
        if wanted.strip() == ALL:
            return self.gpus
        names = [name.strip() for name in wanted.split(",") if name.strip()]
        here = {gpu.uuid for gpu in self.gpus}
        missing = [name for name in names if name not in here]
        if missing or not names:
            what = f"{missing[0]}: no such device here" if missing else "names no device"
            raise UsageError(f"--gpus {what}; {self._told()}")
        return tuple(gpu for gpu in self.gpus if gpu.uuid in names)

    def _told(self) -> str:
        if not self.gpus:
            why = self.problems[0] if self.problems else "nvidia-smi must list it"
            return f"this machine has no GPU ({why})"
        return "there are " + ", ".join(gpu.uuid for gpu in self.gpus)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One device at one moment."""

    pids: tuple[int, ...]  #: processes that compute on it, as NVML sees them
    shows_graphics: bool  #: a desktop lives on it, which comes and goes as it likes
    used_bytes: int


def take_inventory(load: Callable[[], Any] = nvml_module) -> Inventory:
    """What is there now; without a driver: nothing, which is no fault."""
    try:
        nvml = Nvml(load)
    except NvmlUnavailableError as error:
        return Inventory(problems=(str(error),))
    try:
        return inventory_of(nvml)
    finally:
        nvml.close()


def inventory_of(nvml: Nvml) -> Inventory:
    """By an open connection."""
    module = nvml.module
    gpus: list[Gpu] = []
    problems: list[str] = []
    try:
        count = int(module.nvmlDeviceGetCount())
        driver = text_of(module.nvmlSystemGetDriverVersion())
    except module.NVMLError as error:
        return Inventory(problems=(f"NVML: {error}",))
    for index in range(count):
        try:
            gpus += _of_card(nvml, module.nvmlDeviceGetHandleByIndex(index), index)
        except module.NVMLError as error:
            problems.append(f"card {index}: NVML says: {error}")
        except InfrastructureError as error:
            problems.append(f"card {index}: {error}")
    return Inventory(
        gpus=tuple(gpus), driver=driver, cuda=_cuda(nvml), problems=tuple(problems)
    )  # fmt: skip


def look_at(nvml: Nvml, uuid: str) -> Condition:
    """How a device is now.

    Raises:
        DeviceLostError: it is lost, or vanished.
        InfrastructureError: NVML refused for another reason.
    """
    handle = nvml.handle(uuid)
    with nvml.asking(uuid) as module:
        used = int(module.nvmlDeviceGetMemoryInfo(handle).used)
        # Who may not see processes sees the memory that they hold.
        computing = _processes(nvml, module.nvmlDeviceGetComputeRunningProcesses, handle)
        drawing = _processes(nvml, module.nvmlDeviceGetGraphicsRunningProcesses, handle)
    return Condition(
        # A desktop's program that computes, too, is listed twice: it is no leftover.
        pids=tuple(sorted({int(p.pid) for p in computing} - {int(p.pid) for p in drawing})),
        shows_graphics=bool(drawing),
        used_bytes=used,
    )


def lost(nvml: Nvml, device: str) -> str | None:
    """Why nothing can be run on a device; None: it answers, or is a processor slot."""
    if not device.startswith(("GPU-", "MIG-")):
        return None
    try:
        look_at(nvml, device)
    except DeviceLostError as error:
        return str(error)
    except InfrastructureError:
        return None
    return None


def _processes(nvml: Nvml, call: Callable[[Any], Any], handle: Any) -> list[Any]:
    try:
        return list(call(handle))
    except nvml.module.NVMLError as error:
        if nvml.is_one_of(error, "NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_NO_PERMISSION"):
            return []
        raise


def _of_card(nvml: Nvml, card: Any, index: int) -> Iterator[Gpu]:
    module = nvml.module
    minor = nvml.maybe(module.nvmlDeviceGetMinorNumber, card)
    uuid = text_of(module.nvmlDeviceGetUUID(card))
    mode = nvml.maybe(module.nvmlDeviceGetMigMode, card)  # [now, after a reset]
    if mode is None or mode[0] != module.NVML_DEVICE_MIG_ENABLE:
        yield _gpu(module, card, index=index, minor=minor, mig=None)
        return
    found = 0
    for place in range(int(nvml.maybe(module.nvmlDeviceGetMaxMigDeviceCount, card) or 0)):
        instance = nvml.maybe(module.nvmlDeviceGetMigDeviceHandleByIndex, card, place)
        if instance is None:
            continue  # places without an instance are gaps
        found += 1
        mig = Mig(
            card=uuid,
            gpu_instance=int(module.nvmlDeviceGetGpuInstanceId(instance)),
            compute_instance=int(module.nvmlDeviceGetComputeInstanceId(instance)),
        )
        yield _gpu(module, instance, index=index, minor=minor, mig=mig)
    if not found:
        raise InfrastructureError(f"{uuid} is in MIG mode and has no instance: nvidia-smi mig -cgi")


def _gpu(module: Any, handle: Any, *, index: int, minor: int | None, mig: Mig | None) -> Gpu:
    return Gpu(
        uuid=text_of(module.nvmlDeviceGetUUID(handle)),
        name=text_of(module.nvmlDeviceGetName(handle)),
        memory_bytes=int(module.nvmlDeviceGetMemoryInfo(handle).total),
        index=index,
        minor=minor,
        mig=mig,
    )


def _cuda(nvml: Nvml) -> str | None:
    version = nvml.maybe(nvml.module.nvmlSystemGetCudaDriverVersion)
    return None if version is None else f"{int(version) // 1000}.{int(version) % 1000 // 10}"


__all__ = [
    "ALL",
    "MIB",
    "Condition",
    "DeviceLostError",
    "Gpu",
    "Inventory",
    "Mig",
    "inventory_of",
    "look_at",
    "lost",
    "take_inventory",
]  # fmt: skip
