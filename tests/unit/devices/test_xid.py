"""An Xid is the candidate's fault or the card's, and each is heard on the device that it hit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fake_gpus import NOT_SUPPORTED, FakeGpus, uuid

from overnight.devices.inventory import take_inventory
from overnight.devices.nvml import Nvml
from overnight.devices.watch import XidWatch
from overnight.devices.xid import CANDIDATES, HARDWARE, NOTED, Fault, Xid, worst


@pytest.mark.parametrize(
    ("number", "fault"),
    [(13, "candidate"), (31, "candidate"), (43, "candidate"), (45, "candidate"),
     (63, "noted"), (92, "noted"), (48, "hardware"), (79, "hardware"), (94, "hardware"),
     (9999, "hardware")],
)  # fmt: skip
def test_whose_fault_an_xid_is(number: int, fault: str) -> None:
    assert Xid("GPU-1", number).fault.value == fault


def test_no_number_is_two_faults_and_the_worst_decides() -> None:
    assert not set(CANDIDATES) & set(HARDWARE)
    assert not set(NOTED) & (set(HARDWARE) | set(CANDIDATES))
    cleanup, broken, noted = Xid("GPU-1", 45), Xid("GPU-1", 79), Xid("GPU-1", 63)

    assert worst([cleanup, broken, noted]) == broken
    assert worst([cleanup, noted]) == noted
    assert worst([]) is None
    assert broken.shown == "Xid 79 (fell off the bus) on GPU-1"
    assert Xid("GPU-1", 500).shown == "Xid 500 on GPU-1"


def _until(seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_events_are_heard_on_the_device_that_they_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = FakeGpus(tmp_path / "nvml.json", cards=2)
    gpus.add(2, mig=[gpus.instance(2, 0, 1), gpus.instance(2, 1, 2)])
    gpus.xid(uuid(0), 79)  # before we listened
    nvml = Nvml(lambda: gpus.load(monkeypatch))
    known = take_inventory(lambda: gpus.load(monkeypatch)).gpus
    mine = [gpu for gpu in known if gpu.uuid in (uuid(0), "MIG-2-1-0")]
    watch = XidWatch(nvml, mine)

    assert watch.start()
    try:
        began = time.monotonic()
        gpus.xid(uuid(1), 48)  # another's card
        gpus.xid(uuid(2), 94, gi=2, ci=0)  # another's instance
        gpus.xid(uuid(2), 31, gi=1, ci=0)
        gpus.xid(uuid(2), 79)  # the whole card, and so ours
        gpus.xid(uuid(0), 13)
        _until(lambda: len(watch.since(began)) >= 3)

        assert watch.since(began) == (
            Xid("MIG-2-1-0", 31), Xid("MIG-2-1-0", 79), Xid(uuid(0), 13),
        )  # fmt: skip
        assert watch.since(time.monotonic()) == ()
    finally:
        watch.stop()


def test_a_driver_that_tells_no_events_costs_nothing_but_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = FakeGpus(tmp_path / "nvml.json")
    gpus.add(0, errors={"nvmlDeviceRegisterEvents": NOT_SUPPORTED})
    known = take_inventory(lambda: gpus.load(monkeypatch)).gpus
    watch = XidWatch(Nvml(lambda: gpus.load(monkeypatch)), known)

    assert not watch.start()
    assert watch.since(0.0) == ()


def test_the_classes_have_words() -> None:
    assert {Fault.CANDIDATE, Fault.NOTED, Fault.HARDWARE} == set(Fault)
    assert all(words for words in {**CANDIDATES, **NOTED, **HARDWARE}.values())
