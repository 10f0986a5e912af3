"""A stand-in for nvidia-ml-py: what the JSON file that FAKE_NVML names says, at each call anew.

Put this folder first on PYTHONPATH: the product imports it as it would the real module, and has no
switch of its own for it. `tests/fake_gpus.py` writes the file.
"""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import Any

NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_TIMEOUT = 10
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_RESET_REQUIRED = 16
NVML_ERROR_GPU_NOT_FOUND = 28
NVML_ERROR_UNKNOWN = 999
NVML_DEVICE_MIG_ENABLE = 1
nvmlEventTypeXidCriticalError = 8
WHOLE_CARD = 0xFFFFFFFF
_WORDS = {
    3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found", 9: "Driver Not Loaded",
    10: "Timeout", 15: "GPU is lost", 16: "GPU requires restart", 999: "Unknown Error",
}  # fmt: skip


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(_WORDS.get(value, f"error {value}"))
        self.value = value


def _host() -> dict[str, Any]:
    with open(os.environ["FAKE_NVML"]) as file:
        host: dict[str, Any] = json.load(file)
    return host


def _find(uuid: str) -> dict[str, Any]:
    for card in _host()["cards"]:
        if card is None:
            continue
        for device in (card, *(card.get("mig") or ())):
            if device["uuid"] == uuid:
                return {**device, "card": card}
    raise NVMLError(NVML_ERROR_NOT_FOUND)


def _ask(handle: str, call: str) -> dict[str, Any]:
    device = _find(handle)
    for errors in (device.get("errors", {}), device["card"].get("errors", {})):
        code = errors.get(call, errors.get("*"))
        if code is not None:
            raise NVMLError(code)
    return device


def nvmlInit() -> None:
    if _host().get("init_error") is not None:
        raise NVMLError(_host()["init_error"])


def nvmlShutdown() -> None: ...


def nvmlSystemGetDriverVersion() -> str:
    return str(_host().get("driver", "570.133.20"))


def nvmlSystemGetCudaDriverVersion() -> int:
    return int(_host().get("cuda", 12080))


def nvmlDeviceGetCount() -> int:
    return len(_host()["cards"])


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    card = _host()["cards"][index]
    if card is None:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    _ask(card["uuid"], "nvmlDeviceGetHandleByIndex")
    return str(card["uuid"])


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    _ask(uuid, "nvmlDeviceGetHandleByUUID")
    return uuid


def nvmlDeviceGetUUID(handle: str) -> str:
    return handle


def nvmlDeviceGetName(handle: str) -> str:
    return str(_ask(handle, "nvmlDeviceGetName")["name"])


def nvmlDeviceGetMinorNumber(handle: str) -> int:
    return int(_ask(handle, "nvmlDeviceGetMinorNumber")["card"]["minor"])


def nvmlDeviceGetMemoryInfo(handle: str) -> Any:
    device = _ask(handle, "nvmlDeviceGetMemoryInfo")
    return SimpleNamespace(total=device["memory_mb"] * 2**20, used=device["used_mb"] * 2**20)


def nvmlDeviceGetComputeRunningProcesses(handle: str) -> list[Any]:
    device = _ask(handle, "nvmlDeviceGetComputeRunningProcesses")
    return [SimpleNamespace(pid=pid) for pid in device["processes"]]


def nvmlDeviceGetGraphicsRunningProcesses(handle: str) -> list[Any]:
    device = _ask(handle, "nvmlDeviceGetGraphicsRunningProcesses")
    return [SimpleNamespace(pid=pid) for pid in device["graphics"]]


def nvmlDeviceGetMigMode(handle: str) -> list[int]:
    mig = _ask(handle, "nvmlDeviceGetMigMode").get("mig")
    if mig is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return [NVML_DEVICE_MIG_ENABLE, NVML_DEVICE_MIG_ENABLE]


def nvmlDeviceGetMaxMigDeviceCount(handle: str) -> int:
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(handle: str, index: int) -> str:
    for instance in _ask(handle, "nvmlDeviceGetMigDeviceHandleByIndex")["mig"]:
        if instance["place"] == index:
            return str(instance["uuid"])
    raise NVMLError(NVML_ERROR_NOT_FOUND)


def nvmlDeviceGetGpuInstanceId(handle: str) -> int:
    return int(_ask(handle, "nvmlDeviceGetGpuInstanceId")["gi"])


def nvmlDeviceGetComputeInstanceId(handle: str) -> int:
    return int(_ask(handle, "nvmlDeviceGetComputeInstanceId")["ci"])


def nvmlEventSetCreate() -> dict[str, Any]:
    return {"read": len(_host()["events"]), "cards": set()}


def nvmlDeviceRegisterEvents(handle: str, kinds: int, events: dict[str, Any]) -> None:
    _ask(handle, "nvmlDeviceRegisterEvents")
    events["cards"].add(handle)


def nvmlEventSetWait_v2(events: dict[str, Any], timeout_ms: int) -> Any:
    until = time.monotonic() + timeout_ms / 1000
    while True:
        for event in _host()["events"][events["read"] :]:
            events["read"] += 1
            if event["uuid"] in events["cards"]:
                return SimpleNamespace(
                    device=event["uuid"], eventType=8, eventData=event["xid"],
                    gpuInstanceId=event.get("gi", WHOLE_CARD),
                    computeInstanceId=event.get("ci", WHOLE_CARD),
                )  # fmt: skip
        if time.monotonic() >= until:
            raise NVMLError(NVML_ERROR_TIMEOUT)
        time.sleep(0.01)


def nvmlEventSetFree(events: dict[str, Any]) -> None: ...
