"""`ledger repair`: keep the original, go on from the last whole row, say so in a row of its own."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, LedgerError
from overnight.contracts.rows import GENESIS, Head, Repaired
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step, reach
from overnight.ledger.chain import BrokenRowError, from_line, link, refuse_other_version, to_line
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState, UnfoundedRowError
from overnight.ledger.head import head_problem, read_head
from overnight.ledger.stamp import utc_label
from overnight.ledger.writer import lock_ledger, sync_folder


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What was done. needed is False when the ledger was whole: then nothing was touched."""

    needed: bool
    kept_rows: int
    dropped_lines: int
    reason: str
    quarantine: Path | None


def repair(files: SessionFiles, sid: str) -> Repair:
    """Make a damaged ledger writable again.

    The first bad line and all after it leave the ledger: a later row hangs on the earlier ones, so
    it can't be trusted without them. The whole original lies in quarantine/. What ran after the bad
    line is run again. Killed at any point it can be done again, and the ledger never looks whole
    without the row that says so.

    Raises:
        OtherVersionRowError: another version wrote rows that would be dropped; nothing was touched.
        SessionHeldError: a recorder writes this ledger.
        InfrastructureError: the disk refused; all is as it was.
    """
    lock = lock_ledger(files)
    try:
        content = _content(files)
        kept, good, problem = _whole_rows(files, sid, content)
        if problem is None:
            return Repair(
                needed=False, kept_rows=kept.seq, dropped_lines=0, reason="", quarantine=None
            )
        return _mend(files, sid, kept, content[:good], Damage(problem, content))
    except OSError as error:
        raise InfrastructureError(f"{files.ledger}: {error.strerror}") from error
    finally:
        os.close(lock)


@dataclass(frozen=True)
class Damage:
    """What is wrong, and the bytes as they were found."""

    problem: str
    content: bytes


def _mend(files: SessionFiles, sid: str, kept: SessionState, good: bytes, damage: Damage) -> Repair:
    aside = _free_place(files)
    dropped = max(0, damage.content.count(b"\n") - kept.seq)
    body = Repaired(quarantine=aside.name, lines=dropped, reason=damage.problem[:500])
    row = link(
        seq=kept.seq + 1,
        ts=utc_label(),
        session=sid,
        kind=RowKind.REPAIRED,
        key=f"repaired:{kept.seq + 1}:{aside.name}",
        body=body,
        prev=kept.hash,
    )
    head = wire.encode(Head(seq=row.seq, hash=row.hash)).encode() + b"\n"
    new = {files.head: head, files.ledger: good + to_line(row)}
    staged = {path: path.with_name(f".{path.name}.repair") for path in new}
    try:
        _keep_original(files, aside, damage.content)
        for path, content in new.items():
            _write(staged[path], content)
    except OSError:
        for path in (*_copies(aside), *staged.values()):
            path.unlink(missing_ok=True)
        raise
    reach(Step.REPAIR_KEPT)
    # The head goes first: until the ledger follows it misses a row, which is damage too.
    os.replace(staged[files.head], files.head)
    reach(Step.REPAIR_HEAD)
    os.replace(staged[files.ledger], files.ledger)
    sync_folder(files.root)
    reach(Step.REPAIR_CUT)
    return Repair(
        needed=True,
        kept_rows=kept.seq,
        dropped_lines=dropped,
        reason=damage.problem,
        quarantine=aside,
    )


def _content(files: SessionFiles) -> bytes:
    try:
        return files.ledger.read_bytes()
    except FileNotFoundError as error:
        raise LedgerError(
            f"{files.ledger}: there is no ledger to repair; move {files.root} away to begin anew"
        ) from error


def _whole_rows(
    files: SessionFiles, sid: str, content: bytes
) -> tuple[SessionState, int, str | None]:
    """The fold of the good rows, their length in bytes, and what is wrong after them."""
    state, good, prev = SessionState(), 0, GENESIS
    problem: str | None = None
    lines = re.findall(rb"[^\n]*\n|[^\n]+$", content)
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n"):
                raise BrokenRowError("row is torn")
            row = from_line(line[:-1], seq=number, prev=prev, session=sid)
            state.apply(row)
        except (BrokenRowError, UnfoundedRowError) as error:
            problem = f"line {number}: {error}"
            for later, dropped in enumerate(lines[number:], start=number + 1):
                refuse_other_version(dropped.removesuffix(b"\n"), later)
            break
        good, prev = good + len(line), row.hash
    if problem is None:
        try:
            problem = head_problem(read_head(files.head), state.seq, state.hash, None)
        except LedgerError as error:
            problem = str(error)
    return state, good, problem


def _free_place(files: SessionFiles) -> Path:
    number = 1
    while (aside := files.quarantine / f"ledger-{number}.jsonl").exists():
        number += 1
    return aside


def _copies(aside: Path) -> tuple[Path, Path]:
    return aside, aside.with_suffix(".head")


def _keep_original(files: SessionFiles, aside: Path, content: bytes) -> None:
    """Ledger and head as they are, on the disk; under their names only once they are whole."""
    files.quarantine.mkdir(exist_ok=True)
    ledger, head = _copies(aside)
    if files.head.is_file():
        _write(head, files.head.read_bytes())
    unfinished = ledger.with_suffix(".unfinished")
    try:
        _write(unfinished, content)
        os.replace(unfinished, ledger)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(files.quarantine)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
