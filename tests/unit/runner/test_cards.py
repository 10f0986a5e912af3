"""A device that is lost, busy or failing costs no idea its verdict, and takes no job meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.fake_gpus import LOST, NO_PERMISSION, FakeGpus, uuid
from tests.unit.runner.test_quarantine import Clean

from overnight.configuration.devices import DeviceSettings
from overnight.contracts.experiment import ExperimentResult
from overnight.devices.inventory import inventory_of
from overnight.devices.nvml import Nvml
from overnight.runner import quarantine
from overnight.runner.cards import Cards
from overnight.runner.quarantine import Notice, Quarantine

PROFILE = "cards"  #: where rows of the abuse catalogue are shown here


def result(status: str = "scored", **more: Any) -> ExperimentResult:
    metric = 1.5 if status == "scored" else None
    return ExperimentResult.model_validate(
        {"id": 7, "attempt": 1, "sender": "r0", "status": status, "metric": metric, **more}
    )


@dataclass
class Bench:
    """One worker's cards, and the host that they are on."""

    host: FakeGpus
    load: Callable[[], Any]
    alone: bool = True
    opened: list[Cards] = field(default_factory=list)

    def cards(self, *wanted: str, **settings: Any) -> Cards:
        nvml = Nvml(self.load)
        gpus = tuple(g for g in inventory_of(nvml).gpus if not wanted or g.uuid in wanted)
        made = Cards(
            gpus=gpus, nvml=nvml, settings=DeviceSettings(**settings), is_alone=lambda: self.alone
        )
        self.opened.append(made)
        return made


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    host = FakeGpus(tmp_path / "nvml.json", cards=2)
    monkeypatch.setattr("overnight.devices.watch.WAIT_MS", 20)
    monkeypatch.setattr(quarantine, "LOOK_SECONDS", 0.05)
    made = Bench(host, lambda: host.load(monkeypatch))
    yield made
    for cards in made.opened:
        cards.close()


def test_a_processor_slot_has_no_cards_and_nothing_to_say() -> None:
    none = Cards()
    none.begin()
    none.ended(result("infra", reason="sandbox"))

    assert none.judge(result()) == result()
    assert none.trouble() is None


@pytest.mark.parametrize(
    "lose",
    [
        lambda host: host.change(uuid(0), errors={"*": LOST}),
        lambda host: host.vanish(uuid(0)),
    ],
)
@pytest.mark.parametrize("status", ["scored", "crash", "timeout"])
def test_a_card_that_is_lost_makes_the_attempt_nobody_s_fault(
    lose: Callable[[FakeGpus], None], status: str, bench: Bench
) -> None:
    """P22: a card that is lost."""
    """Without any Xid: NVML says that it is lost, or lists it no more."""
    cards = bench.cards(uuid(0))
    cards.begin()
    assert cards.judge(result(status)) == result(status), "all is well"
    lose(bench.host)
    found = cards.judge(result(status, reason=None, signature="RuntimeError train.py"))

    assert (found.status.value, found.reason, found.metric) == ("infra", "device_lost", None)
    assert found.detail.startswith(f"{uuid(0)}: NVML says: ")
    assert found.signature is None, "it tells no kind of crash"
    trouble = cards.trouble()
    assert trouble is not None
    assert (trouble.reason, trouble.grace_seconds) == (found.detail, 0.0)


def test_another_card_s_loss_is_another_worker_s(bench: Bench) -> None:
    cards = bench.cards(uuid(1))
    bench.host.change(uuid(0), errors={"*": LOST})

    assert cards.judge(result()) == result()
    assert cards.trouble() is None


def _heard(cards: Cards, number: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if cards._watch is not None and len(cards._watch.since(0)) >= number:
            return
        time.sleep(0.01)
    raise AssertionError("the event was not heard")


def test_a_hardware_xid_is_named_and_runs_the_attempt_again(bench: Bench) -> None:
    """P22: an Xid of the card's."""
    cards = bench.cards(uuid(0))
    cards.begin()
    bench.host.xid(uuid(0), 45)
    bench.host.xid(uuid(0), 94)
    _heard(cards, 2)
    found = cards.judge(result("crash", reason="exit_code"))

    assert (found.status.value, found.reason) == ("infra", "xid")
    assert found.detail == f"Xid 94 (contained memory error) on {uuid(0)}"

    cards.begin()
    assert cards.judge(result()) == result(), "the next attempt has nothing to do with it"


def test_an_application_s_xid_stays_the_candidate_s_with_a_flag(bench: Bench) -> None:
    """P22: an Xid of the candidate's."""
    cards = bench.cards(uuid(0))
    cards.begin()
    bench.host.xid(uuid(0), 31)
    bench.host.xid(uuid(0), 45)
    _heard(cards, 2)
    found = cards.judge(result("crash", reason="exit_code", flags=("multiple_metric_lines",)))

    assert (found.status.value, found.reason) == ("crash", "exit_code")
    assert found.flags == ("multiple_metric_lines", "xid_31", "xid_45")


def test_what_we_ended_ourselves_stays_cancelled(bench: Bench) -> None:
    cards = bench.cards(uuid(0))
    bench.host.change(uuid(0), errors={"*": LOST})

    assert cards.judge(result("cancelled")).status.value == "cancelled"


def test_memory_that_nobody_holds_is_waited_for(bench: Bench) -> None:
    """P21: memory that no process holds."""
    cards = bench.cards(uuid(0), clear_seconds=30)
    assert cards.trouble() is None
    bench.host.change(uuid(0), used_mb=30_000)
    held = cards.trouble()
    assert held is not None
    assert "29996 MiB of its memory are held by no process that we see" in held.reason
    assert held.grace_seconds == 30
    bench.host.change(uuid(0), used_mb=300)

    assert cards.trouble() is None


def test_memory_that_was_left_before_we_came_is_seen_too(bench: Bench) -> None:
    bench.host.change(uuid(0), used_mb=30_000)
    trouble = bench.cards(uuid(0)).trouble()

    assert trouble is not None
    assert "held by no process" in trouble.reason


def test_a_desktop_on_the_card_is_no_leftover(bench: Bench) -> None:
    bench.host.change(uuid(0), used_mb=30_000, graphics=[99])

    assert bench.cards(uuid(0)).trouble() is None


def test_a_stranger_s_process_keeps_the_card_busy(bench: Bench) -> None:
    bench.host.change(uuid(0), processes=[4711], used_mb=9000)
    trouble = bench.cards(uuid(0)).trouble()

    assert trouble is not None
    assert trouble.reason == f"{uuid(0)}: pid 4711 still uses it"


def test_who_may_not_look_runs_all_the_same(bench: Bench) -> None:
    cards = bench.cards(uuid(0))
    bench.host.change(uuid(0), errors={"nvmlDeviceGetMemoryInfo": NO_PERMISSION})

    assert cards.trouble() is None
    assert cards.judge(result()) == result()


def test_a_card_that_fails_fast_rests_while_others_live(bench: Bench) -> None:
    """P22: a card that fails fast."""
    cards = bench.cards(uuid(0), failures=2, pause_seconds=60)
    bench.alone = False
    cards.ended(result("infra", reason="sandbox", detail="docker: no device"))
    trouble = cards.trouble()

    assert trouble is not None
    assert trouble.reason == "it rests after a failure: docker: no device"
    cards.ended(result())
    assert cards.trouble() is None


def test_a_worker_that_is_alone_goes_on(bench: Bench) -> None:
    cards = bench.cards(uuid(0))
    for _ in range(4):
        cards.ended(result("infra", reason="sandbox", detail="x"))

    assert cards.trouble() is None


def test_a_quarantine_lies_beside_the_lock_and_is_lifted_when_the_card_is_clear(
    bench: Bench, tmp_path: Path
) -> None:
    """P21: memory kept by a process that was killed."""
    cards = bench.cards(clear_seconds=0.3)
    waiting: list[str | None] = []
    gauge: list[float] = []
    paths = [tmp_path / f"{gpu.uuid}.quarantined" for gpu in cards.gpus]
    kept = Quarantine(
        executor=Clean(), sid="s", runner="r0", device="2 GPUs",  # type: ignore[arg-type]
        notice=Notice(paths[0]), beside=(Notice(paths[1]),),
        should_stop=lambda: False, say_waiting=waiting.append, set_gauge=gauge.append,
        trouble=cards.trouble,
    )  # fmt: skip
    assert kept.wait() is True
    bench.host.change(uuid(1), used_mb=30_000)
    bench.host.change(uuid(1), processes=[1234])
    began = time.monotonic()
    looks: list[str] = []

    def should_stop() -> bool:
        if all(path.exists() for path in paths):
            looks.append(json.loads(paths[1].read_text())["reason"])
            bench.host.change(uuid(1), used_mb=4, processes=[])
        return False

    kept.should_stop = should_stop
    assert kept.wait() is False

    assert looks[0] == f"{uuid(1)}: pid 1234 still uses it"
    assert time.monotonic() - began >= 0.3, "only after its grace"
    assert gauge == [1, 0]
    assert waiting == [f"2 GPUs is quarantined: {looks[0]}", None]
    assert [path.exists() for path in paths] == [False, False]


def test_memory_that_comes_back_in_time_is_no_quarantine(bench: Bench, tmp_path: Path) -> None:
    cards = bench.cards(uuid(0), clear_seconds=30)
    told: list[Any] = []
    asked = iter(range(10**6))

    def should_stop() -> bool:
        if next(asked) == 3:
            bench.host.change(uuid(0), used_mb=4)
        return False

    kept = Quarantine(
        executor=Clean(), sid="s", runner="r0", device=uuid(0),  # type: ignore[arg-type]
        notice=Notice(tmp_path / "q"), should_stop=should_stop, say_waiting=told.append,
        set_gauge=told.append, trouble=cards.trouble,
    )  # fmt: skip
    assert kept.wait() is True
    bench.host.change(uuid(0), used_mb=30_000)

    assert kept.wait() is True
    assert told == []
