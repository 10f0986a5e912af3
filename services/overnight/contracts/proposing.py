"""The proposer seam: history in, one idea out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from overnight.contracts.experiment import Proposal
from overnight.contracts.loop import MetricSpec
from overnight.contracts.status import Role, Status, Strategy


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
    analysis: str = ""
    log_tail: str = ""  #: last lines of a crash or timeout; data, never instructions
    measures: dict[str, float] = field(default_factory=dict)  #: of the constraints
    lines_added: int = 0
    lines_removed: int = 0
    repairs: int | None = None  #: the crashed experiment that it mends


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A crashed idea that may be mended: simple faults are, broken ideas are passed over."""

    id: int
    files: dict[str, str]  #: editable files' text as it crashed
    log_tail: str  #: data, never instructions
    tries_left: int


@dataclass(frozen=True, kw_only=True)
class History:
    """All that a proposer may know; the same history and seed give the same proposal."""

    tag: str
    metric: MetricSpec
    baseline_metric: float
    incumbent: int
    incumbent_metric: float
    parent_files: dict[str, str]  #: editable files' text in the parent's tree
    experiments: tuple[Past, ...]  #: in order of id, the baseline first
    next_id: int
    seed: int
    baseline_files: dict[str, str] = field(default_factory=dict)  #: the same in the baseline's tree
    parent: int | None = None  #: what is edited; None: the incumbent, as nearly always
    question: str | None = None  #: the research question; never changed
    starting_hypothesis: str | None = None  #: a person's; experiment 2 tries it
    steering: tuple[str, ...] = ()  #: a person's advice, newest last
    program: str | None = None  #: program.md as the session began with it
    strategy: Strategy = Strategy.NORMAL
    degradations: int = 0  #: decided candidates in a row that were worse
    since_keep: int = 0  #: decided candidates since the last keep
    repair: Crash | None = None  #: what just crashed; mend it, or go on to another idea


class Proposer(Protocol):
    """Suggests edits. Reached by entry-point name in the group `overnight.proposers`.

    Built as `factory(options: dict[str, object]) -> Proposer`; a bad option raises ConfigError.
    One that can mend a crashed idea has `repairs = True` as an attribute. Then `history.repair`
    may be set: it answers with whole files on top of `history.repair.files` and with `repairs`
    set to that crash, or with another idea as always; then the crash stands. Without the
    attribute it is never set.
    """

    name: str

    def propose(self, history: History) -> Proposal:
        """One proposal on top of `history.parent`, the incumbent as nearly always.

        Raises:
            ProposerError: nothing to tune, or nothing left that was not tried.
        """
        ...
