"""Where a run is shown: the seam between what happens and how it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from overnight.contracts.rows import Row, SessionClosed
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.sessions.limits import Estimate


@dataclass(frozen=True, kw_only=True)
class Ready:
    """All services work."""

    isolation: str | None  #: "container", "namespaces" or "none"
    network: str
    endpoints: Mapping[str, str]
    seconds: float  #: since they were started

    @property
    def sandbox(self) -> str:
        """One honest phrase on what separates candidates from the host."""
        if self.isolation == "none":
            return "isolation: none (this host gives no namespaces; limits and kill only)"
        network = "no network" if self.network == "none" else "network: open"
        return f"sandbox: {self.isolation}, {network}"


def _sandbox_line(ready: Ready) -> tuple[str, ...]:
    return (ready.sandbox,)


def _nothing(closed: SessionClosed | None) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Head:
    """What is known of a session when its run starts, and how its view begins and ends."""

    files: SessionFiles
    tag: str
    metric: str
    runners: int
    here: Path
    resumed: bool = False
    watched: bool = False  #: it runs elsewhere: how long is not known here
    before: SessionState | None = None  #: of a resumed one, as it is taken up
    best: float | None = None
    branch: str | None = None
    notes: tuple[str, ...] = ()
    estimate: Estimate | None = None
    lines: tuple[str, ...] = ()  #: in place of the usual first lines
    ready_lines: Callable[[Ready], tuple[str, ...]] = _sandbox_line
    done_prefix: str = ""
    following: Callable[[SessionClosed | None], str] = _nothing  #: the last line


class View(Protocol):
    """Told from one thread; never blocks, never fails."""

    def opened(self, head: Head) -> None:
        """It is ours; nothing runs yet."""

    def ready(self, ready: Ready) -> None:
        """All services work; once."""

    def tick(self, state: SessionState) -> None:
        """Called often."""

    def row(self, row: Row, state: SessionState) -> None:
        """A new row is folded."""

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """The supervisor did something."""

    def ended(self, state: SessionState, closed: SessionClosed | None, failed: bool) -> None:
        """Everything is down. closed None: killed, or *failed*."""

    def close(self) -> None:
        """Wait until all that was said is out."""
