"""Which worker gets which devices, what is refused in one line, and who then pauses the session."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.unit.devices.test_sharing import cards, instances

from overnight.configuration import SupervisorSettings
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.contracts.rows import LedgerMessage
from overnight.devices.inventory import Inventory
from overnight.runner.fleet import Fleet, Worker, groups_of, pause_unless_served, workers_of

SID = "0123456789ab"


def take(number: int) -> Any:
    return lambda: Inventory(gpus=cards(number), problems=("card 9: NVML says: GPU is lost",))


def never() -> Inventory:
    raise AssertionError("nobody asked for a GPU")


def test_processor_slots_need_no_driver() -> None:
    assert groups_of(None, 3, 1, never) == [("cpu:0",), ("cpu:1",), ("cpu:2",)]


def test_a_list_restricts_the_fleet_to_those_cards() -> None:
    assert groups_of("GPU-3,GPU-1", None, 2, take(4)) == [("GPU-1", "GPU-3")]
    assert len(groups_of("all", None, 1, take(4))) == 4


@pytest.mark.parametrize(
    ("asked", "each", "have", "line"),
    [
        (("all", None), 8, take(2),
         "each experiment of this session (gpus: 8) needs 8 GPUs, this machine has 2 (card 9: "
         "NVML says: GPU is lost)"),
        (("all", None), 1, take(0), "each experiment of this session (gpus: 1) needs 1 GPU, this "
         "machine has none (card 9: NVML says: GPU is lost)"),
        (("GPU-7", None), 1, take(1), "--gpus GPU-7: no such device here; there are GPU-0"),
        (("all", None), 2, lambda: Inventory(gpus=instances(2)),
         "each experiment of this session (gpus: 2) needs 2 GPUs, this machine has none: its 2 MIG "
         "instances can't be used together by one experiment"),
        (("all", None), 0, never, "the experiments of this session want no GPU (gpus: 0): start "
         "runners with --workers N"),
        ((None, 2), 2, never, "each experiment of this session needs 2 GPUs (gpus: 2): start its "
         "runners with --gpus all, on a machine that has them"),
    ],
)  # fmt: skip
def test_what_can_t_be_is_one_line(
    asked: tuple[str | None, int | None], each: int, have: Any, line: str
) -> None:
    with pytest.raises(UsageError) as refused:
        groups_of(*asked, each, have)

    assert str(refused.value) == line


def test_workers_are_named_by_the_order_of_the_devices() -> None:
    made = workers_of([("GPU-0", "GPU-1"), ("GPU-1", "GPU-0")], ("--pool", "p"), 3)

    assert [worker.slot for worker in made] == ["r0", "r1"]
    assert made[1].argv == (
        "--pool", "p", "--slot", "r1", "--metrics-offset", "4",
        "--device", "GPU-1", "--device", "GPU-0",
    )  # fmt: skip


@pytest.mark.parametrize(("living", "pauses"), [([], True), (["r9"], False)])
def test_a_session_that_nobody_can_serve_pauses_and_says_why(
    living: list[str], pauses: bool
) -> None:
    """Else its jobs would wait for ever; runners elsewhere may have what is missing here."""
    sent: list[LedgerMessage] = []
    flags, sender = MagicMock(), MagicMock()
    flags.runners.return_value = living
    sender.send_until_acked.side_effect = lambda message, **_: sent.append(message)
    pause_unless_served(flags, sender, SID, "needs 8 GPUs", lambda: False)

    assert [(m.body["action"], m.body["why"]) for m in sent] == (
        [("pause", "needs 8 GPUs")] if pauses else []
    )


def test_a_pause_that_can_t_be_recorded_hides_no_reason() -> None:
    flags = MagicMock()
    flags.runners.side_effect = InfrastructureError("redis is away")

    pause_unless_served(flags, MagicMock(), SID, "needs 8 GPUs", lambda: False)


def test_what_a_worker_waits_for_the_fleet_says_once_and_takes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = (
        "import os, sys, time; fd = int(sys.argv[sys.argv.index('--ready-fd') + 1])\n"
        'os.write(fd, b\'{"waiting": "a password"}\\n\'); time.sleep(0.3)\n'
        "os.write(fd, b'{\"waiting\": null}\\n'); time.sleep(60)"
    )
    monkeypatch.setattr(
        "overnight.runner.fleet.service_argv", lambda *words: [sys.executable, "-c", says]
    )
    ending, told = Event(), list[str | None]()

    def on_wait(why: str | None) -> None:
        told.append(why)
        if why is None:
            ending.set()

    fleet = Fleet([Worker(slot="r0", argv=())], tmp_path, SupervisorSettings(), on_wait)

    assert fleet.run(ending) == 0
    assert told == ["r0: a password", None]
