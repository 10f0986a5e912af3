"""Counts live processes of a sandbox from outside, through /proc."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator

END_SECONDS = 5.0  #: for the kernel to end what was killed


def namespace_of(pid: int) -> tuple[int, int]:
    """Identity of a process's PID namespace. Raises OSError when it is gone.

    The number is given to the next namespace once the last reference is gone: hold an open
    descriptor of it for as long as you compare.
    """
    status = os.stat(f"/proc/{pid}/ns/pid")
    return status.st_dev, status.st_ino


def alive_in_namespace(namespace: tuple[int, int]) -> list[int]:
    """Live processes of that PID namespace."""
    return [pid for pid in _live() if _namespace_or_none(pid) == namespace]


def alive_with_marker(marker: bytes) -> list[int]:
    """Live processes that carry *marker* in arguments or environment, except ourselves.

    Only where there is no namespace: a process can lose its marker by executing another program.
    """
    return [pid for pid in _live() if pid != os.getpid() and marker in _words(pid)]


def end_all(marker: bytes, patience_seconds: float | None = None) -> bool:
    """SIGKILL whatever carries *marker* until nothing does; False if something stayed."""
    patience = END_SECONDS if patience_seconds is None else patience_seconds
    until = time.monotonic() + patience
    while pids := alive_with_marker(marker):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def carriers(prefix: bytes, length: int) -> dict[str, list[int]]:
    """Live processes by the token that they carry: *prefix* and *length* more hex digits."""
    pattern = re.compile(re.escape(prefix) + rb"[0-9a-f]{%d}(?![0-9a-f])" % length)
    found: dict[str, list[int]] = {}
    for pid in _live():
        for token in {match.decode() for match in pattern.findall(_words(pid))}:
            if pid != os.getpid():
                found.setdefault(token, []).append(pid)
    return found


def ancestors(pid: int) -> set[int]:
    """Its parent, that one's parent and so on."""
    found: set[int] = set()
    while pid > 0:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break
        found.add(pid)
    return found


def descendants(pid: int) -> list[int]:
    """*pid* and all below it. In a PID namespace that is everything below its first process."""
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        queue += _children(current)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return children
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += [int(word) for word in file.read().split()]
        except OSError:
            continue
    return children


def _live() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue
        # The name in brackets may hold anything, also brackets: the state follows the last one.
        if text[text.rindex(b")") + 2 :][:1] not in (b"Z", b"X"):
            yield int(name)


def _namespace_or_none(pid: int) -> tuple[int, int] | None:
    try:
        return namespace_of(pid)
    except OSError:
        return None


def _words(pid: int) -> bytes:
    words = b""
    for name in ("cmdline", "environ"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                words += file.read() + b"\0"
        except OSError:
            continue
    return words
