"""A container's output, taken from the engine's frames and put into two plain pipes."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from threading import Thread

_HEADER = struct.Struct("!BxxxI")  #: which stream, how many bytes follow
STDOUT, STDERR = 1, 2
CHUNK_BYTES = 65536


class Streams:
    """Copies until the engine closes its side. A reader that is slow slows the command down."""

    def __init__(self, held: socket.socket) -> None:
        self._held = held
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        self.over, self._done = os.pipe()  #: `over` is readable when there is no more
        self._writers = {STDOUT: out, STDERR: err}
        self._thread = Thread(target=self._copy, name="stream", daemon=True)
        self._thread.start()

    def say(self, line: bytes) -> None:
        """To its standard input. Raises OSError."""
        self._held.sendall(line)

    def close(self) -> None:
        """Stop copying; what the readers hold stays theirs."""
        with contextlib.suppress(OSError):
            self._held.shutdown(socket.SHUT_RDWR)
        for name in ("stdout", "stderr"):
            self.give(name)  # a writer that is blocked gets EPIPE
        self._thread.join()
        self._held.close()
        os.close(self.over)

    def give(self, name: str) -> None:
        """Close our copy of a reading end, once the runner has its own."""
        descriptor = getattr(self, name)
        if descriptor >= 0:
            os.close(descriptor)
            setattr(self, name, -1)

    def _copy(self) -> None:
        with contextlib.suppress(OSError):
            while header := self._exactly(_HEADER.size):
                stream, length = _HEADER.unpack(header)
                while length:
                    chunk = self._held.recv(min(CHUNK_BYTES, length))
                    if not chunk:
                        break
                    length -= len(chunk)
                    self._put(stream, chunk)
        for descriptor in (*self._writers.values(), self._done):
            os.close(descriptor)

    def _put(self, stream: int, chunk: bytes) -> None:
        writer = self._writers[STDERR if stream == STDERR else STDOUT]
        view = memoryview(chunk)
        while view:
            view = view[os.write(writer, view) :]

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            chunk = self._held.recv(length - len(data))
            if not chunk:
                return b""
            data += chunk
        return data
