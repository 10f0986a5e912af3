"""A worker leases all the devices that it needs or none, waits in line, and says for what."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from overnight.contracts.errors import SessionHeldError
from overnight.runner.hardware import DeviceLock, gpu_class
from overnight.runner.leasing import Lease, Leasing, TurnLock

CARDS = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")


def leasing(tmp_path: Path, needs: int, wanted: tuple[str, ...] = CARDS, **more: object) -> Leasing:
    session = str(more.pop("session", "session"))
    locks = tmp_path / "locks"
    return Leasing(
        folder=locks, turn=TurnLock(locks, session), wanted=wanted, needs=needs,
        poll_seconds=0.02, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def free(tmp_path: Path) -> list[str]:
    found = []
    for device in CARDS:
        lock = DeviceLock(tmp_path / "locks", device)
        if lock.try_acquire():
            found.append(device)
            lock.release()
    return found


def test_the_preferred_ones_are_taken_and_freed(tmp_path: Path) -> None:
    lease = leasing(tmp_path, 2, ("GPU-2", "GPU-3", "GPU-0")).acquire(lambda: False)

    assert lease.devices == ("GPU-2", "GPU-3")
    assert free(tmp_path) == ["GPU-0", "GPU-1"]
    lease.release()
    assert free(tmp_path) == list(CARDS)


def test_what_it_can_t_have_whole_it_leaves_alone(tmp_path: Path) -> None:
    """Or two that each hold a part would wait for each other for ever."""
    held = DeviceLock(tmp_path / "locks", "GPU-3")
    assert held.try_acquire()
    said: list[str | None] = []
    with pytest.raises(SessionHeldError):
        leasing(tmp_path, 4).acquire(lambda: bool(said), said.append)

    assert len(said) == 1
    assert said[0] is not None
    assert said[0].startswith("needs 4 devices, 3 are free: GPU-3 is held by pid ")
    held.release()
    assert free(tmp_path) == list(CARDS)


def test_a_device_that_is_unfit_is_passed_over_for_a_spare(tmp_path: Path) -> None:
    def unfit(device: str) -> str | None:
        return "GPU-0 is lost" if device == "GPU-0" else None

    assert leasing(tmp_path, 3, unfit=unfit).acquire(lambda: False).devices == CARDS[1:]


def test_a_worker_that_needs_many_is_not_overtaken_by_those_that_need_one(tmp_path: Path) -> None:
    """Of one session: it waits for its turn, then for the cards; nobody takes them meanwhile."""
    small = leasing(tmp_path, 1, ("GPU-0",)).acquire(lambda: False)
    big: list[Lease] = []
    waits: list[str | None] = []
    waiting = Thread(
        target=lambda: big.append(leasing(tmp_path, 4).acquire(lambda: False, waits.append))
    )
    waiting.start()
    _until(lambda: bool(waits))
    late: list[Lease] = []
    second = Thread(
        target=lambda: late.append(leasing(tmp_path, 1, ("GPU-1",)).acquire(lambda: False))
    )
    second.start()
    time.sleep(0.2)
    assert not late, "free, but not its turn"

    small.release()
    waiting.join(10)
    assert [lease.devices for lease in big] == [CARDS]
    time.sleep(0.1)
    assert not late
    big[0].release()
    second.join(10)
    assert [lease.devices for lease in late] == [("GPU-1",)]
    assert waits[-1] is None, "it no longer waits"


def test_two_sessions_that_want_the_same_cards_both_get_them_in_the_end(tmp_path: Path) -> None:
    ended: list[str] = []

    def work(session: str, wanted: tuple[str, ...]) -> None:
        for _ in range(10):
            lease = leasing(tmp_path, 3, wanted, session=session).acquire(lambda: False)
            time.sleep(0.005)
            lease.release()
        ended.append(session)

    both = [
        Thread(target=work, args=("a", CARDS)),
        Thread(target=work, args=("b", tuple(reversed(CARDS)))),
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(30)

    assert sorted(ended) == ["a", "b"]


def test_the_kernel_frees_what_a_killed_worker_held(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from overnight.runner.leasing import Leasing\n"
        "root = Path(sys.argv[1])\n"
        "Leasing(folder=root / 'locks', turn=None, wanted=('GPU-0', 'GPU-1'),\n"
        "        needs=2).acquire(lambda: False)\n"
        "print('held', flush=True); time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert free(tmp_path) == ["GPU-2", "GPU-3"]
    holder.kill()
    holder.wait()
    holder.stdout.close()

    assert free(tmp_path) == list(CARDS)


def test_the_hardware_class_names_cards_count_and_driver() -> None:
    assert gpu_class(["NVIDIA H100"] * 2, "570.1") == "gpu NVIDIA H100 x2, driver 570.1"
    assert gpu_class(["B", "A"], None) == "gpu A and B x2"


def _until(seen: object) -> None:
    deadline = time.monotonic() + 10
    assert callable(seen)
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_worker_lets_go_only_where_others_are_free_to_take_its_place(tmp_path: Path) -> None:
    broken: dict[str, str] = {}
    mine = leasing(tmp_path, 2, unfit=broken.get)
    lease = mine.acquire(lambda: False)
    broken["GPU-0"] = "GPU-0 is lost"
    others = [DeviceLock(tmp_path / "locks", device) for device in ("GPU-2", "GPU-3")]
    assert all(lock.try_acquire() for lock in others)

    assert not mine.can_replace(lease), "all others are held"
    others[1].release()
    assert mine.can_replace(lease)
    broken["GPU-3"] = "GPU-3 is lost too"
    assert not mine.can_replace(lease)
    lease.release()
    others[0].release()
