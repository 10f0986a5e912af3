"""The proposer seam: history in, one idea out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from overnight.contracts.experiment import Proposal
from overnight.contracts.loop import MetricSpec
from overnight.contracts.status import Role, Status


@dataclass(frozen=True, kw_only=True)
class Past:
    """One experiment as a proposer sees it. In flight: status None."""

    id: int
    role: Role
    parent: int | None
    status: Status | None
    reason: str | None
    metric: float | None
    hypothesis: str
    proposer: str
    details: dict[str, Any]
    runtime_s: float | None


@dataclass(frozen=True, kw_only=True)
class History:
    """All that a proposer may know; the same history and seed give the same proposal."""

    tag: str
    metric: MetricSpec
    baseline_metric: float
    incumbent: int
    incumbent_metric: float
    parent_files: dict[str, str]  #: editable files' text in the incumbent's tree
    experiments: tuple[Past, ...]  #: in order of id, the baseline first
    next_id: int
    seed: int


class Proposer(Protocol):
    """Suggests edits. Reached by entry-point name in the group `overnight.proposers`.

    Built as `factory(options: dict[str, object]) -> Proposer`; a bad option raises ConfigError.
    """

    name: str

    def propose(self, history: History) -> Proposal:
        """One proposal on top of the incumbent.

        Raises:
            ProposerError: nothing to tune, or nothing left that was not tried.
        """
        ...
