"""The spawner's door: a unix socket, one thread a connection, one sandbox a connection."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import (
    InfrastructureError,
    SandboxAwayError,
    SandboxUnavailableError,
    VersionError,
    WireError,
)
from overnight.contracts.spawning import (
    REQUESTS,
    Ask,
    Close,
    Collect,
    Done,
    File,
    Gone,
    Greet,
    Greeting,
    Kill,
    Launch,
    Launched,
    Look,
    Open,
    Prepare,
    Reconcile,
    Refused,
    Taken,
)
from overnight.contracts.wire import Wire
from overnight.executors import frames
from overnight.spawner import handed
from overnight.spawner.container import Container
from overnight.spawner.engine import Engine, EngineDownError
from overnight.spawner.yard import Yard

log = structlog.get_logger()

NAME = "docker"  #: of the executor, in errors
LISTEN = 128
MAX_LINES = 1024  #: connections at the same time, each with a thread
LOOK_SECONDS = 0.5  #: between two looks at whether we should stop
STOP_SECONDS = 20.0  #: for all lines to end; what they hold ends with us
#: For the rest of a frame to come, or for one of ours to be taken.
FRAME_SECONDS = 60
_CREDENTIALS = struct.Struct("3i")


class Door:
    """Listens; every connection is served by a thread until it ends."""

    def __init__(self, address: Path, yard: Yard, clients: frozenset[int], image: str) -> None:
        self._yard = yard
        self._clients = clients | {0, os.geteuid()}
        self._image = image
        self._threads: set[threading.Thread] = set()
        self._lines: set[socket.socket] = set()
        self._tidier: threading.Thread | None = None
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                address.unlink()  # of a dead spawner: we hold the yard
            self._listener.bind(str(address))
            # Who may come in is asked of the kernel, for each connection.
            address.chmod(0o666 if clients else 0o600)
        except OSError as error:
            self._listener.close()
            raise InfrastructureError(f"{address}: {error.strerror}") from error
        self._listener.listen(LISTEN)
        self._listener.settimeout(LOOK_SECONDS)

    def serve(self, should_stop: Callable[[], bool]) -> None:
        """Until it should stop; then all that runs is ended."""
        while not should_stop():
            self._tidy()
            try:
                line, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as error:  # too many open files: those that are there end some day
                log.error("nobody_can_come_in", reason=str(error))
                time.sleep(LOOK_SECONDS)
                continue
            self._welcome(line)
        self._listener.close()
        with self._lock:
            lines, threads = list(self._lines), list(self._threads)
        if self._tidier is not None:
            threads.append(self._tidier)
        for line in lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _tidy(self) -> None:
        """Beside the door: an engine that hangs keeps nobody from coming in."""
        busy = self._tidier is not None and self._tidier.is_alive()
        if busy or not self._yard.has_old():
            return
        self._tidier = threading.Thread(target=self._yard.tidy_old, name="tidy", daemon=True)
        try:
            self._tidier.start()
        except RuntimeError as error:  # no more threads
            log.error("nothing_is_tidied", reason=str(error))

    def _welcome(self, line: socket.socket) -> None:
        line.setblocking(True)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            line.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", FRAME_SECONDS, 0))
        raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(raw)
        if user not in self._clients:
            log.warning("stranger_refused", user=user)
            with contextlib.suppress(OSError):
                frames.send(line, Refused(refused=f"user {user} may ask this spawner for nothing"))
            line.close()
            return
        with self._lock:
            crowded = len(self._lines) >= MAX_LINES
        if crowded:
            with contextlib.suppress(OSError):
                frames.send(line, Refused(refused=f"{MAX_LINES} connections are open already"))
            line.close()
            return
        thread = threading.Thread(target=self._serve, args=(line, user), name="line", daemon=True)
        with self._lock:
            self._lines.add(line)
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: some of those that are there end
            log.error("nobody_can_come_in", reason=str(error))
            self._leave(line, thread)

    def _serve(self, line: socket.socket, user: int) -> None:
        try:
            Visit(line, user, self._yard, self._image).serve()
        finally:
            self._leave(line, threading.current_thread())

    def _leave(self, line: socket.socket, thread: threading.Thread) -> None:
        line.close()
        with self._lock:
            self._lines.discard(line)
            self._threads.discard(thread)


class Visit:
    """One connection, from its first frame to its end."""

    def __init__(self, line: socket.socket, user: int, yard: Yard, image: str) -> None:
        self._line = line
        self._user = user
        self._yard = yard
        self._image = image
        self._engine: Engine | None = None
        self._name = ""
        self._labels: Mapping[str, str] = {}
        self._container: Container | None = None

    def serve(self) -> None:
        """Answer until it hangs up; what it left running is ended then."""
        try:
            while self._wait():
                if not self._answer():
                    break
        finally:
            self._leave()

    def _wait(self) -> bool:
        """Until a frame comes; attends to the container meanwhile."""
        line = self._line.fileno()
        while True:
            container = self._container
            signs, seconds = ((), None) if container is None else container.signs()
            poll = select.poll()  # select takes no descriptor above 1023
            for descriptor in (line, *signs):
                poll.register(descriptor, select.POLLIN)
            ready = [fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)]
            if container is not None and ready != [line]:
                container.attend()
            if line in ready:
                return True

    def _answer(self) -> bool:
        """One frame; False at the end."""
        try:
            received = frames.receive(self._line)
        except (OSError, WireError) as error:
            log.warning("frame_refused", reason=str(error))
            return False
        if received is None:
            return False
        value, came = received
        try:
            answer, given = self._do(_request(value), came)
        except SandboxUnavailableError as error:
            self._yard.tally.refused += 1
            self._yard.tally.engine_up = int(not isinstance(error, EngineDownError))
            away = isinstance(error, SandboxAwayError)
            answer, given = Refused(refused=_words(error.reason), away=away), ()
        except (WireError, VersionError) as error:
            answer, given = Refused(refused=_words(error)), ()
        finally:
            frames.close_all(came)
        try:
            frames.send(self._line, answer, given)
        except OSError:
            return False
        if isinstance(answer, Launched) and self._container is not None:
            self._container.give()
        return True

    def _do(self, request: Wire, came: list[int]) -> tuple[Wire, tuple[int, ...]]:
        if isinstance(request, Greet):
            said = Greeting(
                engine=self._client().describe(), profiles=str(self._yard.profiles),
                image=self._image,
            )  # fmt: skip
            return said, ()
        if isinstance(request, Reconcile):
            return self._yard.tidy(request.labels), ()
        if isinstance(request, Prepare):
            if self._container is not None:
                raise SandboxUnavailableError(NAME, "a connection has one sandbox")
            self._name, self._container = self._yard.make(self._client(), request)
            self._yard.tally.engine_up = 1
            self._labels = request.labels
            return Done(), ()
        if self._container is None:
            raise SandboxUnavailableError(NAME, "prepare comes first")
        if isinstance(request, Launch):
            return self._launch(self._container, request, came)
        return self._with(self._container, request, came), ()

    def _launch(
        self, container: Container, request: Launch, came: list[int]
    ) -> tuple[Wire, tuple[int, ...]]:
        if len(came) != 2:
            raise SandboxUnavailableError(NAME, "launch comes with a tree and what is frozen")
        frozen = handed.names(came[1])
        given = container.launch(handed.tree(came[0]), request.snapshot, frozen)
        return Launched(image=container.image, cpu_source=container.cpu_source), given

    def _with(self, container: Container, request: Wire, came: list[int]) -> Wire:
        if isinstance(request, Open):
            container.open(request.timer_seconds)
        elif isinstance(request, Kill):
            container.kill()
        elif isinstance(request, Look):
            return container.usage()
        elif isinstance(request, Ask):
            return container.ended()
        elif isinstance(request, Collect):
            if len(came) != 1:
                raise SandboxUnavailableError(NAME, "collect comes with an open folder")
            taken = container.collect(request.what, handed.target(came[0], self._user))
            return Taken(files=tuple(File(path=f.path, size_bytes=f.size_bytes) for f in taken))
        elif isinstance(request, Close):
            return Gone(gone=self._closed())
        return Done()

    def _client(self) -> Engine:
        if self._engine is None:
            self._engine = self._yard.connect()
        return self._engine

    def _closed(self) -> bool:
        container = self._container
        if container is None:
            return True
        gone = container.close() is None
        if gone:
            self._yard.forget(self._name)
            self._container = None
        return gone

    def _leave(self) -> None:
        """A runner that is gone leaves an orphan, dead at once and removed when it is asked for."""
        container, engine = self._container, self._engine
        if container is None:
            if engine is not None:
                engine.close()
            return
        container.kill()
        self._yard.orphan(self._name, self._labels, container.close)


def _request(value: wire.Json) -> Wire:
    verb = value.get("verb") if isinstance(value, dict) else None
    cls = REQUESTS.get(verb) if isinstance(verb, str) else None
    if cls is None:
        raise WireError(f"no verb {str(verb)[:40]!r}")
    return wire.build(cls, value)


def _words(reason: object) -> str:
    """One that can travel: names of files need not be text."""
    return str(reason).encode(errors="backslashreplace").decode()[:2000]
