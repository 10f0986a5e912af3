"""The pipes between a container and its runner: the engine copies nothing and keeps no order."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

GO, OUT, ERR, CODE = "go", "out", "err", "code"
#: Who is nobody in particular may read the one and write the others, not the other way round.
MODES = {GO: 0o444, OUT: 0o222, ERR: 0o222, CODE: 0o222}


class Line:
    """Four named pipes below *folder*, which is mounted read-only. Raises OSError.

    Our own ends keep them open from before the container runs until it has ended. `go` is its
    lifeline too: the kernel closes it with this process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ends: dict[str, int] = {}
        self.stdout = self.stderr = -1
        self.code = (
            -1
        )  #: readable when the command is over; at its end when who tells it was killed
        folder.mkdir()
        folder.chmod(0o711)
        try:
            for name in MODES:
                os.mkfifo(folder / name, 0o600)
                if name != CODE:
                    self._ends[name] = _open(folder / name, os.O_RDWR)
            self.stdout = _open(folder / OUT, os.O_RDONLY)
            self.stderr = _open(folder / ERR, os.O_RDONLY)
            self.code = _open(folder / CODE, os.O_RDONLY)
            for name, mode in MODES.items():  # last: an ordinary user is bound by them as well
                (folder / name).chmod(mode)
        except BaseException:
            self.close()
            raise

    def say(self, text: bytes) -> None:
        """To the gate."""
        os.write(self._ends[GO], text)

    def remind(self) -> None:
        """The gate, of the dead that nobody waits for."""
        with contextlib.suppress(BlockingIOError):  # it has reminders enough
            os.write(self._ends[GO], b"\n")

    def told(self) -> bytes:
        """How the command ended, once; b"" when that was killed which should have said it."""
        try:
            return os.read(self.code, 16)
        except BlockingIOError:
            return b""
        finally:
            os.close(self.code)
            self.code = -1

    def give(self) -> None:
        """The runner has its own copies of the reading ends."""
        for descriptor in (self.stdout, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdout = self.stderr = -1

    def end(self) -> None:
        """No process of the container writes any more: let the readers come to an end."""
        for descriptor in self._ends.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._ends.clear()
        if self.code >= 0:
            os.close(self.code)
            self.code = -1

    def close(self) -> None:
        """All of it."""
        self.give()
        self.end()


def _open(path: Path, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK | os.O_CLOEXEC)
