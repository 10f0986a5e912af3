"""What the orchestrator needs of the world: a test or Redis can stand behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from overnight.contracts.experiment import ExperimentJob, Proposal
from overnight.contracts.proposing import Proposer
from overnight.contracts.rows import Ack, LedgerMessage, Row
from overnight.ledger.fold import SessionState
from overnight.orchestrator.planning import Fence


@dataclass(frozen=True)
class Look:
    """One glance at the queue."""

    queued: frozenset[Fence]
    leased: frozenset[Fence]
    intact: bool  #: False when the queue lost its memory (restart, flush) since the last look


@dataclass(frozen=True)
class Tree:
    """A candidate's tree as it was written."""

    commit: str
    digest: str
    lines_added: int
    lines_removed: int
    places: int = 0  #: separate places that it changes


class LedgerPort(Protocol):
    """The write path. Raises InfrastructureError when Redis can't be reached."""

    def send(self, message: LedgerMessage) -> object:
        """Hand *message* to the recorder; sending it again changes nothing."""
        ...

    def ack(self, key: str) -> Ack | None:
        """The recorder's answer to *key*, None while there is none."""
        ...


class QueuePort(Protocol):
    """The job queue. Raises InfrastructureError when Redis can't be reached."""

    def push(self, job: ExperimentJob) -> None:
        """Queue one attempt; the same attempt again changes nothing."""
        ...

    def remove(self, fence: Fence) -> None:
        """Take an attempt out of the queue, if it is there."""
        ...

    def look(self, fences: Iterable[Fence]) -> Look:
        """Where the given attempts are."""
        ...

    def stopping(self, on: bool) -> None:
        """Tell runners to end what they run as cancelled (on), or not to."""
        ...


class TreePort(Protocol):
    """The snapshots room, bound to one session."""

    def files_of(self, commit: str) -> dict[str, str]:
        """The editable files' text in that tree."""
        ...

    def write(
        self, experiment_id: int, parent_commit: str, proposal: Proposal, tried: Mapping[str, int]
    ) -> Tree:
        """Write and pin a candidate's tree. Raises EditRejectedError, also for one in *tried*."""
        ...

    def branch_for(self, experiment_id: int, hypothesis: str) -> str:
        """exp/<tag>/<id>-<slug>, or iter<id>."""
        ...

    def follow(self, state: SessionState) -> None:
        """Make refs what the fold says; idempotent."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ports:
    """All of them."""

    rows: Callable[[], Iterable[Row]]  #: new checked rows since the last call; take them all
    ledger: LedgerPort
    queue: QueuePort
    trees: TreePort
    proposer: Proposer
    free_gb: Callable[[], float | None] = lambda: None  #: on the session's disk
    freeable: Callable[[SessionState], tuple[int, int]] = lambda state: (0, 0)  #: bytes that
    #: `clean` would free now, and once the stack is gone
    program: str | None = None  #: program.md's text as the session began with it
