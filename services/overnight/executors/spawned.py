"""A sandbox that another process holds: the walls and the folders of a container, by messages."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from overnight.contracts import wire
from overnight.contracts.errors import (
    SandboxAwayError,
    SandboxUnavailableError,
    VersionError,
    WireError,
)
from overnight.contracts.execution import Collected, SandboxSpec
from overnight.contracts.spawning import (
    Ask,
    Close,
    Collect,
    Done,
    Ended,
    Gone,
    Kill,
    Launch,
    Launched,
    Look,
    Lost,
    Open,
    Refused,
    Taken,
    Usage,
)
from overnight.contracts.wire import Wire
from overnight.executors import frames, trees
from overnight.executors.cage import SECOND_TIMER_SECONDS, Ending

NAME = "docker"  #: of the executor, in errors
ANSWER_SECONDS = 20.0  #: to a question; a busy host takes milliseconds
START_SECONDS = 120.0  #: to a container at its gate
TAKE_SECONDS = 600.0  #: to all files copied

A = TypeVar("A", bound=Wire)


class SpawnerLine:
    """One connection: ask and be answered. Whoever closes it gives its sandbox up."""

    def __init__(self, address: Path) -> None:
        self._lock = threading.Lock()
        self._lost: str | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.connect(str(address))
        except OSError as error:
            self._socket.close()
            reason = f"the spawner at {address} does not answer: {error.strerror or error}"
            raise SandboxAwayError(NAME, reason) from error

    def ask(
        self,
        question: Wire,
        answer: type[A] = Done,  # type: ignore[assignment]
        descriptors: Sequence[int] = (),
        seconds: float = ANSWER_SECONDS,
    ) -> A:
        """The answer. Raises SandboxUnavailableError when it is refused or nobody answers."""
        found, came = self.exchange(question, (answer,), descriptors, seconds)
        frames.close_all(came)
        assert isinstance(found, answer)
        return found

    def exchange(
        self,
        question: Wire,
        answers: tuple[type[Wire], ...],
        descriptors: Sequence[int] = (),
        seconds: float = ANSWER_SECONDS,
    ) -> tuple[Wire, list[int]]:
        """One of *answers*, and the descriptors that came with it: the caller's now.

        Once an answer did not come in time the line is closed: it would be taken for the next one.
        """
        try:
            with self._lock:
                self._socket.settimeout(seconds)
                frames.send(self._socket, question, descriptors)
                received = frames.receive(self._socket)
        except (OSError, WireError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            raise self._lose(why or str(error) or "no answer") from error
        if received is None:
            raise self._lose("it hung up")
        value, came = received
        try:
            return _read(value, answers), came
        except BaseException:
            frames.close_all(came)
            raise

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _lose(self, why: str) -> SandboxAwayError:
        """The first reason stays the reason, whatever else is asked."""
        self.close()
        self._lost = self._lost or f"the spawner was lost: {why}"
        return SandboxAwayError(NAME, self._lost)


def _read(value: wire.Json, answers: tuple[type[Wire], ...]) -> Wire:
    fields = set(value) if isinstance(value, dict) else set()
    try:
        if "refused" in fields:
            refusal = wire.build(Refused, value)
            kind = SandboxAwayError if refusal.away else SandboxUnavailableError
            raise kind(NAME, refusal.refused)
        for cls in answers:
            if fields <= set(cls.model_fields) and _needed(cls) <= fields:
                return wire.build(cls, value)
    except (WireError, VersionError) as error:
        raise SandboxUnavailableError(
            NAME, f"the spawner speaks another language: {error}"
        ) from error
    raise SandboxUnavailableError(NAME, "the spawner speaks another language: restart both")


def _needed(cls: type[Wire]) -> set[str]:
    return {name for name, field in cls.model_fields.items() if field.is_required()}


class SpawnedMeter:
    """CPU of the whole container, counted by the spawner."""

    def __init__(self, spawned: Spawned, source: str) -> None:
        self.source = source
        self._spawned = spawned

    def read(self) -> float:
        """Seconds of all processes together."""
        return self._spawned.cpu_seconds()

    def close(self) -> None:
        """It belongs to the container."""


class Spawned:
    """Walls (`Cage`) and folders (`Belongings`) of one container."""

    isolation = "container"

    def __init__(self, spec: SandboxSpec, line: SpawnerLine) -> None:
        self._spec = spec
        self._line = line
        self._snapshot: Path | None = None
        self._digest = ""
        self._streams = (-1, -1)
        self._ended = -1
        self._opened = False
        self._last = Usage(cpu_seconds=0.0, resident_bytes=0)
        self._final: Ended | Lost | None = None
        self._on_over: Callable[[str], None] = lambda over: None
        self._cpu_source = "cgroup"
        self.image: str | None = None

    # -- folders --------------------------------------------------------------------------------

    def fill(self, snapshot: Path) -> list[str]:
        """Nothing is copied on this side: the tree goes as an open folder, with its digest."""
        try:
            paths = trees.listing(snapshot)
            self._digest = trees.digest(snapshot, paths)
        except OSError as error:
            reason = f"the snapshot {snapshot} could not be copied: {error.strerror}"
            raise SandboxUnavailableError(NAME, reason) from error
        self._snapshot = snapshot
        return paths

    def watch(
        self, members: Callable[[], Iterable[int]], on_over: Callable[[str], None]
    ) -> contextlib.AbstractContextManager[object]:
        """The spawner watches; it says so with its next answer."""
        self._on_over = on_over
        return nullcontext()

    def collect(self, into: Path) -> tuple[Collected, ...]:
        """Of /out."""
        return self._taken("out", into)

    def take(self, into: Path) -> tuple[Collected, ...]:
        """Of the working directory."""
        return self._taken("keep", into)

    def remove(self) -> bool:
        """Done by `close`."""
        return True

    def release(self, gone: bool) -> None:
        """The spawner remembers what is not gone."""

    def _taken(self, what: str, into: Path) -> tuple[Collected, ...]:
        try:
            into.mkdir(exist_ok=True)
            folder = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            reason = f"what the command left could not be taken: {error.strerror}"
            raise SandboxUnavailableError(NAME, reason) from error
        try:
            question = Collect(what="out" if what == "out" else "keep")
            answer = self._line.ask(question, Taken, (folder,), TAKE_SECONDS)
        finally:
            os.close(folder)
        return tuple(Collected(path=f.path, size_bytes=f.size_bytes) for f in answer.files)

    # -- walls ----------------------------------------------------------------------------------

    def launch(self, snapshot_files: list[str]) -> None:
        """A container whose command waits at its gate."""
        if self._snapshot is None:
            raise RuntimeError("launch before fill")
        with _open_folder(self._snapshot) as tree, _memory_file(list(self._spec.frozen)) as frozen:
            answer, came = self._line.exchange(
                Launch(snapshot=self._digest), (Launched,), (tree, frozen), START_SECONDS
            )
        assert isinstance(answer, Launched)
        if len(came) != 3:
            frames.close_all(came)
            raise SandboxUnavailableError(NAME, "the spawner sent no pipes: restart both")
        self.image, self._cpu_source = answer.image, answer.cpu_source
        self._streams, self._ended = (came[0], came[1]), came[2]

    def streams(self) -> tuple[int, int]:
        """Descriptors of stdout and stderr."""
        return self._streams

    def exits(self) -> tuple[int, ...]:
        """Readable when the container's first process, and so all of it, has ended."""
        return (self._ended,)

    def meter(self) -> SpawnedMeter:
        """Counts from when it stands at the gate."""
        return SpawnedMeter(self, self._cpu_source)

    def open(self, wall_seconds: float) -> None:
        """Let the command run, with the second timer armed."""
        self._opened = True
        self._line.ask(Open(timer_seconds=wall_seconds + SECOND_TIMER_SECONDS))

    def kill(self) -> None:
        """SIGKILL of all inside; a spawner that is gone has ended it, or its timer will.

        One that stands still has not: its first process is killed from here, where that is allowed.
        """
        try:
            self._line.ask(Kill())
        except SandboxUnavailableError:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._ended, signal.SIGKILL)

    def ending(self) -> Ending:
        """After the end."""
        final = self._over()
        if isinstance(final, Lost):
            raise SandboxUnavailableError(NAME, final.lost)
        return Ending(exit_code=final.exit_code, signal=final.signal)

    def own_seconds(self) -> float | None:
        """From the gate to the end on the spawner's clock, which does not stop with us."""
        final = self._over()
        return final.own_seconds if isinstance(final, Ended) else None

    def members(self) -> list[int]:
        """They have no number on this side."""
        return []

    def resident_bytes(self) -> int:
        """As the spawner sees it."""
        self._look()
        return self._last.resident_bytes

    def proportional_bytes(self) -> int:
        """The kernel holds the limit: nobody needs it."""
        return self._last.resident_bytes

    def oom_kills(self) -> int:
        """Did the kernel kill something in it for memory?"""
        final = self._over()
        return int(isinstance(final, Ended) and final.oom)

    def limits_memory(self) -> bool:
        """The container's control group does."""
        return True

    def survivors(self) -> int:
        """Live processes of its namespace, counted by the spawner."""
        final = self._over()
        if isinstance(final, Lost) and final.stood_still:
            raise SandboxUnavailableError(NAME, final.lost)  # whatever deadline it met
        if isinstance(final, Ended) and final.over:
            self._on_over(final.over)
        return final.survivors

    def cpu_seconds(self) -> float:
        """So far, or in all."""
        if self._final is not None:
            return self._final.cpu_seconds
        self._look()
        return self._last.cpu_seconds

    def close(self) -> bool:
        """Remove the container and hang up."""
        try:
            return self._line.ask(Close(), Gone, seconds=START_SECONDS).gone
        except SandboxUnavailableError:
            return False
        finally:
            self._line.close()
            frames.close_all([fd for fd in (*self._streams, self._ended) if fd >= 0])
            self._streams, self._ended = (-1, -1), -1

    def _look(self) -> None:
        if self._final is not None:
            return
        self._last = self._line.ask(Look(), Usage)
        if self._last.over:
            self._on_over(self._last.over)

    def _over(self) -> Ended | Lost:
        if self._final is None:
            answer, came = self._line.exchange(Ask(), (Ended, Lost), seconds=START_SECONDS)
            frames.close_all(came)
            assert isinstance(answer, Ended | Lost)
            self._final = answer
        return self._final


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = f"the snapshot {folder} could not be copied: {error.strerror}"
        raise SandboxUnavailableError(NAME, reason) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _memory_file(names: list[str]) -> Iterator[int]:
    """A list that is longer than a frame may be."""
    descriptor = os.memfd_create("frozen")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(json.dumps(names).encode())
        yield descriptor
    finally:
        os.close(descriptor)
