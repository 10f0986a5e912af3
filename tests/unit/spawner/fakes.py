"""An engine that holds its containers in memory, and a spawner's yard around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overnight.configuration import SpawnerSettings
from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Limits
from overnight.contracts.spawning import Bounds, Prepare, Profile
from overnight.executors import profiles
from overnight.spawner.engine import EngineDownError, Image, Stopped
from overnight.spawner.yard import Yard

IMAGE = "some:image"


@dataclass
class FakeEngine:
    """What `Engine` does, without one."""

    labels: dict[str, dict[str, str]] = field(default_factory=dict)  #: container -> its labels
    images: tuple[str, ...] = (IMAGE,)
    down: bool = False
    version: str = "1.41"

    def close(self) -> None:
        """Nothing to let go."""

    def describe(self) -> str:
        """A name."""
        self._knock()
        return "Fake 1"

    def image(self, name: str) -> Image:
        """One of those that are there."""
        self._knock()
        if name not in self.images:
            raise SandboxUnavailableError("docker", f"image {name} is not there")
        return Image(f"sha256:{name}", {"PATH": "/usr/bin"})

    def create(self, body: Mapping[str, Any]) -> str:
        """Made; it never runs."""
        self._knock()
        name = f"container-{len(self.labels)}"
        self.labels[name] = dict(body["Labels"])
        return name

    def start(self, container: str) -> int:
        """It has nothing to start."""
        raise SandboxUnavailableError("docker", "this engine starts nothing")

    def stopped(self, container: str, pid: int) -> Stopped:
        """As if it had ended."""
        return Stopped(0, False)

    def kill(self, container: str) -> None:
        """It does not run."""

    def free(self, container: str) -> bool:
        """Nobody paused it."""
        return False

    def remove(self, container: str) -> None:
        """Gone."""
        self._knock()
        self.labels.pop(container, None)

    def labelled(self, labels: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Those that carry them."""
        self._knock()
        return {name: mine for name, mine in self.labels.items() if labels.items() <= mine.items()}

    def _knock(self) -> None:
        if self.down:
            raise EngineDownError("docker", "the engine does not answer")


def yard_of(folder: Path, engine: FakeEngine, **settings: Any) -> Yard:
    """An open yard below *folder*."""
    chosen = SpawnerSettings(**{"image": IMAGE, **settings})
    yard = Yard(folder / "root", lambda: engine, chosen, folder / "cgroups")  # type: ignore[arg-type,return-value]
    yard.open()
    return yard


def wish(yard: Yard, name: str = "s-1-1", **profile: Any) -> Prepare:
    """A request for a registered profile."""
    digest = profiles.register(yard.profiles, Profile(**{"command": ("true",), **profile}))
    return Prepare(
        sandbox_id=name, labels={"sid": "s", "runner": "r0"}, profile=digest,
        limits=Bounds.of(Limits()),
    )  # fmt: skip
