"""A sandbox is granted exactly its GPUs: by UUID, as device files, in a container's request."""

from __future__ import annotations

from pathlib import Path

from overnight.devices.granting import device_nodes, device_request, is_gpu, visible_env
from overnight.devices.inventory import Gpu, Mig


def gpu(minor: int, mig: Mig | None = None) -> Gpu:
    return Gpu(uuid=f"GPU-{minor}", name="x", memory_bytes=1, index=0, minor=minor, mig=mig)


def test_a_container_s_request_names_uuids_and_never_a_count() -> None:
    assert device_request(["GPU-a", "MIG-b"]) == {
        "Driver": "nvidia",
        "Count": 0,
        "DeviceIDs": ["GPU-a", "MIG-b"],
        "Capabilities": [["gpu"]],
        "Options": {},
    }


def test_a_processor_slot_asks_the_engine_for_nothing() -> None:
    assert device_request(["cpu:0"]) is None
    assert device_request([]) is None
    assert visible_env(["cpu:0"]) == {}
    assert (is_gpu("cpu:0"), is_gpu("GPU-1"), is_gpu("MIG-1")) == (False, True, True)


def test_a_candidate_s_cuda_counts_its_own_devices_only() -> None:
    assert visible_env(["GPU-b", "GPU-a"]) == {
        "CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a",
        "NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-a",
    }


def test_only_the_granted_card_s_file_is_seen(tmp_path: Path) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia-modeset"):
        (dev / name).touch()

    assert device_nodes([gpu(1)], tmp_path) == ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1")


def test_a_mig_instance_brings_its_two_rights(tmp_path: Path) -> None:
    rights = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi7"
    (rights / "ci0").mkdir(parents=True)
    (rights / "access").write_text("DeviceFileMinor: 66\nDeviceFileMode: 292\n")
    (rights / "ci0" / "access").write_text("DeviceFileMinor: 67\n")
    caps = tmp_path / "dev" / "nvidia-caps"
    caps.mkdir(parents=True)
    for number in (66, 67, 75):
        (caps / f"nvidia-cap{number}").touch()
    (tmp_path / "dev" / "nvidia0").touch()
    mine = gpu(0, Mig(card="GPU-0", gpu_instance=7, compute_instance=0))

    assert device_nodes([mine], tmp_path) == (
        "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67",
    )  # fmt: skip
