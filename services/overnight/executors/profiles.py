"""Registered profiles: what a container runs and sees, one file each, named by its SHA-256."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from overnight.contracts import wire
from overnight.contracts.errors import SandboxUnavailableError, WireError
from overnight.contracts.spawning import Profile

NAME = "docker"  #: of the executor, in errors
MAX_BYTES = 1024 * 1024


def register(folder: Path, profile: Profile) -> str:
    """Its digest, once it lies in *folder*. Whoever may write there decides what runs.

    Raises:
        SandboxUnavailableError: it is not there yet and the folder is not ours to write.
    """
    digest, text = profile.digest, wire.encode(profile)
    path = folder / f"{digest}.json"
    if path.exists():
        return digest
    part = folder / f"new-{secrets.token_hex(8)}"
    try:
        part.write_text(text, encoding="utf-8")
        os.rename(part, path)  # whole or not at all; it can be written again any time
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SandboxUnavailableError(
            NAME,
            f"profile {digest[:12]} is not registered in {folder} ({error.strerror}): "
            "open the session again with `overnight open`",
        ) from error
    return digest


def read_profile(folder: Path, digest: str) -> Profile:
    """The profile of that name. Raises SandboxUnavailableError when it is missing or changed."""
    path = folder / f"{digest}.json"
    try:
        with open(path, "rb", opener=_open_file) as file:
            text = file.read(MAX_BYTES + 1).decode()
        if len(text) > MAX_BYTES or wire.digest(text) != digest:
            raise WireError("it is not what was registered")
        return wire.decode(Profile, text)
    except FileNotFoundError as error:
        reason = f"no profile {digest[:12]} is registered: open the session again"
        raise SandboxUnavailableError(NAME, reason) from error
    except (OSError, ValueError, WireError) as error:
        raise SandboxUnavailableError(NAME, f"profile {path.name}: {error}") from error


def _open_file(path: str, flags: int) -> int:
    """Nothing that would keep us waiting."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is no file")
    return descriptor
