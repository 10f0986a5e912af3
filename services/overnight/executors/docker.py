"""The executor `docker`: candidates in containers that the spawner makes, one each.

It holds no socket of the engine. It hands over open folders, gets the pipes of the command back,
and watches deadlines, logs and limits itself, on the runner's own clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from overnight.contracts.errors import ConfigError, SandboxUnavailableError
from overnight.contracts.execution import Sandbox, SandboxSpec, Stuck, Swept
from overnight.contracts.spawning import (
    Bounds,
    Greet,
    Greeting,
    Prepare,
    Profile,
    Reconcile,
    Tidied,
)
from overnight.devices.granting import visible_env
from overnight.executors import binds, profiles
from overnight.executors.interpreters import Interpreters
from overnight.executors.sandbox import SupervisedSandbox
from overnight.executors.spawned import NAME, Spawned, SpawnerLine

OPTIONS = ("spawner", "profiles", "protected")
ODD = re.compile(r"[^A-Za-z0-9._-]")


class DockerExecutor:
    """Options: spawner (its unix socket), profiles (where they are registered; the spawner tells

    it where it is not given), protected (places of this host that no candidate may be shown).
    """

    name = NAME
    isolation = "container"

    def __init__(self, options: dict[str, object] | None = None) -> None:
        chosen = dict(options or {})
        unknown = sorted(set(chosen) - set(OPTIONS))
        if unknown:
            raise ConfigError(f"executor option {unknown[0]}: unknown, there are {OPTIONS}")
        self._spawner = _path(chosen.get("spawner"), "spawner")
        self._profiles = _path(chosen.get("profiles"), "profiles")
        protected = chosen.get("protected", ())
        if not isinstance(protected, list | tuple):
            raise ConfigError("executor option protected: must be a list of paths")
        self._protected = tuple(str(place) for place in protected)
        self._interpreters = Interpreters()

    def prepare(self, spec: SandboxSpec) -> Sandbox:
        """Register what it runs, and reserve a place with the spawner."""
        profile = self.profile(spec)
        line = self._line()
        try:
            digest = profiles.register(self._profiles or self._told(line), profile)
            line.ask(
                Prepare(
                    sandbox_id=ODD.sub("-", spec.sandbox_id),
                    labels=dict(spec.labels),
                    profile=digest,
                    limits=Bounds.of(spec.limits),
                    devices=spec.devices,
                )
            )
        except BaseException:
            line.close()
            raise
        spawned = Spawned(spec, line)
        return SupervisedSandbox(spec, spawned, spawned)

    def reconcile(self, labels: Mapping[str, str]) -> Swept:
        """Ask the spawner, who knows all containers of its own."""
        line = self._line()
        try:
            answer = line.ask(Reconcile(labels=dict(labels)), Tidied)
        finally:
            line.close()
        stuck = tuple(Stuck(item.labels, item.reason) for item in answer.stuck)
        return Swept(answer.ended, answer.held, stuck)

    def greet(self) -> Greeting:
        """What the spawner says of itself. Raises SandboxUnavailableError."""
        line = self._line()
        try:
            return line.ask(Greet(), Greeting)
        finally:
            line.close()

    def register(self, spec: SandboxSpec) -> str:
        """Let *spec*'s command and mounts run; the digest of its profile. Needs no spawner where
        the folder of profiles is given."""
        folder = self._profiles
        if folder is None:
            folder = Path(self.greet().profiles)
        return profiles.register(folder, self.profile(spec))

    def profile(self, spec: SandboxSpec) -> Profile:
        """What of *spec* is the same for all its experiments."""
        if not spec.command:
            raise SandboxUnavailableError(NAME, "the command is empty")
        reads = [os.path.normpath(path) for path in spec.reads]
        if spec.interpreter is not None:
            reads += self._interpreters.places(spec.interpreter)
        protected = (str(spec.scratch), str(spec.log_path), *self._protected)
        for path in reads:
            binds.check(path, protected)
        return Profile(
            command=spec.command,
            env=_without_devices(spec),
            reads=tuple(dict.fromkeys(reads)),
            at_home=binds.below_home(spec.reads),
            interpreter=None if spec.interpreter is None else str(spec.interpreter),
            network="host" if spec.network == "host" else "none",
            image=spec.image,
            keep=spec.keep,
        )

    def _line(self) -> SpawnerLine:
        if self._spawner is None:
            raise SandboxUnavailableError(
                NAME, "no spawner is named: start one and set OVERNIGHT_SPAWNER to its socket"
            )
        return SpawnerLine(self._spawner)

    def _told(self, line: SpawnerLine) -> Path:
        return Path(line.ask(Greet(), Greeting).profiles)


def _without_devices(spec: SandboxSpec) -> dict[str, str]:
    """Which cards it sees is no part of a profile: the spawner says it, by what was granted."""
    granted = visible_env(spec.devices)
    return {name: value for name, value in spec.env.items() if name not in granted}


def _path(value: object, name: str) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str | Path) or not Path(value).is_absolute():
        raise ConfigError(f"executor option {name}: must be an absolute path")
    return Path(value)
