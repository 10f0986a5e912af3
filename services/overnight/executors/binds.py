"""Checks which host folders a sandbox may see."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError
from overnight.executors.bubblewrap import OWN_PLACES, is_below, outermost

NAME = "process"  #: of the executor, in errors
#: Whoever reaches one of these owns the host or its secrets.
SOCKETS = (
    "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
    "/run/podman/podman.sock", "/run/dbus/system_bus_socket",
)  # fmt: skip
NEVER = ("/", "/proc", "/sys", "/dev", "/run", "/var", "/etc", "/root", "/home", "/tmp")  # noqa: S108


def visible(
    wanted: Iterable[str], trees: Sequence[str], protected: Sequence[str]
) -> tuple[str, ...]:
    """*wanted* with the places their links lead to, without what *trees* show already.

    Raises:
        SandboxUnavailableError: one is missing, relative, or would show a protected place.
    """
    places: set[str] = set()
    for path in map(os.path.normpath, wanted):
        if not os.path.isabs(path):
            raise SandboxUnavailableError(NAME, f"{path} must be an absolute path")
        if not os.path.exists(path):
            raise SandboxUnavailableError(NAME, f"{path} is not there: correct `reads` or `python`")
        places |= {path, os.path.realpath(path)}
    places = {p for p in places if not any(is_below(p, tree) for tree in trees)}
    for path in sorted(places):
        check(path, protected)
    return outermost(places)


def below_home(reads: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """Those of *reads* that lie below the user's home, by their place there.

    A candidate has a HOME of its own, and a script that looks into `~/.cache` must find it there.
    """
    try:
        home = Path.home()
    except RuntimeError:  # a user that the host does not know
        return ()
    inside = (Path(os.path.normpath(read)) for read in reads)
    found = ((str(path.relative_to(home)), str(path)) for path in inside if path != home
             and path.is_relative_to(home))  # fmt: skip
    names = dict(found)
    return tuple((name, names[name]) for name in outermost(names))


def check(path: str, protected: Sequence[str]) -> None:
    """May candidates be shown *path*? Raises SandboxUnavailableError: it shows too much."""
    if path in NEVER or any(is_below(path, own) for own in OWN_PLACES):
        raise SandboxUnavailableError(NAME, f"{path} is too much to show: name a folder below it")
    for secret in (*SOCKETS, *protected):
        if is_below(secret, path) or is_below(os.path.realpath(secret), path):
            raise SandboxUnavailableError(NAME, f"{path} would show {secret} to candidates")
