"""Which services a session's tree has beside its Redis, and with which words each is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from overnight.devices.inventory import Inventory, take_inventory
from overnight.sessions.devices import runner_devices
from overnight.sessions.opening import Opened

SPAWNER_FOLDER = "spawner"  #: below the session's directory
Words = tuple[str, ...]


def needs_spawner(executor: str) -> bool:
    """Are its sandboxes containers of this host's engine?"""
    return executor == "docker"


def spawner_words(opened: Opened, socket: Path) -> Words:
    """How the holder of the engine's socket is started."""
    root = opened.files.root.absolute() / SPAWNER_FOLDER
    return ("spawner", "--socket", str(socket), "--root", str(root))


def runner_words(
    opened: Opened, common: Words, spawner: Path | None
) -> Iterator[tuple[str, Words]]:
    """Name and words of each runner."""
    pool = opened.config.pools["default"]
    ask = ("--spawner", str(spawner)) if spawner is not None else ()
    inventory = take_inventory() if opened.config.gpus else Inventory()
    groups = runner_devices(opened.config, opened.opening.runners, inventory)
    for index, devices in enumerate(groups):
        slot = ("--slot", f"r{index}", "--executor", pool.executor, "--metrics-offset", str(index))
        held = tuple(word for device in devices for word in ("--device", device))
        yield f"r{index}", ("runner", *common, *slot, *held, *ask)
