"""run.log keeps the start and the end, whatever the chunks were."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.executors.pipes import BoundedLog, Pump


@settings(deadline=None)
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=30),
    head=st.integers(0, 30),
    tail=st.integers(1, 30),
)
def test_the_log_is_head_marker_and_tail(chunks: list[bytes], head: int, tail: int) -> None:
    whole = b"".join(chunks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        log = BoundedLog(path, head, tail)
        for chunk in chunks:
            log.write(chunk)
        truncated = log.truncated
        log.close()
        log.close()
        kept = path.read_bytes()

    left_out = len(whole) - head - tail
    assert log.written_bytes == len(whole)
    assert truncated == (left_out > 0)
    if left_out > 0:
        marker = f"\n[overnight: {left_out} bytes left out here]\n".encode()
        assert kept == whole[:head] + marker + whole[-tail:]
    else:
        assert kept == whole


def test_drain_does_not_wait_for_a_writer_that_stays(tmp_path: Path) -> None:
    out, writer = os.pipe()
    err, other = os.pipe()
    seen: list[tuple[str, bytes]] = []
    log = BoundedLog(tmp_path / "run.log", 100, 100)
    pump = Pump(out, err, log, lambda name, chunk: seen.append((name, chunk)))
    os.write(other, b"e")
    os.write(writer, b"o")
    pump.drain()
    for descriptor in (out, writer, err, other):
        os.close(descriptor)
    log.close()

    assert seen == [("stdout", b"o"), ("stderr", b"e")]


@pytest.mark.parametrize("room_again", [True, False])
def test_a_full_disk_costs_the_log_and_not_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_again: bool
) -> None:
    whole = bytes(range(32, 127)) * 4
    log = BoundedLog(tmp_path / "run.log", 300, 1000)
    room, write = 100, os.write

    def full(fd: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(fd, data[:room])
        room -= taken
        return taken

    monkeypatch.setattr("overnight.executors.pipes.os.write", full)
    for start in range(0, len(whole), 40):
        log.write(whole[start : start + 40])
    if room_again:
        monkeypatch.undo()
    log.close()

    assert log.written_bytes == len(whole)
    assert log.truncated
    assert (tmp_path / "run.log").read_bytes() == (whole if room_again else whole[:100])
