"""Frames of somebody who means no good: refused in one line, and no descriptor stays open."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from overnight.contracts.errors import WireError
from overnight.contracts.spawning import Done, Greet
from overnight.executors import frames

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    before = len(os.listdir("/proc/self/fd"))
    yield ours, theirs
    assert len(os.listdir("/proc/self/fd")) <= before, "a descriptor stays open"
    ours.close()
    theirs.close()


def say(line: socket.socket, body: bytes, length: int | None = None) -> None:
    line.sendall(struct.pack("!I", len(body) if length is None else length) + body)


def test_a_frame_and_its_descriptors_arrive(pair: Pair) -> None:
    ours, theirs = pair
    with open("/dev/null", "rb") as file:
        frames.send(theirs, Greet(), (file.fileno(),))

    received = frames.receive(ours)
    assert received is not None
    value, came = received
    assert value == {"verb": "greet", "protocol": 1}
    assert os.path.samestat(os.fstat(came[0]), os.stat("/dev/null"))
    frames.close_all(came)


def test_the_end_is_no_error(pair: Pair) -> None:
    pair[1].shutdown(socket.SHUT_WR)

    assert frames.receive(pair[0]) is None


@pytest.mark.parametrize(
    ("body", "length", "says"),
    [
        (b"{}", frames.MAX_FRAME_BYTES + 1, "longer than"),
        (b"{}", 2**32 - 1, "longer than"),
        (b"{}", 3, "ends early"),
        (b"", 1, "ends early"),
        (b"\xff\xfe", None, "not UTF-8"),
        (b"", None, "frame"),
        (b"{", None, "frame"),
        (b'{"a":1,"a":2}', None, "frame"),
        (b'{"a":NaN}', None, "frame"),
        (b"[" * 100_000, None, "frame"),
    ],
)
def test_what_is_no_frame_is_refused(
    pair: Pair, body: bytes, length: int | None, says: str
) -> None:
    ours, theirs = pair
    say(theirs, body, length)
    theirs.shutdown(socket.SHUT_WR)

    with pytest.raises(WireError, match=says):
        frames.receive(ours)


def test_half_a_header_is_refused(pair: Pair) -> None:
    pair[1].sendall(b"\0\0")
    pair[1].shutdown(socket.SHUT_WR)

    with pytest.raises(WireError, match="ends early"):
        frames.receive(pair[0])


@pytest.mark.parametrize("count", [frames.MAX_DESCRIPTORS + 1, 200])
def test_too_many_descriptors_are_refused_and_closed(pair: Pair, count: int) -> None:
    with open("/dev/null", "rb") as file:
        socket.send_fds(pair[1], [struct.pack("!I", 2) + b"{}"], [file.fileno()] * count)

    with pytest.raises(WireError, match="too many descriptors"):
        frames.receive(pair[0])


def test_descriptors_of_a_frame_that_is_refused_are_closed(pair: Pair) -> None:
    with open("/dev/null", "rb") as file:
        socket.send_fds(pair[1], [struct.pack("!I", 2) + b"\xff\xff"], [file.fileno()] * 2)

    with pytest.raises(WireError, match="not UTF-8"):
        frames.receive(pair[0])


def test_a_frame_of_single_bytes_is_read_whole(pair: Pair) -> None:
    body = json.dumps({"verb": "greet"}).encode()

    def drip() -> None:
        for byte in struct.pack("!I", len(body)) + body:
            pair[1].sendall(bytes((byte,)))

    thread = threading.Thread(target=drip)
    thread.start()
    received = frames.receive(pair[0])
    thread.join()

    assert received == ({"verb": "greet"}, [])


def test_who_does_not_read_breaks_the_line_and_not_the_sender(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()

    with pytest.raises(OSError, match="pipe"):
        frames.send(ours, Done())
