"""A real spawner in a process of its own, and what it leaves seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 60.0
IMAGE = "python:3.11-slim-bookworm"  #: has what a Python of the host needs


@dataclass
class Spawner:
    """One that runs."""

    process: subprocess.Popen[bytes]
    socket: Path
    root: Path
    log: Path

    @property
    def label(self) -> str:
        """`key=value` on all its containers."""
        return f"overnight.spawner={(self.root / 'id').read_text().strip()}"

    def stop(self) -> int:
        """Ask it to end."""
        self.process.terminate()
        return self.process.wait(60)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()


def start(folder: Path, host: str, **settings: object) -> Spawner:
    """A spawner below *folder*; *settings* as its variables have them."""
    root, log = folder / "root", folder / "spawner.log"
    socket = folder / "s.sock"
    socket.unlink(missing_ok=True)
    named = {f"OVERNIGHT_SPAWNER_{k.upper()}": str(v) for k, v in settings.items()}
    env = {**os.environ, "DOCKER_HOST": host, "OVERNIGHT_SPAWNER_IMAGE": IMAGE, **named}
    words = ["-m", "overnight.spawner", "--socket", str(socket), "--root", str(root)]
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, *words], env=env, stderr=file, cwd="/")
    until = time.monotonic() + READY_SECONDS
    while not socket.exists():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < until, log.read_text()[-2000:]
        time.sleep(0.02)
    return Spawner(process, socket, root, log)


@contextmanager
def running(host: str, **settings: object) -> Iterator[Spawner]:
    """One in a folder of its own, on the disk and with a short name; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ovsp-", ignore_cleanup_errors=True) as folder:
        spawner = start(Path(folder), host, **settings)
        try:
            yield spawner
        finally:
            if spawner.process.poll() is None:
                spawner.stop()
