"""Appending to a ledger: one writer, one whole line at a time, on the disk before it is said."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, LedgerError, OvernightError
from overnight.contracts.rows import Head, Row
from overnight.contracts.status import RowKind
from overnight.faultpoints import Step, reach
from overnight.ledger.aside import keep_aside
from overnight.ledger.chain import link, to_line
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.head import head_problem, read_head
from overnight.ledger.lock import hold
from overnight.ledger.plain import check_plain
from overnight.ledger.reader import LedgerTail
from overnight.ledger.stamp import utc_label


class LedgerWriter:
    """The only thing that appends. Holds the ledger's lock from `open` to `close`."""

    def __init__(self, files: SessionFiles, sid: str, now: Callable[[], str] | None = None) -> None:
        self._files = files
        self.sid = sid  #: of the session that this ledger is of
        self._now = now or utc_label
        self._lock: int | None = None
        self._fd: int | None = None
        self._size = 0  #: of the file up to the last row that counts
        self._unsettled: Row | None = None  #: written whole, but perhaps not on the disk
        self.state = SessionState()
        self.on_fsync: Callable[[float], None] = lambda seconds: None  #: told how long each took
        self.healed_bytes = 0  #: of an unterminated tail that was moved away at the last open

    def open(self) -> None:
        """Lock, heal an unterminated tail, check and fold every row.

        Raises:
            SessionHeldError: another recorder holds the ledger.
            LedgerError: a whole line is broken, or rows are missing at the end.
            InfrastructureError: the folder can't be written.
        """
        self._lock = lock_ledger(self._files)
        try:
            check_plain(self._files.ledger)
            self._heal_tail()
            last = None
            for row in LedgerTail(self._files.ledger).rows():
                self.state.apply(row)
                last = row
            self._check_head()
            if self.state.sid is not None and self.state.sid != self.sid:
                raise LedgerError(f"{self._files.ledger} belongs to session {self.state.sid}")
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(self._files.ledger, flags, 0o644)
            self._size = os.fstat(self._fd).st_size
            sync_folder(self._files.root)
            self._catch_up_head(last)
        except OSError as error:
            self.close()
            raise InfrastructureError(f"{self._files.ledger}: {error.strerror}") from error
        except OvernightError:
            self.close()
            raise

    def append(self, kind: RowKind, key: str, body: wire.Wire) -> Row:
        """Write one row and return it once it is on the disk; `state` includes it then.

        Call `settle` before you judge what may be written: it may add a row to `state`.

        Raises:
            InfrastructureError: the disk refused (full, read-only, broken). The message stays where
                it is and is tried again: nothing was written, or `settle` goes on with it.
            LedgerError: the file is not the one that we left.
        """
        assert self._fd is not None, "open first"  # a programming error
        assert self._unsettled is None, "settle first"  # a programming error
        row = link(
            seq=self.state.seq + 1,
            ts=self._now(),
            session=self.sid,
            kind=kind,
            key=key,
            body=body,
            prev=self.state.hash,
        )
        line = to_line(row)
        self._check_untouched(self._size)
        try:
            self._stage_head(row.seq, row.hash)
            reach(Step.RECORDER_STAGED)
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._take_back()
            raise InfrastructureError(f"{self._files.ledger}: {error.strerror}") from error
        self._unsettled = row
        reach(Step.RECORDER_WRITTEN)
        try:
            self._finish(row, len(line))
        except OSError as error:
            raise InfrastructureError(f"{self._files.ledger}: {error.strerror}") from error
        return row

    def settle(self) -> Row | None:
        """Finish the row whose fsync failed; it, when there was one.

        Readers may have seen such a row, so it is never taken back. The kernel may have dropped
        its bytes and say nothing at the next fsync, so they are written again, where they stand.

        Raises:
            InfrastructureError: the disk still refuses.
            LedgerError: the file is not the one that we left.
        """
        row = self._unsettled
        if row is None:
            return None
        line = to_line(row)
        self._check_untouched(self._size + len(line))
        try:
            self._stage_head(row.seq, row.hash)
            _write_at(self._files.ledger, line, self._size)
            self._finish(row, len(line))
        except OSError as error:
            raise InfrastructureError(f"{self._files.ledger}: {error.strerror}") from error
        return row

    def _finish(self, row: Row, size: int) -> None:
        """The row's bytes stand there: on the disk with them, then it counts."""
        assert self._fd is not None  # a programming error
        began = time.perf_counter()
        os.fsync(self._fd)
        self.on_fsync(time.perf_counter() - began)
        reach(Step.RECORDER_SYNCED)
        os.replace(self._staged_head, self._files.head)
        self._unsettled = None
        self._size += size
        self.state.apply(row)
        reach(Step.RECORDER_APPENDED)

    def _check_untouched(self, size: int) -> None:
        """A ledger that was moved, deleted or cut under us would swallow rows nobody can read."""
        assert self._fd is not None  # a programming error
        try:
            named, ours = os.stat(self._files.ledger), os.fstat(self._fd)
        except OSError as error:
            raise LedgerError(f"{self._files.ledger}: {error.strerror}") from error
        if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino):
            raise LedgerError(f"{self._files.ledger} is another file than the one we write")
        if ours.st_size != size:
            raise LedgerError(
                f"{self._files.ledger} was changed by somebody else while we wrote it"
            )

    def close(self) -> None:
        """Let go of file and lock. Idempotent."""
        for fd in (self._fd, self._lock):
            if fd is not None:
                os.close(fd)
        self._fd = self._lock = None

    def _take_back(self) -> None:
        """A torn row is cut off at once; if even that fails, the next open heals it."""
        assert self._fd is not None  # a programming error
        with contextlib.suppress(OSError):  # what is left is written over
            self._staged_head.unlink(missing_ok=True)
        try:
            if os.fstat(self._fd).st_size != self._size:
                os.ftruncate(self._fd, self._size)
        except OSError as error:
            raise LedgerError(
                f"{self._files.ledger}: a torn row could not be taken back ({error.strerror})"
            ) from error

    def _heal_tail(self) -> None:
        path = self._files.ledger
        try:
            tail = _unterminated_tail(path)
        except FileNotFoundError:
            return
        if not tail:
            return
        keep_aside(self._files.quarantine, "torn-tail", tail)
        reach(Step.RECORDER_TAIL)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(tail))
            os.fsync(file.fileno())
        self.healed_bytes = len(tail)

    def _check_head(self) -> None:
        head = read_head(self._files.head)
        problem = head_problem(head, self.state.seq, self.state.hash, known_hash=None)
        if problem:
            raise LedgerError(f"{self._files.ledger}: {problem}; run `overnight ledger repair`")

    @property
    def _staged_head(self) -> Path:
        return self._files.head.with_suffix(".tmp")

    def _stage_head(self, seq: int, row_hash: str) -> None:
        """On the disk before the row and renamed after it: the head needs no space once the row is
        written, so it may lag by one row but never leads, and a full disk costs neither."""
        with self._staged_head.open("w") as file:
            file.write(wire.encode(Head(seq=seq, hash=row_hash)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _catch_up_head(self, last: Row | None) -> None:
        """After an end between row and head: the row may be in the kernel's memory alone."""
        head = read_head(self._files.head)
        if last is None or (head is not None and head.seq == last.seq):
            self._staged_head.unlink(missing_ok=True)
            return
        assert self._fd is not None  # a programming error
        line = to_line(last)
        _write_at(self._files.ledger, line, self._size - len(line))
        os.fsync(self._fd)
        self._stage_head(last.seq, last.hash)
        os.replace(self._staged_head, self._files.head)


def lock_ledger(files: SessionFiles) -> int:
    """Become the ledger's one writer, until the descriptor is closed.

    Raises:
        SessionHeldError: another process is; names its pid.
        InfrastructureError: the folder can't be written.
    """
    return hold(
        files.ledger_lock,
        lambda pid: f"another recorder (pid {pid}) writes this ledger: `overnight down` ends it",
    )


def _unterminated_tail(path: Path) -> bytes:
    """Bytes after the last newline."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        tail = b""
        while size > 0:
            step = min(65536, size)
            size -= step
            file.seek(size)
            block = file.read(step)
            cut = block.rfind(b"\n")
            if cut >= 0:
                return block[cut + 1 :] + tail
            tail = block + tail
        return tail


def sync_folder(folder: Path) -> None:
    """What was renamed or made in it stays so. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_at(path: Path, data: bytes, offset: int) -> None:
    """Over what stands there. Not by the descriptor that appends: Linux would append here too."""
    with path.open("r+b", buffering=0) as file:
        file.seek(offset)
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
