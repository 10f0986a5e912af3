"""Checks which host folders a sandbox may see."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

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
        _check(path, protected)
    return outermost(places)


def _check(path: str, protected: Sequence[str]) -> None:
    if path in NEVER or any(is_below(path, own) for own in OWN_PLACES):
        raise SandboxUnavailableError(NAME, f"{path} is too much to show: name a folder below it")
    for secret in (*SOCKETS, *protected):
        if is_below(secret, path) or is_below(os.path.realpath(secret), path):
            raise SandboxUnavailableError(NAME, f"{path} would show {secret} to candidates")
