"""All containers of one spawner: made within limits, found again, ended when nobody owns them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from overnight.configuration import SpawnerSettings
from overnight.contracts.errors import InfrastructureError, SandboxUnavailableError
from overnight.contracts.spawning import Prepare, Profile, Remains, Tidied
from overnight.executors import binds, profiles, records
from overnight.executors.bubblewrap import is_below
from overnight.executors.container_seccomp import profile_text
from overnight.executors.tree import Place, remove_tree
from overnight.spawner.container import SANDBOX, Container, Order, Tally
from overnight.spawner.engine import Engine

log = structlog.get_logger()

NAME = "docker"  #: of the executor, in errors
FIRST_UID = records.FIRST_UID + records.UIDS  #: beside those of the process executor
OWNER = "spawner"  #: label: which of them made it
SWEEP_SECONDS = 30.0  #: between two looks for containers that the engine made after it went away
LATE_SECONDS = 600.0  #: for so long they may come


@dataclass
class Orphan:
    """A container whose runner is gone."""

    labels: Mapping[str, str]
    close: Callable[[], str | None]  #: why something stays of it
    since: float = field(default_factory=time.monotonic)


class Yard:
    """Folders below *root*: sandboxes/, profiles/, locks/, and `id`, which labels its containers.

    connect: makes a client of the engine, one a thread.
    """

    def __init__(
        self, root: Path, connect: Callable[[], Engine], settings: SpawnerSettings, cgroups: Path
    ) -> None:
        self.root = root
        self.connect = connect
        self._settings = settings
        self._cgroups = cgroups
        self._lock = threading.Lock()
        self._living: dict[str, Mapping[str, str]] = {}
        self._orphans: dict[str, Orphan] = {}
        self._starts: deque[float] = deque()
        self._hold: int | None = None
        self._next_sweep = 0.0
        self.tally = Tally()
        self.id = ""

    @property
    def profiles(self) -> Path:
        """Where what may run is registered."""
        return self.root / "profiles"

    @property
    def living(self) -> int:
        """Sandboxes that a runner holds."""
        with self._lock:
            return len(self._living)

    @property
    def orphaned(self) -> int:
        """Sandboxes of dead runners."""
        with self._lock:
            return len(self._orphans)

    def open(self) -> None:
        """Make its folders, be the only one, and take over what a dead spawner left.

        May be tried again when it failed.

        Raises InfrastructureError: another spawner holds it, the disk refuses, no engine answers.
        """
        self._take()
        engine = self.connect()
        try:
            self._adopt_all(engine)
        finally:
            engine.close()

    def _take(self) -> None:
        if self._hold is not None:
            return
        held: int | None = None
        try:
            for folder in (self.root, self.profiles, self.root / "sandboxes", self.root / "locks"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            closed = self.root / "closed"
            closed.mkdir(exist_ok=True)
            closed.chmod(0)
            held = os.open(self.root / "held", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.id = self._identity()
            self._hold, held = held, None
        except BlockingIOError as error:
            raise InfrastructureError(f"another spawner holds {self.root}: end that one") from error
        except OSError as error:
            raise InfrastructureError(f"{error.filename or self.root}: {error.strerror}") from error
        finally:
            if held is not None:
                os.close(held)

    def close(self) -> None:
        """Everything that is left ends with its spawner."""
        self.tidy({})
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    def make(self, engine: Engine, request: Prepare) -> tuple[str, Container]:
        """A place for a container that was asked for. Raises SandboxUnavailableError."""
        profile = profiles.read_profile(self.profiles, request.profile)
        reads = self._allowed(profile)
        image = engine.image(profile.image or self._settings.image)
        name = secrets.token_hex(12)
        labels = {
            OWNER: self.id,
            SANDBOX: name,
            "id": request.sandbox_id,
            **_theirs(request.labels),
        }
        self._admit(name, request.labels)
        slot: records.UserSlot | None = None
        try:
            if os.geteuid() == 0:
                slot = records.claim_user(self.root / "locks", FIRST_UID)
            place = Place(self.root / "sandboxes" / name, None if slot is None else slot.uid, name)
            place.make()
        except BaseException as error:
            self.forget(name)
            with contextlib.suppress(OSError):
                remove_tree(self.root / "sandboxes" / name)
            if slot is not None:
                slot.release()
            if isinstance(error, OSError):
                reason = f"{error.filename}: {error.strerror}"
                raise SandboxUnavailableError(NAME, reason) from error
            raise
        order = Order(
            profile=profile.model_copy(update={"reads": reads}),
            bounds=request.limits, devices=request.devices, labels=labels, image=image,
            seccomp=profile_text(), closed=self.root / "closed", cgroup_root=self._cgroups,
            roots=tuple(os.path.normpath(root) for root in _words(self._settings.reads)),
        )  # fmt: skip
        return name, Container(engine, order, place, slot, self.tally)

    def forget(self, name: str) -> None:
        """It is gone, with all its traces."""
        with self._lock:
            self._living.pop(name, None)

    def orphan(self, name: str, labels: Mapping[str, str], close: Callable[[], str | None]) -> None:
        """Its runner is gone; it is dead, and stays until somebody asks or its time is up."""
        with self._lock:
            self._living.pop(name, None)
            self._orphans[name] = Orphan(dict(labels), close)

    def tidy(self, labels: Mapping[str, str]) -> Tidied:
        """Remove orphans that carry *labels*."""
        with self._lock:
            chosen = {n: o for n, o in self._orphans.items() if _carries(o.labels, labels)}
            held = sum(_carries(living, labels) for living in self._living.values())
            for name in chosen:
                del self._orphans[name]
        ended, stuck = 0, []
        for name, orphan in chosen.items():
            problem = orphan.close()
            if problem is None:
                ended += 1
                continue
            with self._lock:
                self._orphans[name] = orphan
            stuck.append(Remains(labels=dict(orphan.labels), reason=problem[:2000]))
        return Tidied(ended=ended, held=held, stuck=tuple(stuck))

    def has_old(self) -> bool:
        """Is there something for `tidy_old`?"""
        return bool(self._old()) or self._is_sweep_due()

    def tidy_old(self) -> None:
        """Those that nobody asked for in time, and those that were made when nobody waited."""
        for labels in self._old():
            self.tidy(labels)
        if self._is_sweep_due():
            self._next_sweep = time.monotonic() + SWEEP_SECONDS
            self._sweep()

    # -- inside ---------------------------------------------------------------------------------

    def _old(self) -> list[Mapping[str, str]]:
        now = time.monotonic()
        with self._lock:
            return [o.labels for o in self._orphans.values()
                    if now - o.since > self._settings.orphan_seconds]  # fmt: skip

    def _is_sweep_due(self) -> bool:
        since, now = self.tally.unanswered, time.monotonic()
        return since is not None and now - since < LATE_SECONDS and now >= self._next_sweep

    def _sweep(self) -> None:
        """An engine that went away in a create may make the container later, when its sandbox is
        gone."""
        try:
            engine = self.connect()
            try:
                found = engine.labelled({f"overnight.{OWNER}": self.id})
                for container, labels in found.items():
                    with self._lock:
                        name = labels.get(f"overnight.{SANDBOX}", "")
                        known = name in self._living or name in self._orphans
                    if not known:
                        engine.remove(container)
                        self.tally.removed += 1
                        log.warning("late_container_removed", container=container)
            finally:
                engine.close()
        except SandboxUnavailableError as error:
            log.warning("late_containers_not_looked_for", reason=error.reason)

    def _identity(self) -> str:
        path = self.root / "id"
        with contextlib.suppress(FileNotFoundError):
            known = path.read_text().strip()
            if known:
                return known
        fresh = secrets.token_hex(8)
        path.write_text(fresh + "\n")
        return fresh

    def _allowed(self, profile: Profile) -> tuple[str, ...]:
        """Its mounts, if its image, network and mounts are all within what we were set up for."""
        settings = self._settings
        image, images = profile.image, _words(settings.images)
        if image is not None and images and image not in images:
            raise SandboxUnavailableError(NAME, f"image {image} is not among those allowed here")
        if profile.network == "host" and not settings.network_host:
            raise SandboxUnavailableError(NAME, "network: host is not allowed here")
        for name, place in profile.at_home:
            inside = any(is_below(place, read) for read in profile.reads)
            if not inside or name.startswith("/") or ".." in name.split("/"):
                raise SandboxUnavailableError(NAME, f"{name} can't be shown at home")
        roots = _words(settings.reads)
        if not roots:
            return binds.visible(profile.reads, (), (str(self.root),))
        for path in profile.reads:
            binds.check(os.path.normpath(path), (str(self.root),))
            if not any(is_below(os.path.normpath(path), root) for root in roots):
                raise SandboxUnavailableError(NAME, f"{path} is not among what may be shown here")
        return profile.reads

    def _admit(self, name: str, labels: Mapping[str, str]) -> None:
        now = time.monotonic()
        with self._lock:
            while self._starts and now - self._starts[0] > 60:
                self._starts.popleft()
            if len(self._living) >= self._settings.max_sandboxes:
                raise SandboxUnavailableError(NAME, f"{len(self._living)} sandboxes run already")
            if len(self._starts) >= self._settings.starts_per_minute:
                raise SandboxUnavailableError(NAME, "too many sandboxes were asked for in a minute")
            self._starts.append(now)
            self._living[name] = dict(labels)

    def _adopt_all(self, engine: Engine) -> None:
        """Whatever a dead spawner left is dead by now, or ends here; reports name it later."""
        known: set[str] = set()
        for container, labels in engine.labelled({f"overnight.{OWNER}": self.id}).items():
            engine.kill(container)
            name = labels.get(f"overnight.{SANDBOX}", "")
            known.add(name)
            theirs = {k.removeprefix("overnight."): v for k, v in labels.items()}
            self.orphan(name, theirs, lambda c=container, n=name: self._remove(c, n))  # type: ignore[misc]
        for folder in (self.root / "sandboxes").iterdir():
            if folder.name not in known:
                remove_tree(folder)
        if known:
            log.warning("containers_adopted", containers=len(known))

    def _remove(self, container: str, name: str) -> str | None:
        try:
            engine = self.connect()
            try:
                engine.remove(container)
                self.tally.removed += 1
            finally:
                engine.close()
            if name:
                remove_tree(self.root / "sandboxes" / name)
        except (SandboxUnavailableError, OSError) as error:
            log.error("container_not_removed", container=container, reason=str(error))
            return f"a container can't be removed: {error}"
        return None


def _theirs(labels: Mapping[str, str]) -> dict[str, str]:
    """A runner's labels can't take the place of ours."""
    return {name: value for name, value in labels.items() if name not in (OWNER, SANDBOX, "id")}


def _carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
