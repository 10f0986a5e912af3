"""`ledger repair`: keep the original, go on from the last whole row, say so in a row of its own."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, LedgerError
from overnight.contracts.rows import GENESIS, Head, Repaired
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step, reach
from overnight.ledger.chain import BrokenRowError, from_line, refuse_other_version
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.head import head_problem, read_head
from overnight.ledger.writer import LedgerWriter, lock_ledger


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
    line is run again.

    Raises:
        OtherVersionRowError: another version wrote rows that would be dropped; nothing was touched.
        SessionHeldError: a recorder writes this ledger.
        InfrastructureError: the disk refused; the original is as it was.
    """
    lock = lock_ledger(files)
    try:
        kept, good, problem = _whole_rows(files, sid)
        total = files.ledger.read_bytes().count(b"\n")
        if problem is None:
            return Repair(
                needed=False, kept_rows=kept.seq, dropped_lines=0, reason="", quarantine=None
            )
        aside = _keep_original(files)
        reach(Step.REPAIR_KEPT)
        _replace(files.ledger, files.ledger.read_bytes()[:good])
        reach(Step.REPAIR_CUT)
        head = Head(seq=kept.seq, hash=kept.hash)
        _replace(files.head, wire.encode(head).encode() + b"\n")
    except OSError as error:
        raise InfrastructureError(f"{files.ledger}: {error.strerror}") from error
    finally:
        os.close(lock)
    done = Repair(
        needed=True,
        kept_rows=kept.seq,
        dropped_lines=max(0, total - kept.seq),
        reason=problem,
        quarantine=aside,
    )
    reach(Step.REPAIR_HEAD)
    _say_so(files, sid, done)
    return done


def _whole_rows(files: SessionFiles, sid: str) -> tuple[SessionState, int, str | None]:
    """The fold of the good rows, their length in bytes, and what is wrong after them."""
    state, good, prev = SessionState(), 0, GENESIS
    problem: str | None = None
    try:
        lines = files.ledger.read_bytes().splitlines(keepends=True)
    except FileNotFoundError as error:
        raise LedgerError(
            f"{files.ledger}: there is no ledger to repair; move {files.root} away to begin anew"
        ) from error
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n"):
                raise BrokenRowError("row is torn")
            row = from_line(line[:-1], seq=number, prev=prev, session=sid)
            state.apply(row)
        except (BrokenRowError, KeyError, IndexError) as error:
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


def _keep_original(files: SessionFiles) -> Path:
    files.quarantine.mkdir(exist_ok=True)
    number = 1
    while (aside := files.quarantine / f"ledger-{number}.jsonl").exists():
        number += 1
    shutil.copyfile(files.ledger, aside)
    if files.head.exists():
        shutil.copyfile(files.head, aside.with_suffix(".head"))
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    return aside


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.repair")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _say_so(files: SessionFiles, sid: str, done: Repair) -> None:
    writer = LedgerWriter(files, sid)
    writer.open()
    try:
        name = done.quarantine.name if done.quarantine else ""
        body = Repaired(quarantine=name, lines=done.dropped_lines, reason=done.reason[:500])
        writer.append(RowKind.REPAIRED, f"repaired:{writer.state.seq + 1}:{name}", body)
    finally:
        writer.close()
