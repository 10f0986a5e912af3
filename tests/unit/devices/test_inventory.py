"""Devices are named by UUID, MIG instances are devices themselves, one bad card hides no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fake_gpus import LOST, NO_PERMISSION, NOT_SUPPORTED, UNKNOWN, FakeGpus, uuid

from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.devices.inventory import Condition, Mig, look_at, take_inventory
from overnight.devices.nvml import DeviceLostError, Nvml


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    return FakeGpus(tmp_path / "nvml.json")


def test_cards_are_told_in_order_with_what_a_person_wants_to_know(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.add(0)
    gpus.add(1, name="NVIDIA RTX 6000", memory_mb=49140)
    found = take_inventory(lambda: gpus.load(monkeypatch))

    assert [(g.uuid, g.name, g.index, g.minor) for g in found.gpus] == [
        (uuid(0), "NVIDIA H100 80GB HBM3", 0, 0),
        (uuid(1), "NVIDIA RTX 6000", 1, 1),
    ]
    assert (found.driver, found.cuda, found.problems) == ("570.133.20", "12.8", ())


def test_a_card_that_fails_leaves_a_gap_and_a_word(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        gpus.add(number)
    gpus.host["cards"][1] = None
    gpus.save()
    found = take_inventory(lambda: gpus.load(monkeypatch))

    assert [(g.uuid, g.index) for g in found.gpus] == [(uuid(0), 0), (uuid(2), 2)]
    assert found.problems == ("card 1: NVML says: GPU is lost",)


def test_a_card_in_mig_mode_is_its_instances(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places may be gaps, too."""
    gpus.add(0, mig=[gpus.instance(0, 0, 7), gpus.instance(0, 3, 9)])
    gpus.add(1)
    found = take_inventory(lambda: gpus.load(monkeypatch))

    assert [g.uuid for g in found.gpus] == ["MIG-0-7-0", "MIG-0-9-0", uuid(1)]
    assert found.gpus[1].mig == Mig(card=uuid(0), gpu_instance=9, compute_instance=0)
    assert (found.gpus[1].minor, found.gpus[1].memory_bytes) == (0, 9728 * 2**20)
    assert found.gpus[2].mig is None


def test_a_card_in_mig_mode_without_an_instance_can_t_be_used(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.add(0, mig=[])
    found = take_inventory(lambda: gpus.load(monkeypatch))

    assert found.gpus == ()
    assert "is in MIG mode and has no instance: nvidia-smi mig" in found.problems[0]


def test_a_list_of_uuids_restricts_and_keeps_the_machine_s_order(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        gpus.add(number)
    found = take_inventory(lambda: gpus.load(monkeypatch))

    assert [g.uuid for g in found.named(f"{uuid(3)}, {uuid(1)}")] == [uuid(1), uuid(3)]
    assert found.named("all") == found.gpus
    with pytest.raises(UsageError, match="--gpus GPU-7: no such device here; there are GPU-"):
        found.named("GPU-7")
    with pytest.raises(UsageError, match="names no device"):
        found.named(" ,")


def test_without_driver_or_module_there_is_none_and_why(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise ImportError("pynvml")

    gpus.host["init_error"] = 9
    gpus.save()
    for load, why in (
        (lambda: gpus.load(monkeypatch), "NVML: Driver Not Loaded"),
        (missing, "the package nvidia-ml-py is not installed"),
    ):
        found = take_inventory(load)
        assert (found.gpus, found.driver, found.problems) == ((), None, (why,))
        with pytest.raises(UsageError, match=f"this machine has no GPU .{why}"):
            found.named("GPU-1")


def test_a_device_s_condition_is_its_processes_and_memory(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.add(0, processes=[12, 7, 5], graphics=[3, 5], used_mb=900)
    nvml = Nvml(lambda: gpus.load(monkeypatch))

    assert look_at(nvml, uuid(0)) == Condition(
        pids=(7, 12), shows_graphics=True, used_bytes=900 * 2**20
    )
    for refusal in (NOT_SUPPORTED, NO_PERMISSION):
        gpus.change(uuid(0), errors={"nvmlDeviceGetComputeRunningProcesses": refusal})
        assert look_at(nvml, uuid(0)).pids == (), "its memory is seen all the same"


@pytest.mark.parametrize("error", [LOST, UNKNOWN, 16])
def test_a_lost_card_is_told_from_one_that_only_refuses(
    error: int, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.add(0, errors={"*": error})
    nvml = Nvml(lambda: gpus.load(monkeypatch))
    with pytest.raises(DeviceLostError, match=f"{uuid(0)}: NVML says"):
        look_at(nvml, uuid(0))

    gpus.change(uuid(0), errors={"nvmlDeviceGetMemoryInfo": NO_PERMISSION})
    with pytest.raises(InfrastructureError, match="Insufficient Permissions") as refused:
        look_at(nvml, uuid(0))
    assert not isinstance(refused.value, DeviceLostError)


def test_a_card_that_vanished_is_lost(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.add(0)
    nvml = Nvml(lambda: gpus.load(monkeypatch))
    gpus.vanish(uuid(0))

    with pytest.raises(DeviceLostError, match="Not Found"):
        look_at(nvml, uuid(0))


def test_the_stand_in_has_no_name_that_the_real_module_lacks(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a misspelled call would pass here and fail on the first GPU."""
    real = pytest.importorskip("pynvml")
    ours = gpus.load(monkeypatch)
    names = [n for n in vars(ours) if n.lower().startswith("nvml")]

    assert len(names) > 25
    assert [name for name in names if not hasattr(real, name)] == []
    codes = [n for n in names if n.startswith("NVML_ERROR") or n == "NVML_DEVICE_MIG_ENABLE"]
    assert [n for n in codes if getattr(ours, n) != getattr(real, n)] == []
    assert ours.nvmlEventTypeXidCriticalError == real.nvmlEventTypeXidCriticalError
