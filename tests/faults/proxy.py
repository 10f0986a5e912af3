"""A proxy of ours in front of one server: what stands behind it can be cut off, and comes back.

Bytes are passed on as they come; nothing is understood. One thread, one event loop, no fixed port.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

CHUNK_BYTES = 65536


class Weather(Enum):
    """What the way to the server is like."""

    FAIR = auto()
    CUT = auto()  #: connections break, new ones break at once
    STALLED = auto()  #: connections are taken and stand, nothing arrives anywhere
    DEAF = auto()  #: what clients say arrives, what the server answers is lost


@dataclass(eq=False)
class _Link:
    """One client's connection and ours to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    dead: bool = False  #: half-open: both ends believe in it, nothing passes

    def abort(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None:
                writer.transport.abort()


@dataclass
class Proxy:
    """Use as a context manager. `url` is for clients; `redis.Redis.from_url` takes it.

    target: the server's unix socket. over_tcp: listen on a free port of 127.0.0.1 instead of on
    a unix socket. login: `user:password@` for the URL.
    """

    target: Path
    over_tcp: bool = True
    login: str = ""
    connections: int = 0  #: taken so far, also those that were cut at once
    weather: Weather = Weather.FAIR
    _delay_seconds: float = 0.0
    _links: set[_Link] = field(default_factory=set)
    _folder: Path | None = None

    def __enter__(self) -> Proxy:
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._thread = Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()
        try:
            self._listener: asyncio.Server = self._run(self._listen())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.fair()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._folder is not None:
            (self._folder / "p").unlink(missing_ok=True)
            self._folder.rmdir()

    # -- what happens to those behind it ------------------------------------------------------

    def fair(self) -> None:
        """All is well again. What was stalled arrives now, as after a partition it does."""
        self._set(Weather.FAIR)

    def cut(self) -> None:
        """Break all connections, and each new one at once."""
        self._set(Weather.CUT, lambda: [link.abort() for link in self._links])

    def stall(self) -> None:
        """Take connections and bytes, deliver neither."""
        self._set(Weather.STALLED)

    def deafen(self) -> None:
        """Deliver what clients say and lose all answers: what they asked for is done."""
        self._set(Weather.DEAF)

    def slow(self, seconds: float) -> None:
        """Hold back each piece for so long, both ways."""
        self._delay_seconds = seconds

    def forget(self) -> None:
        """Half-open: the connections that stand now pass nothing any more, and nobody is told."""
        self._run(self._forget())

    # -- inside ---------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _set(self, weather: Weather, then: Callable[[], object] = lambda: None) -> None:
        async def change() -> None:
            self.weather = weather
            if weather is Weather.STALLED:
                self._flows.clear()
            else:
                self._flows.set()
            then()

        self._run(change())

    async def _listen(self) -> asyncio.Server:
        if self.over_tcp:
            listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            port = listener.sockets[0].getsockname()[1]
            self.url = f"redis://{self.login}127.0.0.1:{port}/0"
            return listener
        self._folder = Path(tempfile.mkdtemp(prefix="ovp-"))
        self.url = f"unix://{self.login}{self._folder / 'p'}?db=0"
        return await asyncio.start_unix_server(self._serve, self._folder / "p")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = _Link(writer)
        self._links.add(link)
        try:
            if self.weather is Weather.CUT:
                return
            await self._flows.wait()
            from_server, link.server = await asyncio.open_unix_connection(self.target)
            pumps = [
                asyncio.ensure_future(self._pump(link, reader, link.server, answers=False)),
                asyncio.ensure_future(self._pump(link, from_server, writer, answers=True)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the server is away, or the test is over
        finally:
            link.abort()
            self._links.discard(link)

    async def _pump(
        self,
        link: _Link,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        *,
        answers: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                await self._flows.wait()
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                if link.dead or (answers and self.weather is Weather.DEAF):
                    continue
                sink.write(data)
                await sink.drain()
            if answers is False:
                await asyncio.sleep(0.02)  # what it said last gets its chance, as on a real wire

    async def _forget(self) -> None:
        for link in self._links:
            link.dead = True

    async def _close(self) -> None:
        if hasattr(self, "_listener"):
            self._listener.close()
        for link in list(self._links):
            link.abort()
        self._flows.set()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
