"""Which services a session's tree has beside its Redis, and with which words each is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
    for index in range(opened.opening.runners):
        slot = ("--slot", f"r{index}", "--device", f"cpu:{index}", "--executor", pool.executor)
        yield f"r{index}", ("runner", *common, *slot, *ask)
