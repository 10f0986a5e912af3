"""What a container really shows: the engine follows links, also one that changed after a check."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.spawning import Profile
from overnight.executors.bubblewrap import is_below
from overnight.spawner.gate import HOME

NAME = "docker"  #: of the executor, in errors
HOST = 1  #: the process whose mounts are the host's
_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A line of /proc/PID/mountinfo."""

    device: str
    root: str  #: what is mounted, as a path of that device
    place: str  #: where


def check(pid: int, profile: Profile, roots: Sequence[str]) -> None:
    """Does the container of *pid* show places below *roots* alone? No roots: no such rule.

    Raises:
        SandboxUnavailableError: it shows another one.
    """
    if not roots:
        return
    targets = (*profile.reads, *(f"{HOME}/{name}" for name, _ in profile.at_home))
    try:
        found = outside(mounts_of(pid), mounts_of(HOST), targets, roots)
    except OSError as error:
        reason = f"its mounts can't be looked at: {error.strerror}"
        raise SandboxUnavailableError(NAME, reason) from error
    if found is not None:
        reason = f"{found} leads out of what may be shown here: name its real place"
        raise SandboxUnavailableError(NAME, reason)


def outside(
    mounts: Iterable[Mount], host: Sequence[Mount], targets: Iterable[str], roots: Sequence[str]
) -> str | None:
    """The first of *targets* that shows no place below *roots*; None: all do.

    mounts, host: of the container and of the host.
    """
    seen = {mount.place: mount for mount in mounts}
    for target in targets:
        mount = seen.get(target)
        places = () if mount is None else _places(mount, host)
        if not any(is_below(place, root) for place in places for root in roots):
            return target
    return None


def mounts_of(pid: int) -> list[Mount]:
    """In order: the last one at a place is what is seen there. Raises OSError."""
    lines = Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines()
    return [
        Mount(words[2].decode(), _plain(words[3]), _plain(words[4]))
        for words in (line.split(b" ") for line in lines)
    ]


def _places(mount: Mount, host: Sequence[Mount]) -> Iterator[str]:
    """Where the host has it."""
    for other in host:
        if other.device == mount.device and is_below(mount.root, other.root):
            below = os.path.relpath(mount.root, other.root)
            yield os.path.normpath(os.path.join(other.place, below))


def _plain(word: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), word))
