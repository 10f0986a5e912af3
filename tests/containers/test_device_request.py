"""A container asks the engine for exactly its GPUs, by UUID, and for none that it was not granted.

What goes over the wire to a real engine is written down by a relay in between. An engine without
NVIDIA's toolkit refuses such a request: that is told with its fix, and no container stays. That it
is granted by one with the toolkit is not shown: not run on a GPU.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from docker_engine import Engine
from tests.conformance.bench import Bench
from tests.containers.spawning import running

from overnight import plugins
from overnight.contracts.errors import SandboxUnavailableError

CREATE = b"/containers/create"


class Relay:
    """A socket in front of the engine's; keeps every byte that goes to it."""

    def __init__(self, place: Path, behind: str) -> None:
        self.behind = behind
        self.host = f"unix://{place}"
        self.streams: list[bytearray] = []
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def created(self) -> list[dict[str, Any]]:
        """Bodies of the requests that made a container."""
        found = []
        for stream in self.streams:
            for _, _, rest in _after(bytes(stream), CREATE):
                head, _, body = rest.partition(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                found.append(json.loads(body[:length]))
        return found

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.behind)
                self._open += [near, far]
                heard = bytearray()
                self.streams.append(heard)
                Thread(target=_pour, args=(near, far, heard), daemon=True).start()
                Thread(target=_pour, args=(far, near, None), daemon=True).start()


def _after(stream: bytes, mark: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    while mark in stream:
        parts = stream.partition(mark)
        yield parts
        stream = parts[2]


def _pour(source: socket.socket, sink: socket.socket, heard: bytearray | None) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            if heard is not None:
                heard += piece
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def relay(engine: Engine, tmp_path: Path) -> Iterator[Relay]:
    if not engine.host.startswith("unix://"):
        pytest.fail("this test listens in at a unix socket")
    made = Relay(tmp_path / "d.sock", engine.host.removeprefix("unix://"))
    yield made
    made.close()


@pytest.mark.parametrize("devices", [("GPU-7ad2c6ad-0000-4000-8000-00000000abcd",),
                                     ("GPU-1", "GPU-2"), ("MIG-3",)])  # fmt: skip
def test_the_engine_is_asked_for_these_gpus_and_refuses_without_the_toolkit(
    devices: tuple[str, ...], relay: Relay, engine: Engine, tmp_path: Path
) -> None:
    with running(relay.host) as spawner:
        executor = plugins.load(plugins.EXECUTORS, "docker")({"spawner": str(spawner.socket)})
        bench = Bench(executor, tmp_path)
        tree = bench.snapshot({"train.py": "print('never')\n"})
        sandbox = executor.prepare(bench.spec(("python", "train.py"), devices=devices))
        try:
            with pytest.raises(SandboxUnavailableError) as refused:
                sandbox.start(tree)
        finally:
            sandbox.destroy()
        left = engine.client.containers.list(all=True, filters={"label": spawner.label})

    bodies = relay.created()
    assert [body["HostConfig"]["DeviceRequests"] for body in bodies] == [
        [
            {
                "Driver": "nvidia",
                "Count": 0,
                "DeviceIDs": list(devices),
                "Capabilities": [["gpu"]],
                "Options": {},
            }
        ]
    ]
    assert "install the NVIDIA container toolkit" in str(refused.value)
    assert left == [], "the container that the engine had made is gone"


def test_who_was_granted_none_asks_for_none(relay: Relay, tmp_path: Path) -> None:
    with running(relay.host) as spawner:
        executor = plugins.load(plugins.EXECUTORS, "docker")({"spawner": str(spawner.socket)})
        bench = Bench(executor, tmp_path)
        assert bench.run("print('hello')\n").execution.exit_code == 0

    (body,) = relay.created()
    assert body["HostConfig"]["DeviceRequests"] == []
    assert not [name for name in body["Env"] if "VISIBLE_DEVICES" in name]
