"""Control groups of one sandbox, v1 or v2: CPU, memory and process limits where writable."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from overnight.contracts.execution import Limits

ROOT = Path("/sys/fs/cgroup")
V1_CONTROLLERS = ("cpuacct", "memory", "pids")
OWN_PROCESSES = 4  #: bubblewrap twice, the gate and the second timer are not the candidate's
REMOVE_SECONDS = 2.0  #: the kernel may hold a group for a moment after its last process


class Group:
    """The groups of one sandbox. Each controller is optional; ask `can_*`."""

    def __init__(self, version: int, folders: dict[str, Path]) -> None:
        self._version = version
        self._folders = folders  #: controller -> folder; v2 has the one key "unified"

    def entrances(self) -> tuple[str, ...]:
        """Files by which a single thread moves itself in at once, where there are such (v1).

        To move another process the kernel may wait for 15 ms first.
        """
        if self._version != 1:
            return ()
        return tuple(str(folder / "tasks") for folder in self._folders.values())

    def add(self, pid: int) -> None:
        """Make sure that *pid* is in; its later children are born inside. Raises OSError."""
        for folder in self._folders.values():
            procs = folder / "cgroup.procs"
            if str(pid) not in procs.read_text().split():
                procs.write_text(str(pid))

    def cpu_seconds(self) -> float | None:
        """CPU of all processes that ever were inside, or None where it is not counted."""
        try:
            if self._version == 1:
                return int((self._folders["cpuacct"] / "cpuacct.usage").read_text()) / 1e9
            return _field(self._folders["unified"] / "cpu.stat", "usage_usec") / 1e6
        except (OSError, KeyError, ValueError):
            return None

    def oom_kills(self) -> int:
        """How many processes the kernel killed in it for memory."""
        try:
            if self._version == 1:
                return _field(self._folders["memory"] / "memory.oom_control", "oom_kill")
            return _field(self._folders["unified"] / "memory.events", "oom_kill")
        except (OSError, KeyError, ValueError):
            return 0

    def limits_memory(self) -> bool:
        """Does the kernel hold the whole sandbox to its memory limit?"""
        name = "memory.limit_in_bytes" if self._version == 1 else "memory.max"
        folder = self._folders.get("memory" if self._version == 1 else "unified")
        return folder is not None and (folder / name).exists()

    def pids(self) -> list[int]:
        """The processes inside now."""
        for folder in self._folders.values():
            with contextlib.suppress(OSError):
                return [int(word) for word in (folder / "cgroup.procs").read_text().split()]
        return []

    def remove(self) -> bool:
        """Kill what is left inside and remove the folders; False if one stayed."""
        until = time.monotonic() + REMOVE_SECONDS
        while True:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            left = [folder for folder in self._folders.values() if not _removed(folder)]
            if not left or time.monotonic() > until:
                return not left
            time.sleep(0.002)


def own() -> str:
    """Where this process stands in each hierarchy; "" where there is none."""
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


def of(pid: int, root: Path) -> Group | None:
    """The groups that somebody else made for *pid*, or None where this host shows none."""
    try:
        place = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    if (root / "cgroup.controllers").exists():
        folders = {"unified": _base(root, place, "")}
    else:
        folders = {c: _base(root / c, place, c) for c in V1_CONTROLLERS if (root / c).is_dir()}
    # The root itself is no group of a container: its numbers would be the whole host's.
    own = {name: folder for name, folder in folders.items() if folder not in (root, root / name)}
    return Group(2 if "unified" in folders else 1, own) if own else None


def create(name: str, limits: Limits, root: Path, place: str) -> Group | None:
    """Make the groups below *place* (see `own`), or None where this host lets us make none."""
    if (root / "cgroup.controllers").exists():
        return _create_v2(name, limits, root, place)
    return _create_v1(name, limits, root, place)


def find(name: str, root: Path, place: str) -> Group | None:
    """The groups that a dead runner left under *name*, if any."""
    if (root / "cgroup.controllers").exists():
        folders = {"unified": _base(root, place, "") / name}
    else:
        folders = {c: _base(root / c, place, c) / name for c in V1_CONTROLLERS}
    there = {key: folder for key, folder in folders.items() if folder.is_dir()}
    return Group(2 if "unified" in folders else 1, there) if there else None


def named(prefix: str, root: Path, place: str) -> Iterator[str]:
    """Names of all groups below *place* that begin with *prefix*."""
    if (root / "cgroup.controllers").exists():
        bases = [_base(root, place, "")]
    else:
        bases = [_base(root / c, place, c) for c in V1_CONTROLLERS]
    yield from sorted({folder.name for base in bases for folder in base.glob(f"{prefix}*")})


def _create_v1(name: str, limits: Limits, root: Path, place: str) -> Group | None:
    folders: dict[str, Path] = {}
    for controller in V1_CONTROLLERS:
        if not (root / controller).is_dir():
            continue
        folder = _base(root / controller, place, controller) / name
        with contextlib.suppress(OSError):
            folder.mkdir()
            folders[controller] = folder
    if "memory" in folders and limits.memory_bytes is not None:
        _write(folders["memory"] / "memory.limit_in_bytes", limits.memory_bytes)
        _write(folders["memory"] / "memory.memsw.limit_in_bytes", limits.memory_bytes)
    if "pids" in folders:
        _write(folders["pids"] / "pids.max", limits.pids + OWN_PROCESSES)
    return Group(1, folders) if folders else None


def _create_v2(name: str, limits: Limits, root: Path, place: str) -> Group | None:
    base = _base(root, place, "")
    # Refused (EBUSY) where our own group holds processes and is not the root: then CPU only.
    for controller in ("memory", "pids"):
        with contextlib.suppress(OSError):
            (base / "cgroup.subtree_control").write_text(f"+{controller}")
    folder = base / name
    try:
        folder.mkdir()
    except OSError:
        return None
    if limits.memory_bytes is not None:
        _write(folder / "memory.max", limits.memory_bytes)
        _write(folder / "memory.swap.max", 0)
    _write(folder / "pids.max", limits.pids + OWN_PROCESSES)
    return Group(2, {"unified": folder})


def _base(root: Path, place: str, controller: str) -> Path:
    """Our own group below *root*; the root itself where a container hides the path."""
    for line in place.splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            folder = root / path.lstrip("/")
            return folder if folder.is_dir() else root
    return root


def _field(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    raise KeyError(name)


def _write(file: Path, value: int) -> None:
    # A kernel without this knob (no swap accounting) still limits what it has.
    with contextlib.suppress(OSError):
        if file.exists():
            file.write_text(str(value))


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
