"""What makes a sandbox see exactly the GPUs that it was granted, by UUID. Not run on a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from overnight.devices.inventory import Gpu

#: Every CUDA program opens these; none of them gives a card.
_SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d+)\s*$", re.MULTILINE)


def device_request(devices: Iterable[str]) -> dict[str, Any] | None:
    """One entry of HostConfig.DeviceRequests in the Docker engine's API; None: no GPU.

    Never a count: the engine would choose, and -1 means all that the host has.
    """
    uuids = [device for device in devices if is_gpu(device)]
    if not uuids:
        return None
    return {"Driver": "nvidia", "Count": 0, "DeviceIDs": uuids, "Capabilities": [["gpu"]],
            "Options": {}}  # fmt: skip


def visible_env(devices: Iterable[str]) -> dict[str, str]:
    """Variables of the candidate; a CUDA program then counts its devices from 0."""
    uuids = ",".join(device for device in devices if is_gpu(device))
    return {"CUDA_VISIBLE_DEVICES": uuids, "NVIDIA_VISIBLE_DEVICES": uuids} if uuids else {}


def device_nodes(gpus: Iterable[Gpu], root: Path = Path("/")) -> tuple[str, ...]:
    """The device files for a sandbox without a container engine: of these GPUs and no other.

    root: where /dev and /proc are looked for. Files that are not there are left out.
    """
    nodes = [f"/dev/{name}" for name in _SHARED_NODES]
    for gpu in gpus:
        if gpu.minor is not None:
            nodes.append(f"/dev/nvidia{gpu.minor}")
        nodes += _capability_nodes(gpu, root)
    return tuple(node for node in dict.fromkeys(nodes) if _below(root, node).exists())


def is_gpu(device: str) -> bool:
    """Is it a GPU or a MIG instance, rather than a processor slot `cpu:<n>`?"""
    return device.startswith(("GPU-", "MIG-"))


def _capability_nodes(gpu: Gpu, root: Path) -> list[str]:
    """A MIG instance has two rights, each a device file of its own."""
    if gpu.mig is None or gpu.minor is None:
        return []
    instance = f"gpu{gpu.minor}/mig/gi{gpu.mig.gpu_instance}"
    found = []
    for access in (f"{instance}/access", f"{instance}/ci{gpu.mig.compute_instance}/access"):
        try:
            said = (_below(root, str(_CAPABILITIES)) / access).read_text()
        except OSError:
            continue
        minor = _MINOR.search(said)
        if minor is not None:
            found.append(f"/dev/nvidia-caps/nvidia-cap{minor[1]}")
    return found


def _below(root: Path, place: str) -> Path:
    return root / place.lstrip("/")
