"""The candidate's two output pipes: read in order of arrival, kept bounded in run.log."""

from __future__ import annotations

import os
import select
from pathlib import Path

import structlog

from overnight.contracts.execution import OutputSink

log = structlog.get_logger()

CHUNK_BYTES = 65536
DRAIN_CHUNKS = 64  #: far more than a pipe holds


class BoundedLog:
    """run.log: the first bytes as they come, the last bytes at `close`, a marker line between.

    The end waits in memory, so that a flood costs no disk traffic beyond what is kept. A disk that
    refuses costs lines of the log, never the experiment: what it prints is parsed as it comes.
    """

    def __init__(self, path: Path, head_bytes: int, tail_bytes: int) -> None:
        path.parent.mkdir(exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._head_left = head_bytes
        self._limit = tail_bytes
        self._ring = bytearray()  # grows to its limit, then wraps around
        self._position = 0  # where the oldest byte stands once it has wrapped
        self._after_head = 0
        self._refused = False
        self.written_bytes = 0  #: by the candidate, before anything was left out

    @property
    def truncated(self) -> bool:
        """Was anything left out, or may it yet be?"""
        return self._refused or self._after_head > self._limit

    def write(self, chunk: bytes) -> None:
        """Take one chunk."""
        self.written_bytes += len(chunk)
        if self._head_left:
            written = self._put(chunk[: self._head_left])
            self._head_left = 0 if self._refused else self._head_left - written
            chunk = chunk[written:]
        self._after_head += len(chunk)
        if len(chunk) >= self._limit:
            self._ring[:] = chunk[len(chunk) - self._limit :]
            self._position = 0
            return
        room = self._limit - len(self._ring)
        self._ring += chunk[:room]
        self._overwrite(chunk[room:])

    def close(self) -> None:
        """Append the marker and the end. Idempotent."""
        if self._file.closed:
            return
        with self._file:
            left_out = self._after_head - self._limit
            if left_out > 0:
                self._put(f"\n[overnight: {left_out} bytes left out here]\n".encode())
            self._put(self._ring[self._position :])
            self._put(self._ring[: self._position])
        self._ring.clear()

    def _put(self, data: bytes | bytearray) -> int:
        """How much of it the disk took."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file.fileno(), view) :]
        except OSError as error:
            if not self._refused:
                log.error("run_log_cut", file=self._file.name, reason=str(error))
            self._refused = True
        return len(data) - len(view)

    def _overwrite(self, chunk: bytes) -> None:
        while chunk:
            piece = chunk[: self._limit - self._position]
            self._ring[self._position : self._position + len(piece)] = piece
            self._position = (self._position + len(piece)) % self._limit
            chunk = chunk[len(piece) :]


class Pump:
    """Waits on the two pipes and on anything else that may happen meanwhile."""

    def __init__(self, stdout: int, stderr: int, log: BoundedLog, sink: OutputSink) -> None:
        self._names = {stdout: "stdout", stderr: "stderr"}
        self._log = log
        self._sink = sink
        self._poll = select.poll()
        for descriptor in self._names:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)

    def watch(self, descriptor: int) -> None:
        """Report it from `turn` when it becomes readable, once."""
        self._poll.register(descriptor, select.POLLIN)

    def turn(self, seconds: float) -> list[int]:
        """Wait at most *seconds*, take what came, return the watched descriptors that fired."""
        fired: list[int] = []
        for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor in self._names:
                self._take(descriptor)
            else:
                self._poll.unregister(descriptor)
                fired.append(descriptor)
        return fired

    def drain(self) -> None:
        """Take what is left when no process writes any more."""
        for descriptor in sorted(self._names, key=self._names.__getitem__, reverse=True):
            for _ in range(DRAIN_CHUNKS):  # somebody may still write where nothing confines it
                if not self._take(descriptor):
                    break

    def _take(self, descriptor: int) -> bool:
        if descriptor not in self._names:
            return False
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._poll.unregister(descriptor)
            del self._names[descriptor]
            return False
        self._log.write(chunk)
        self._sink(self._names[descriptor], chunk)
        return True
