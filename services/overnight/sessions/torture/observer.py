"""Sees which sandboxes a session has while it runs, so that the checker knows them afterwards."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

RECORDS_SECONDS = 0.03  #: a record stands for as long as its sandbox does
NAMESPACES_EVERY = 5  #: looks at /proc, which are dearer


@dataclass
class Observer:
    """A thread that looks at the executor's records and at /proc until `close`.

    Namespaces are held open, so that their numbers stay theirs, until nothing lives in them: then
    nothing ever will again.
    """

    mark: str  #: in arguments or environment of every candidate
    root: Path  #: the session's folder, named in its records
    records: Path  #: the executor's folder of records
    tokens: set[str] = field(default_factory=set)
    _held: dict[int, int] = field(default_factory=dict)  #: number of a namespace -> descriptor
    _ending: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._own = os.stat("/proc/self/ns/pid").st_ino
        self._thread = Thread(target=self._watch, name="observer", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    @property
    def namespaces(self) -> tuple[int, ...]:
        """Those that were not empty at the last look."""
        return tuple(self._held)

    def stop_looking(self) -> None:
        """What is held stays held until `close`."""
        self._ending.set()
        self._thread.join()

    def close(self) -> None:
        """Let everything go."""
        self._ending.set()
        for handle in self._held.values():
            os.close(handle)
        self._held.clear()

    def _watch(self) -> None:
        looks = 0
        while not self._ending.wait(RECORDS_SECONDS):
            self._read_records()
            if looks % NAMESPACES_EVERY == 0:
                self._look_into_proc()
            looks += 1

    def _read_records(self) -> None:
        for path in self.records.glob("sandbox-*.json"):
            token = path.stem.removeprefix("sandbox-")
            if token in self.tokens:
                continue
            with contextlib.suppress(OSError, ValueError, KeyError):
                if json.loads(path.read_text())["scratch"].startswith(f"{self.root}/"):
                    self.tokens.add(token)

    def _look_into_proc(self) -> None:
        alive = set()
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError):
                number = os.stat(f"/proc/{name}/ns/pid").st_ino
                alive.add(number)
                if number != self._own and number not in self._held and self._is_ours(name):
                    self._held[number] = os.open(f"/proc/{name}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        for number in self._held.keys() - alive:
            os.close(self._held.pop(number))

    def _is_ours(self, pid: str) -> bool:
        folder = Path("/proc", pid)
        words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        return self.mark.encode() in words
