"""Frames between runner and spawner: a length, one JSON text, and descriptors beside it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Sequence

from overnight.contracts import wire
from overnight.contracts.errors import WireError

MAX_FRAME_BYTES = 1024 * 1024
MAX_DESCRIPTORS = 4
_HEADER = struct.Struct("!I")


def send(line: socket.socket, message: wire.Wire, descriptors: Sequence[int] = ()) -> None:
    """One frame. Raises OSError."""
    body = wire.encode(message).encode()
    header = _HEADER.pack(len(body))
    sent = socket.send_fds(line, [header], descriptors) if descriptors else line.send(header)
    line.sendall(header[sent:] + body)


def receive(line: socket.socket) -> tuple[wire.Json, list[int]] | None:
    """The next frame and its descriptors, which the caller closes; None at the end.

    Raises:
        WireError: it is longer than a frame may be, or no strict JSON.
        OSError: the line broke.
    """
    header, descriptors, flags, _ = socket.recv_fds(line, _HEADER.size, MAX_DESCRIPTORS)
    try:
        if not header:
            return None
        if flags & socket.MSG_CTRUNC:
            raise WireError("a frame with too many descriptors")
        (length,) = _HEADER.unpack(header + _exactly(line, _HEADER.size - len(header)))
        if length > MAX_FRAME_BYTES:
            raise WireError(f"a frame of {length} bytes is longer than {MAX_FRAME_BYTES}")
        text = _exactly(line, length).decode(errors="strict")
        return wire.loads(text, "frame"), list(descriptors)
    except UnicodeDecodeError as error:
        close_all(descriptors)
        raise WireError("a frame that is not UTF-8") from error
    except BaseException:
        close_all(descriptors)
        raise


def close_all(descriptors: Sequence[int]) -> None:
    """Close what came with a frame."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _exactly(line: socket.socket, length: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < length:
        chunk = line.recv(min(65536, length - len(chunks)))
        if not chunk:
            raise WireError("a frame that ends early")
        chunks += chunk
    return bytes(chunks)
