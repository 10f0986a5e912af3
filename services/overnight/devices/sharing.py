"""How the devices of a host are shared among workers, and how many experiments fit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from overnight.devices.inventory import Gpu, Inventory


def usable(gpus: Sequence[Gpu], each: int) -> tuple[Gpu, ...]:
    """The ones that experiments of *each* devices can have.

    A CUDA process can use one MIG instance and no second one, so that several are always cards.
    """
    return tuple(gpu for gpu in gpus if each == 1 or gpu.mig is None)


def shares(gpus: Sequence[Gpu], each: int) -> list[tuple[str, ...]]:
    """For each worker the UUIDs that it may lease, its own first: slots stay with their cards.

    The others follow, so that a worker whose card is broken takes one that is left over.
    """
    uuids = [gpu.uuid for gpu in usable(gpus, each)]
    starts = range(0, len(uuids) - each + 1, each)
    return [tuple(uuids[start:] + uuids[:start]) for start in starts]


def too_few(inventory: Inventory, each: int, workers: int = 1) -> str | None:
    """Why this host can't run *workers* experiments of *each* GPUs at a time; None: it can."""
    cards, wanted = len(usable(inventory.gpus, each)), each * workers
    if cards >= wanted:
        return None
    kind = "GPU" if wanted == 1 else "GPUs"
    has = "none" if not cards else str(cards)
    what = f"needs {wanted} {kind}, this machine has {has}"
    instances = len(inventory.gpus) - cards
    if instances:
        return f"{what}: its {instances} MIG instances can't be used together by one experiment"
    return what if not inventory.problems else f"{what} ({inventory.problems[0]})"
