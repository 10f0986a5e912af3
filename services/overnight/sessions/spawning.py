"""A spawner for one command that needs a container, beside no session's tree."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from overnight.children import Child, ChildSpec, service_argv
from overnight.configuration import socket_dir, spawner_socket
from overnight.contracts.errors import InfrastructureError
from overnight.sessions.services import SPAWNER_FOLDER, needs_spawner

READY_SECONDS = 60.0
LOOK_SECONDS = 0.02
END_SECONDS = 30.0  #: to remove the containers that are left


@contextmanager
def executor_options(
    executor: str, root: Path, protected: tuple[Path, ...], environ: Mapping[str, str]
) -> Iterator[dict[str, object]]:
    """What *executor* is made with; inside, a spawner of its own runs where it needs one.

    root: a private folder on a disk; the spawner keeps its own below it.

    Raises:
        InfrastructureError: the spawner does not start; says why.
    """
    options: dict[str, object] = {"protected": [str(place) for place in protected]}
    if not needs_spawner(executor):
        yield options
        return
    there = spawner_socket(environ)
    if there is not None:
        yield options | {"spawner": there}
        return
    base = socket_dir(environ)
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="spawner-", dir=base))
    try:
        with _running(folder / "spawner.sock", root / SPAWNER_FOLDER, root / "logs") as socket:
            yield options | {"spawner": socket}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(socket: Path, root: Path, logs: Path) -> Iterator[Path]:
    read_end, write_end = os.pipe()
    words = ("--socket", str(socket), "--root", str(root.absolute()))
    child = Child(
        spec=ChildSpec(name="spawner", argv=service_argv("spawner", *words)),
        log_path=logs / "spawner.log",
        lifeline=read_end,
        backoff_seconds=1.0,
        backoff_max_seconds=1.0,
    )
    try:
        child.start()
        _wait_ready(child)
        yield socket
    finally:
        _end(child)
        os.close(write_end)
        os.close(read_end)


def _wait_ready(child: Child) -> None:
    until = time.monotonic() + READY_SECONDS
    while not child.ready:
        code = child.poll()
        if code is not None:
            raise InfrastructureError(child.last_reason() or f"spawner: exit code {code}")
        if child.waiting:  # once is no session, which would wait for it
            raise InfrastructureError(child.waiting)
        if time.monotonic() > until:
            raise InfrastructureError("the spawner did not become ready")
        time.sleep(LOOK_SECONDS)


def _end(child: Child) -> None:
    process = child.process
    if process is None:
        return
    child.signal(signal.SIGTERM)
    until = time.monotonic() + END_SECONDS
    while child.poll() is None and child.process is not None:
        if time.monotonic() > until:
            process.kill()
            process.wait()
            return
        time.sleep(LOOK_SECONDS)
