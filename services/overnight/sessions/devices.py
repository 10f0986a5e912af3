"""Which devices of this machine a session's runners get: GPUs where there are any, else slots."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from overnight.configuration import ResolvedLoop, device_lock_dir
from overnight.contracts.errors import ConfigError, SessionHeldError
from overnight.contracts.loop import LoopConfig
from overnight.devices.inventory import Gpu, Inventory, take_inventory
from overnight.devices.sharing import shares, too_few, usable
from overnight.runner.hardware import DeviceLock, gpu_class, hardware_class

RUNNERS = "pools.default.runners"


def on_gpus(config: LoopConfig, inventory: Inventory) -> bool:
    """Do its experiments get GPUs here? One GPU is asked for by default, and gladly missed."""
    return config.gpus > 1 or (config.gpus == 1 and bool(inventory.gpus))


def runners_here(config: LoopConfig, inventory: Inventory) -> int:
    """How many work at a time, where the bindings leave it open."""
    wanted = config.pools["default"].runners
    if wanted != "auto":
        return wanted
    if on_gpus(config, inventory):
        return max(1, len(shares(inventory.gpus, config.gpus)))
    return os.cpu_count() or 1


def check_devices(resolved: ResolvedLoop, inventory: Inventory) -> None:
    """Before anything is written: a runner without its devices would wait for ever.

    Raises:
        ConfigError: one line that names the key and the fix.
    """
    config = resolved.config
    if not on_gpus(config, inventory):
        return
    few = too_few(inventory, config.gpus)
    if few is not None:
        raise ConfigError(
            f"gpus: {config.gpus}: each experiment {few}; lower it, or run where they are"
        )
    runners = runners_here(config, inventory)
    few = too_few(inventory, config.gpus, runners)
    if few is not None:
        at_a_time = f"{runners} experiments at a time with gpus: {config.gpus}"
        raise ConfigError(
            f"{RUNNERS}: {at_a_time} {few.replace('needs', 'need', 1)}; lower it, or set gpus: 0 "
            "for a training that needs no GPU"
        )


def device_notes(config: LoopConfig, inventory: Inventory, runners: int) -> tuple[str, ...]:
    """What its user should know of the GPUs that it gets, and of those that can't be used."""
    if not on_gpus(config, inventory):
        return ()
    cards = usable(inventory.gpus, config.gpus)
    kinds = " and ".join(sorted({gpu.name for gpu in cards}))
    each = "1 GPU" if config.gpus == 1 else f"{config.gpus} GPUs"
    return (
        f"{len(cards)} x {kinds}: {runners} at a time, {each} each",
        *(f"not used: {problem}" for problem in inventory.problems),
    )


def runner_devices(
    config: LoopConfig, runners: int, inventory: Inventory
) -> list[tuple[str, ...]]:  # fmt: skip
    """For each runner the devices that it may have."""
    if on_gpus(config, inventory):
        return shares(inventory.gpus, config.gpus)[:runners]
    return [(f"cpu:{index}",) for index in range(runners)]


@dataclass(frozen=True)
class Held:
    """Devices that are ours for a while."""

    device: str
    gpus: tuple[str, ...]
    hardware: str


@contextmanager
def hold_now(config: LoopConfig, environ: Mapping[str, str]) -> Iterator[Held]:
    """Devices for one experiment that nobody else measures on.

    Raises:
        SessionHeldError: too few are free.
        ConfigError: this machine has too few.
    """
    inventory = take_inventory() if config.gpus else Inventory()
    gpus: tuple[Gpu, ...] = ()
    if on_gpus(config, inventory):
        few = too_few(inventory, config.gpus)
        if few is not None:
            raise ConfigError(f"gpus: {config.gpus}: each experiment {few}")
        gpus = usable(inventory.gpus, config.gpus)
    needs = config.gpus if gpus else 1
    names = [g.uuid for g in gpus] or [f"cpu:{n}" for n in range(os.cpu_count() or 1)]
    locks = _locked(names, needs, environ)
    try:
        if len(locks) < needs:
            raise SessionHeldError(
                "every device is in use by sessions that run: two experiments on one would spoil "
                "both; end one with `overnight stop`, or try again later"
            )
        mine = [gpu for gpu in gpus if gpu.uuid in locks]
        hardware = gpu_class([g.name for g in mine], inventory.driver) if mine else hardware_class()
        yield Held(next(iter(locks)), tuple(gpu.uuid for gpu in mine), hardware)
    finally:
        for lock in locks.values():
            lock.release()


def _locked(names: list[str], needs: int, environ: Mapping[str, str]) -> dict[str, DeviceLock]:
    locks: dict[str, DeviceLock] = {}
    for name in names:
        lock = DeviceLock(device_lock_dir(environ), name)
        if len(locks) < needs and lock.try_acquire():
            locks[name] = lock
    return locks
