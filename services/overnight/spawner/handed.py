"""What a runner hands over: open descriptors, each looked at before anything is done with it.

The spawner may be root, a runner is not. A descriptor says what its holder may see of a folder only
where it is open for reading, and never that its holder may write there: everybody can open /etc.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

from overnight.contracts.errors import SandboxUnavailableError, WireError

NAME = "docker"  #: of the executor, in errors
MAX_FROZEN_BYTES = 8 * 1024 * 1024


def tree(descriptor: int) -> Path:
    """A folder to be copied. Raises SandboxUnavailableError: its holder could not open it."""
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_PATH:
        raise SandboxUnavailableError(NAME, "a tree must come open for reading")
    return _here(descriptor)


def target(descriptor: int, user: int) -> Path:
    """A folder to be filled for *user*. Raises SandboxUnavailableError: it is another user's."""
    owner = os.fstat(descriptor).st_uid
    if user not in (0, os.geteuid(), owner):
        raise SandboxUnavailableError(
            NAME, f"nothing is put into a folder of user {owner} for user {user}"
        )
    return _here(descriptor)


def names(descriptor: int) -> tuple[str, ...]:
    """The relative paths that are to be frozen. Raises WireError."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise WireError("what is frozen is no file")
        text = os.pread(descriptor, MAX_FROZEN_BYTES + 1, 0)
        found = json.loads(text)
    except OSError as error:
        raise WireError(f"what is frozen can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise WireError("what is frozen is no list") from error
    if len(text) > MAX_FROZEN_BYTES or not isinstance(found, list):
        raise WireError("what is frozen is no list, or too long")
    for name in found:
        if not isinstance(name, str) or _leaves(name):
            raise WireError(f"what is frozen is no relative path: {str(name)[:100]!r}")
    return tuple(found)


def _here(descriptor: int) -> Path:
    """As a path of this process."""
    return Path(f"/proc/self/fd/{descriptor}")


def _leaves(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return True
    return not name or name.startswith("/") or "\0" in name or ".." in name.split("/")
