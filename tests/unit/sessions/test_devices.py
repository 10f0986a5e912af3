"""A session's runners get GPUs where there are any; what can't be is refused before it begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.fake_gpus import FakeGpus, uuid

from overnight.configuration import resolve_loop
from overnight.contracts.errors import ConfigError, SessionHeldError
from overnight.devices.inventory import Inventory, take_inventory
from overnight.runner.hardware import DeviceLock
from overnight.sessions import devices
from overnight.sessions.devices import (
    check_devices,
    device_notes,
    hold_now,
    runner_devices,
    runners_here,
)


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    made = FakeGpus(tmp_path / "nvml.json")
    module = made.load(monkeypatch)
    monkeypatch.setattr(devices, "take_inventory", lambda: take_inventory(lambda: module))
    return made


def here() -> Inventory:
    found: Inventory = devices.take_inventory()
    return found


def resolved(folder: Path, **keys: Any) -> Any:
    (folder / "train.py").write_text("print(1)\n")
    text = "metric: loss\nrun_cmd: python train.py\neditable_files: train.py\n"
    text += "".join(f"{key}: {value}\n" for key, value in keys.items())
    return resolve_loop(folder, flags={}, environ={}, loop_text=text)


@pytest.mark.parametrize(
    ("cards", "gpus_each", "runners"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 0, None), (0, 1, None)]
)
def test_auto_is_as_many_as_experiments_fit(
    cards: int, gpus_each: int, runners: int | None, gpus: FakeGpus, tmp_path: Path
) -> None:
    for number in range(cards):
        gpus.add(number)
    loop = resolved(tmp_path, gpus=gpus_each)
    check_devices(loop, here())
    many = runners_here(loop.config, here())
    found = runner_devices(loop.config, many, here())

    assert many == (runners or os.cpu_count())
    assert len(found) == many
    if runners is None:
        assert found == [(f"cpu:{n}",) for n in range(many)]
    else:
        assert [share[0] for share in found] == [uuid(n * gpus_each) for n in range(many)]


@pytest.mark.parametrize(
    ("cards", "keys", "line"),
    [
        (0, {"gpus": 8}, "gpus: 8: each experiment needs 8 GPUs, this machine has none .NVML"),
        (4, {"gpus": 8}, "gpus: 8: each experiment needs 8 GPUs, this machine has 4; lower it"),
        (2, {"pools": "{default: {runners: 4}}"},
         "pools.default.runners: 4 experiments at a time with gpus: 1 need 4 GPUs, this machine "
         "has 2; lower it, or set gpus: 0 for a training that needs no GPU"),
    ],
)  # fmt: skip
def test_what_a_machine_has_not_is_refused_in_one_line(
    cards: int, keys: dict[str, Any], line: str, gpus: FakeGpus, tmp_path: Path
) -> None:
    for number in range(cards):
        gpus.add(number)
    if not cards:
        gpus.host["init_error"] = 9
        gpus.save()

    with pytest.raises(ConfigError, match=line):
        check_devices(resolved(tmp_path, **keys), here())


def test_a_user_is_told_which_cards_are_used_and_which_are_not(
    gpus: FakeGpus, tmp_path: Path
) -> None:
    for number in range(5):
        gpus.add(number)
    gpus.host["cards"][0] = None
    gpus.save()
    config = resolved(tmp_path, gpus=2).config

    assert device_notes(config, here(), 2) == (
        "4 x NVIDIA H100 80GB HBM3: 2 at a time, 2 GPUs each",
        "not used: card 0: NVML says: GPU is lost",
    )
    assert device_notes(resolved(tmp_path, gpus=0).config, here(), 2) == ()


def test_once_takes_free_cards_and_frees_them(gpus: FakeGpus, tmp_path: Path) -> None:
    for number in range(3):
        gpus.add(number)
    environ = {"OVERNIGHT_DEVICE_LOCKS": str(tmp_path / "locks")}
    config = resolved(tmp_path, gpus=2).config
    other = DeviceLock(tmp_path / "locks", uuid(1))
    assert other.try_acquire()
    for _ in range(2):
        with hold_now(config, environ) as held:
            assert held.gpus == (uuid(0), uuid(2))
            assert held.hardware == "gpu NVIDIA H100 80GB HBM3 x2, driver 570.133.20"
            with pytest.raises(SessionHeldError, match="in use"), hold_now(config, environ):
                pass


def test_once_without_a_gpu_takes_a_processor_slot(gpus: FakeGpus, tmp_path: Path) -> None:
    environ = {"OVERNIGHT_DEVICE_LOCKS": str(tmp_path / "locks")}
    with hold_now(resolved(tmp_path).config, environ) as held:
        assert (held.device, held.gpus) == ("cpu:0", ())
        assert held.hardware.startswith("cpu ")
