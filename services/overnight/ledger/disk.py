"""What a session keeps on the disk, and what of it can go without losing anything that was tried.

Rows, commits, refs and exports are never among it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from overnight.contracts.errors import OvernightError
from overnight.ledger.files import REFUSED, SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.reader import LedgerTail

LOG_HEAD_BYTES, LOG_TAIL_BYTES = 64 * 1024, 448 * 1024  #: what stays of a log that is cut
LOG_BYTES = LOG_HEAD_BYTES + LOG_TAIL_BYTES + 4096  #: a log up to this length stays whole


class Kind(StrEnum):
    """What can go, in the order in which it is told."""

    WEIGHTS = "weights"  #: /out of experiments that are not on the way to the best
    LOGS = "logs"  #: the middle of long logs, and what services logged long ago
    TREES = "trees"  #: exported again when they are needed
    SLOTS = "slots"  #: runners that hold nothing undelivered
    UNFINISHED = "unfinished"  #: left by a process that was killed
    FAILED = "failed"  #: sessions beside it whose baseline failed
    QUARANTINE = "quarantine"  #: damaged or refused: kept unless all is asked for


#: No service of a running session looks at these.
WHILE_LIVE = frozenset({Kind.WEIGHTS, Kind.FAILED, Kind.QUARANTINE})


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """One file or folder that can go."""

    kind: Kind
    path: Path
    size_bytes: int  #: that would be free
    cut: bool = False  #: its middle goes, its ends stay


def keeps_out(state: SessionState) -> frozenset[int]:
    """Experiments whose /out stays: the best and what led to it, and whatever is not decided."""
    kept = {*state.running, *state.undecided}
    here = state.incumbent
    while here is not None and here not in kept:
        kept.add(here)
        here = state.experiments[here].proposed.parent
    return frozenset(kept)


def forget_out(files: SessionFiles, experiment: int) -> bool:
    """Remove what an experiment left in /out; was there anything? Half a removal is gone on with
    the next time."""
    out = files.iteration(experiment) / "out"
    if not os.path.lexists(out):
        return False
    shutil.rmtree(out, ignore_errors=True)
    return True


def leftovers(files: SessionFiles, state: SessionState, *, live: bool) -> list[Leftover]:
    """All that can go. *live*: a stack works on it, which has its own use for most of it."""
    found = [*_weights(files, state), *_failed(files.root), *_quarantine(files)]
    found += [*_logs(files, state), *_slots(files), *_unfinished(files)]
    order = list(Kind)
    found = [item for item in found if item.kind in WHILE_LIVE or not live]
    return sorted(found, key=lambda item: (order.index(item.kind), str(item.path)))


def freeable(files: SessionFiles, state: SessionState) -> tuple[int, int]:
    """Bytes that `clean` would free while a stack works on the session, and without one."""
    items = [i for i in leftovers(files, state, live=False) if i.kind is not Kind.QUARANTINE]
    now = sum(item.size_bytes for item in items if item.kind in WHILE_LIVE)
    return now, sum(item.size_bytes for item in items)


def free_gb(folder: Path) -> float | None:
    """Room for users on the disk of *folder*, in 10^9 bytes; None where nobody can say."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize / 1e9


def used_bytes(place: Path) -> int:
    """What a file or folder takes on the disk, as far as it can be read. Links are not followed."""
    total = _blocks(place)
    for folder, folders, names in os.walk(place):
        total += sum(_blocks(Path(folder, name)) for name in (*folders, *names))
    return total


def _blocks(place: Path) -> int:
    try:
        return os.lstat(place).st_blocks * 512
    except OSError:
        return 0  # it went away meanwhile


def _weights(files: SessionFiles, state: SessionState) -> Iterator[Leftover]:
    kept = keeps_out(state)
    for number in sorted(state.experiments.keys() - kept):
        out = files.iteration(number) / "out"
        if out.is_dir() and not out.is_symlink() and any(out.iterdir()):
            yield Leftover(kind=Kind.WEIGHTS, path=out, size_bytes=used_bytes(out))


def _logs(files: SessionFiles, state: SessionState) -> Iterator[Leftover]:
    for log in sorted(files.service_logs.glob("*.log.1")):
        if _is_file(log):
            yield Leftover(kind=Kind.LOGS, path=log, size_bytes=_blocks(log))
    kept = keeps_out(state)
    for number in sorted(state.experiments.keys() - kept):
        for log in sorted(files.iteration(number).glob("run*.log")):
            if _is_file(log) and log.stat().st_size > LOG_BYTES:
                free = max(0, _blocks(log) - LOG_BYTES)
                yield Leftover(kind=Kind.LOGS, path=log, size_bytes=free, cut=True)


def _slots(files: SessionFiles) -> Iterator[Leftover]:
    for slot in sorted((files.root / "runners").glob("*")):
        if slot.is_symlink() or not slot.is_dir():
            continue
        if not _holds_something(slot):
            yield Leftover(kind=Kind.SLOTS, path=slot, size_bytes=used_bytes(slot))
            continue
        for place in sorted((slot / "trees", *slot.glob("work-*"))):
            if place.is_dir() and not place.is_symlink():
                yield Leftover(kind=Kind.TREES, path=place, size_bytes=used_bytes(place))


def _holds_something(slot: Path) -> bool:
    """A result that no recorder took, a claim, or the word that its device is not to be used."""
    outbox = slot / "outbox"
    holding = [*outbox.glob("*.json"), *outbox.glob(f"{REFUSED}/*")]
    named = ("claimed", "claimed.bad", "device.quarantined")
    return bool(holding) or any(os.path.lexists(slot / name) for name in named)


def _unfinished(files: SessionFiles) -> Iterator[Leftover]:
    for pattern in (".objects-*", ".overnight-*"):
        for place in sorted(files.root.glob(pattern)):
            yield Leftover(kind=Kind.UNFINISHED, path=place, size_bytes=used_bytes(place))


def _quarantine(files: SessionFiles) -> Iterator[Leftover]:
    for place in sorted(files.quarantine.glob("*")):
        yield Leftover(kind=Kind.QUARANTINE, path=place, size_bytes=used_bytes(place))


def _failed(root: Path) -> Iterator[Leftover]:
    prefix = f"{root.name}.failed-"
    for folder in sorted(root.parent.glob("*.failed-*")):
        number = folder.name.removeprefix(prefix)
        if not folder.name.startswith(prefix) or not (number.isascii() and number.isdigit()):
            continue
        if folder.is_dir() and not folder.is_symlink() and _tried_nothing(SessionFiles(folder)):
            yield Leftover(kind=Kind.FAILED, path=folder, size_bytes=used_bytes(folder))


def _tried_nothing(files: SessionFiles) -> bool:
    """A session of ours in which no idea was ever tried. What can't be read may hold anything."""
    state = SessionState()
    try:
        for row in LedgerTail(files.ledger).rows():
            state.apply(row)
    except OvernightError:
        return False
    ours = any(_is_file(path) for path in (files.identity, files.opening, files.ledger))
    return ours and state.incumbent is None


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
