"""What stands in the ledger: a hash-chained row, its bodies, and the message that asks for one."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from overnight.contracts.experiment import (
    Attempt,
    CommitId,
    Decision,
    Digest,
    ExperimentId,
    ExperimentResult,
    Name,
    Reason,
    Sid,
    Text,
)
from overnight.contracts.status import ControlAction, Role, RowKind, Strategy
from overnight.contracts.wire import Wire, build

ROW_VERSION = 2
GENESIS = "0" * 64  #: `prev` of the first row
Key = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class Row(Wire):
    """One line of ledger.jsonl. hash = sha256(prev + canonical JSON of the row without hash)."""

    v: Literal[2] = 2
    seq: Annotated[int, Field(ge=1)]
    ts: Annotated[str, Field(max_length=40)]  #: UTC label, never compared
    session: Sid
    kind: RowKind
    key: Key
    body: dict[str, Any]
    prev: Digest
    hash: Digest

    @cached_property
    def typed(self) -> Wire:
        """The body as what its kind says, made once. Raises VersionError, or WireError."""
        return build(BODIES[self.kind], self.body)


class Head(Wire):
    """ledger.head: exposes whole rows cut off. May lag behind the ledger by one, never lead.

    Without a version of its own: it belongs to the row that it names.
    """

    seq: Annotated[int, Field(ge=0)]
    hash: Digest


class LedgerMessage(Wire):
    """What any service or verb sends to the recorder. The same key again is the same row."""

    v: Literal[2] = 2
    key: Key
    kind: RowKind
    body: dict[str, Any]
    epoch: int | None = None  #: only on rows written by the orchestrator


class Ack(Wire):
    """The recorder's answer to a key: a row's seq, or why there is none. Both end re-sending."""

    v: Literal[1] = 1
    seq: int | None = None
    refused: bool = False
    reason: Annotated[str, Field(max_length=2000)] | None = None


class Origin(Wire):
    """Whose result a session began with (`--from TAG`)."""

    tag: Annotated[str, Field(min_length=1, max_length=128)]
    sid: Sid
    id: ExperimentId
    commit: CommitId


class SessionOpened(Wire):
    """Each orchestrator start appends one; the epoch fences its predecessors."""

    epoch: Annotated[int, Field(ge=1)]
    starter: Annotated[str, Field(max_length=64)] = (
        ""  #: of one start; tells two of one epoch apart
    )
    tag: Annotated[str, Field(min_length=1, max_length=128)]
    config: dict[str, Any]  #: LoopConfig, resolved
    config_digest: Digest
    track_digest: Digest  #: what results are comparable under
    base_commit: CommitId
    base_digest: Digest
    base_head: str | None  #: the user's HEAD at the time, for the record
    branch: str | None  #: session branch with `branches`
    branch_prefix: str | None = None  #: before `<id>-<slug>` with `branches`
    description: Annotated[str, Field(max_length=2000)] = ""  #: the user's own words
    origin: Origin | None = None
    program_digest: Digest | None = None  #: of program.md as the session began with it
    code_version: str
    policy_version: Annotated[int, Field(ge=1)]


class Opening(Wire):
    """opening.json: what the next orchestrator start opens with, and what only this host knows."""

    v: Literal[2] = 2
    session: SessionOpened
    repo: str  #: the user's folder, absolute, at the time of this run
    argv: Annotated[tuple[str, ...], Field(min_length=1)]  #: run_cmd with its program resolved
    python: str  #: interpreter that candidates see; "" is the image's own
    image: Annotated[str, Field(max_length=300)] | None = None  #: what candidates run in
    runners: Annotated[int, Field(ge=1)]
    #: The newest row when it was written, where the run was over or paused: it is to go on then.
    resumes: Annotated[int, Field(ge=1)] | None = None


class Proposed(Wire):
    """An experiment exists from this row on."""

    id: ExperimentId
    role: Role
    of: ExperimentId | None = None  #: the experiment that a replicate re-runs
    parent: ExperimentId | None  #: None for the baseline
    commit: CommitId | None  #: None when rejected
    tree_digest: Digest | None
    branch: Annotated[str, Field(max_length=200)]  #: exp/<tag>/<id>-<slug> or iter<id>
    hypothesis: Text
    analysis: Text = ""
    proposer: Name
    seen_seq: int  #: the last row that the proposer could have seen
    lines_added: int = 0
    lines_removed: int = 0
    places: int = 0  #: separate places that it changes, over all files
    code_lines: int | None = None  #: size of the editable files' code, however it is laid out
    strategy: Strategy = Strategy.NORMAL  #: how the proposer was asked to search
    repairs: ExperimentId | None = None  #: the crashed experiment that it mends
    asked_to_mend: ExperimentId | None = None  #: what crashed, and was shown to the proposer
    details: dict[str, Any] = {}
    rejection: Reason | None = None  #: set when the edit was refused; final without a result
    rejection_detail: Annotated[str, Field(max_length=2000)] = ""


class AttemptIssued(Wire):
    """The fence: only the newest issued attempt without a result may deliver one."""

    id: ExperimentId
    attempt: Attempt
    wall_seconds: Annotated[float, Field(gt=0)]
    cpu_seconds: float | None = None


class Control(Wire):
    """A person's or an agent's wish.

    approve and reject are about one experiment, keyed `control:<action>:<id>`. requeue and drop
    too; their key is `control:<action>:<id>:<seq>`, where seq
    is the row by which it was given up: twice is once, and what comes too late is refused.
    """

    action: ControlAction
    by: Name
    why: Annotated[str, Field(max_length=4000)] = ""  #: of steer: the advice itself
    #: of requeue, drop, approve and reject; where there is none, it is left out
    id: ExperimentId | None = Field(default=None, exclude_if=lambda number: number is None)


class Repaired(Wire):
    """`ledger repair` was run: what was moved away and where to."""

    quarantine: str
    lines: int
    reason: str


class SessionClosed(Wire):
    """Ends a run, not the session."""

    outcome: Literal["done", "stopped", "drained", "baseline_failed", "exhausted"]
    detail: Annotated[str, Field(max_length=2000)] = ""


BODIES: dict[RowKind, type[Wire]] = {
    RowKind.SESSION_OPENED: SessionOpened,
    RowKind.PROPOSED: Proposed,
    RowKind.ATTEMPT_ISSUED: AttemptIssued,
    RowKind.RESULT: ExperimentResult,
    RowKind.SUPERSEDED: ExperimentResult,
    RowKind.DECISION: Decision,
    RowKind.CONTROL: Control,
    RowKind.REPAIRED: Repaired,
    RowKind.SESSION_CLOSED: SessionClosed,
}

#: Kinds that only the session's one orchestrator writes, fenced by its epoch.
FENCED_BY_EPOCH = frozenset(
    {
        RowKind.SESSION_OPENED,
        RowKind.PROPOSED,
        RowKind.ATTEMPT_ISSUED,
        RowKind.DECISION,
        RowKind.SESSION_CLOSED,
    }
)
