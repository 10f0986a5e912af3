"""Workers share cards in the machine's order, each its own first; what can't be says so."""

from __future__ import annotations

import pytest

from overnight.devices.inventory import Gpu, Inventory, Mig
from overnight.devices.sharing import shares, too_few, usable


def cards(number: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(uuid=f"GPU-{n}", name="x", memory_bytes=1, index=n) for n in range(number))


def instances(number: int) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(uuid=f"MIG-{n}", name="x", memory_bytes=1, index=9,
            mig=Mig(card="GPU-9", gpu_instance=n, compute_instance=0))
        for n in range(number)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("have", "each", "workers"), [(8, 1, 8), (8, 2, 4), (8, 3, 2), (8, 8, 1), (8, 9, 0), (0, 1, 0)]
)
def test_as_many_workers_as_experiments_fit(have: int, each: int, workers: int) -> None:
    found = shares(cards(have), each)

    assert len(found) == workers
    own = [device for share in found for device in share[:each]]
    assert len(set(own)) == len(own), "no card is the first choice of two"
    assert all(sorted(share) == sorted(g.uuid for g in cards(have)) for share in found)


def test_slots_stay_with_their_cards() -> None:
    assert [share[:2] for share in shares(cards(5), 2)] == [
        ("GPU-0", "GPU-1"),
        ("GPU-2", "GPU-3"),
    ]
    assert shares(cards(5), 2)[0][-1] == "GPU-4", "what is left over is everybody's spare"


def test_mig_instances_are_for_experiments_of_one() -> None:
    mixed = (*instances(3), *cards(2))

    assert len(shares(mixed, 1)) == 5
    assert usable(mixed, 2) == cards(2)
    assert too_few(Inventory(gpus=instances(3)), 2) == (
        "needs 2 GPUs, this machine has none: its 3 MIG instances can't be used together by one "
        "experiment"
    )


def test_too_few_are_told_in_one_line() -> None:
    assert too_few(Inventory(gpus=cards(8)), 2, 4) is None
    assert too_few(Inventory(gpus=cards(4)), 8) == "needs 8 GPUs, this machine has 4"
    lost = Inventory(gpus=(), problems=("card 0: NVML says: GPU is lost",))
    assert too_few(lost, 1) == "needs 1 GPU, this machine has none (card 0: NVML says: GPU is lost)"
