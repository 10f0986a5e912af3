"""One experiment's travelling forms: proposal, job, result, decision."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from overnight.contracts.loop import (
    Argv,
    CommandSource,
    Constraint,
    EnvName,
    MetricName,
    RelativePath,
    Source,
)
from overnight.contracts.status import Status, Trust
from overnight.contracts.wire import Wire

Sid = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]  #: a session's identity
CommitId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]  #: git commit in objects.git
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  #: SHA-256
ExperimentId = Annotated[int, Field(ge=1, le=10_000_000)]  #: counts from 1, the baseline
Attempt = Annotated[int, Field(ge=1, le=1000)]
Reason = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]  #: what stands after the colon
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]
Text = Annotated[str, Field(max_length=20_000)]
Seconds = Annotated[float, Field(ge=0)]
LEAST_CHECK_SECONDS = 60.0  #: what a command after a short run is granted all the same


class Proposal(Wire):
    """One idea before it is a tree."""

    hypothesis: Annotated[str, Field(min_length=1, max_length=4000)]  #: what and why, in words
    analysis: Text = ""  #: what the last result says
    changes: dict[
        RelativePath, Annotated[str, Field(max_length=1024**2)]
    ]  #: path -> whole new text
    parent: ExperimentId  #: the experiment whose tree it edits
    proposer: Name  #: who
    repairs: ExperimentId | None = None  #: the crashed experiment that it mends
    details: dict[str, Any] = {}  #: the proposer's own data, kept in the ledger


class ExperimentJob(Wire):
    """The message that asks for one attempt. All that a runner needs; it reads Redis alone."""

    v: Literal[2] = 2
    sid: Sid
    tag: Annotated[str, Field(max_length=128)]
    id: ExperimentId
    attempt: Attempt
    commit: CommitId
    tree_digest: Digest  #: content digest of the exported tree
    run_cmd: Annotated[tuple[str, ...], Field(min_length=1)]
    metric: MetricName
    source: Source = "stdout_line"
    constraints: tuple[Constraint, ...] = ()  #: measured, judged by the policy
    guard: Argv | None = None  #: run after a scored run that may be kept
    guard_unless_worse_than: float | None = None  #: metric; None: always
    maximize: bool = False  #: is a higher metric better?
    editable_files: tuple[RelativePath, ...]
    frozen_files: tuple[RelativePath, ...] | None = None  #: None: all but the editable ones
    budget: Annotated[float, Field(gt=0)]
    gate: str
    wall_seconds: Annotated[float, Field(gt=0)]  #: SIGKILL, from process start
    cpu_seconds: Annotated[float, Field(gt=0)] | None  #: SIGKILL, CPU of the whole sandbox
    env: dict[EnvName, str] = {}
    pass_env: tuple[EnvName, ...] = ()  #: names that the runner takes from its own environment
    reads: tuple[str, ...] = ()
    links: dict[RelativePath, str] = {}  #: place in the tree -> one of `reads` that belongs there
    python: str | None = None
    network: Literal["none", "host"] = "none"
    memory_mb: int | None = None
    image: Annotated[str, Field(max_length=300)] | None = None  #: None: the executor's own
    gpus: Annotated[int, Field(ge=0, le=64)] = 1  #: GPUs that it needs, where there are any
    plausible_min: float | None = None
    plausible_max: float | None = None
    seed: int = 0

    @property
    def check_seconds(self) -> float:
        """Deadline of each command that follows the run: the metric's, the guard."""
        return max(LEAST_CHECK_SECONDS, self.wall_seconds)

    @property
    def longest_seconds(self) -> float:
        """Of the run and all that follows it."""
        checks = isinstance(self.source, CommandSource) + (self.guard is not None)
        return self.wall_seconds + checks * self.check_seconds


class Claim(Wire):
    """One `name: value` line that the candidate printed; data, never trusted."""

    name: Annotated[str, Field(max_length=64)]
    value: Annotated[str, Field(max_length=64)]


#: Of an attempt, in order of time.
STEPS = ("export", "start", "run", "collect", "destroy", "score", "guard")


class ExperimentResult(Wire):
    """One attempt's terminal result. Body of a `result` row."""

    v: Literal[2] = 2
    id: ExperimentId
    attempt: Attempt
    sender: Name  #: the runner's slot name, or "orchestrator"
    status: Literal[
        Status.SCORED, Status.CRASH, Status.TIMEOUT, Status.HELD, Status.CANCELLED, Status.INFRA
    ]
    reason: Reason | None = None
    detail: Annotated[str, Field(max_length=2000)] = ""  #: one line for a person
    metric: float | None = None  #: finite; only with status scored or held
    trust: Trust = Trust.PRINTED
    measures: dict[MetricName, float] = {}  #: the constraints' numbers, as printed; finite
    guard: Literal["passed", "failed"] | None = None  #: None: there is none, or it was not run
    claims: tuple[Claim, ...] = ()
    log_tail: Annotated[str, Field(max_length=4000)] = ""  #: last 50 lines of a crash or timeout
    flags: tuple[Reason, ...] = ()  #: e.g. multiple_metric_lines, metric_on_stderr
    signature: Annotated[str, Field(max_length=300)] | None = None  #: of a crash, to compare two
    runtime_s: Seconds = 0.0  #: wall clock of the command
    cpu_s: Seconds | None = None
    cpu_source: str | None = None  #: cgroup, perf or proc
    cpu_share: float | None = None
    deadline_s: Seconds | None = None
    peak_vram_mb: float | None = None  #: as printed
    max_rss_mb: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    isolation: str = "none"
    image: Annotated[str, Field(max_length=300)] | None = None  #: id of the image that ran
    devices: tuple[Name, ...] = ()  #: UUIDs of the GPUs that it had
    survivors: Annotated[int, Field(ge=0)] = 0
    kill_latency_s: Seconds | None = None
    hardware: Annotated[str, Field(max_length=200)] = ""
    runner: Name | None = None
    tree_digest: Digest | None = None  #: what really ran
    timings: dict[str, float] = {}  #: step -> seconds
    log_bytes: int = 0
    log_truncated: bool = False
    at: Annotated[str, Field(max_length=40)] = ""  #: UTC label, RFC 3339


class Decision(Wire):
    """What the policy says of one experiment. Body of a `decision` row; `verify` re-derives it."""

    id: ExperimentId
    verdict: Literal[
        Status.KEEP,
        Status.DISCARD,
        Status.CRASH,
        Status.TIMEOUT,
        Status.REJECTED,
        Status.HELD,
        Status.PRUNED,
        Status.INFRA,
    ]
    reason: Reason | None
    incumbent_before: ExperimentId | None
    incumbent_after: ExperimentId | None
    flags: tuple[Reason, ...] = ()  #: e.g. vram_warning
    rests_on: tuple[int, ...]  #: seqs of the rows that it rests on
    basis_seq: int  #: the last row that the decider had folded
