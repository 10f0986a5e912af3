"""clean: what a session no longer needs leaves the disk; nothing of what was tried does."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.contracts.errors import InfrastructureError, SessionHeldError
from overnight.ledger.disk import (
    LOG_HEAD_BYTES,
    LOG_TAIL_BYTES,
    Kind,
    Leftover,
    leftovers,
)
from overnight.ledger.files import SessionFiles
from overnight.ledger.lock import hold_session
from overnight.sessions.locate import Found, read_state

_MARKER = b"\n[... cut by `overnight clean` ...]\n"


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """What went, or would go."""

    tag: str
    live: bool  #: a stack works on the session, so less could be looked at
    dry_run: bool
    gone: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]  #: listed, but not removed
    failed: tuple[str, ...] = ()  #: what could not be removed, and why

    @property
    def freed_bytes(self) -> int:
        """In all."""
        return sum(item.size_bytes for item in self.gone)

    def as_json(self) -> dict[str, Any]:
        """The object of `clean --json`."""
        return {
            "tag": self.tag,
            "running": self.live,
            "dry_run": self.dry_run,
            "freed_bytes": self.freed_bytes,
            "gone": [_plain(item) for item in self.gone],
            "kept": [_plain(item) for item in self.kept],
            "failed": self.failed,
        }


def _plain(item: Leftover) -> dict[str, Any]:
    return {
        "kind": item.kind.value,
        "path": str(item.path),
        "bytes": item.size_bytes,
        "cut": item.cut,
    }


def clean(found: Found, *, dry_run: bool, everything: bool = False) -> Cleaned:
    """Remove what can go; with *everything* the quarantine too.

    While it works no run of the session starts; one that runs already keeps what it works with.

    Raises:
        LedgerError: the ledger can't be read, so nobody knows what may go.
    """
    with _alone(found.files) as live:
        items = leftovers(found.files, read_state(found.files), live=live)
        stays = [item for item in items if item.kind is Kind.QUARANTINE and not everything]
        goes = [item for item in items if item not in stays]
        failed: list[tuple[Leftover, str]] = []
        for item in () if dry_run else goes:
            why = _remove(item)
            if why is not None:
                failed.append((item, why))
    over = [item for item, _ in failed]
    return Cleaned(
        tag=found.tag,
        live=live,
        dry_run=dry_run,
        gone=tuple(item for item in goes if item not in over),
        kept=tuple(stays),
        failed=tuple(f"{item.path}: {why}" for item, why in failed),
    )


@contextlib.contextmanager
def _alone(files: SessionFiles) -> Iterator[bool]:
    """Holds the session's lock where that is free; is somebody else at work?"""
    try:
        lock = hold_session(files)
    except SessionHeldError:
        yield True
        return
    except InfrastructureError:
        yield False  # a folder that can't be written: what can't be removed is told as such
        return
    try:
        yield False
    finally:
        os.close(lock)


def _remove(item: Leftover) -> str | None:
    """None when it is gone, else why not."""
    try:
        if item.cut:
            _cut(item.path)
        elif item.path.is_dir() and not item.path.is_symlink():
            _open_up(item.path)
            shutil.rmtree(item.path)
        else:
            item.path.unlink()
    except OSError as error:
        return error.strerror or str(error)
    except RecursionError:
        return "nested too deep"
    return None


def _open_up(folder: Path) -> None:
    """What a candidate has closed can be removed by us, who are its owner."""
    for here, folders, _ in os.walk(folder):
        for place in (os.path.join(here, name) for name in folders):
            with contextlib.suppress(OSError):
                if not os.path.islink(place):
                    os.chmod(place, 0o700)


def _cut(log: Path) -> None:
    """Its beginning and its end stay, which is what anybody reads of it."""
    new = log.with_name(f".{log.name}.new")
    try:
        with log.open("rb") as old, new.open("wb") as short:
            short.write(old.read(LOG_HEAD_BYTES))
            short.write(_MARKER)
            old.seek(-LOG_TAIL_BYTES, os.SEEK_END)
            shutil.copyfileobj(old, short)
        os.replace(new, log)
    except OSError:
        new.unlink(missing_ok=True)
        raise
