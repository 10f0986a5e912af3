"""The closed word lists: statuses, roles, trust levels, gates, row kinds."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How an experiment ended, and the verdict of its decision."""

    KEEP = "keep"  #: better than the incumbent; the baseline's status too
    DISCARD = "discard"  #: finite, but not kept
    CRASH = "crash"  #: the candidate failed by itself
    TIMEOUT = "timeout"  #: killed at its deadline
    REJECTED = "rejected"  #: never ran: the edit was not allowed or did not apply
    HELD = "held"  #: finite but implausible; a person looks
    PRUNED = "pruned"  #: stopped early as hopeless
    CANCELLED = "cancelled"  #: ended by the user; runs again on resume
    INFRA = "infra"  #: our fault or the machine's; never counts against the idea
    SCORED = "scored"  #: ran to its end with a finite metric, not yet decided


#: A result with one of these is never final: the next attempt follows.
UNFINISHED = frozenset({Status.INFRA, Status.CANCELLED})
SUSPENDED = "suspended"  #: infra reason: the runner was stopped, or its host slept
FREE_SUSPENSIONS = 20  #: of one experiment, before they count as failed attempts
GAVE_UP = "gave_up"  #: the one infra reason that is final: the attempts are used up
ENVIRONMENT = "environment"  #: infra reason of a verdict: the incumbent crashed as well


class Role(StrEnum):
    """Why an experiment is run."""

    BASELINE = "baseline"  #: the unmodified tree; always experiment 1
    CANDIDATE = "candidate"  #: a proposal
    REPLICATE = "replicate"  #: the same tree run again, `of` another experiment
    RECOMBINATION = "recombination"  #: a winner re-based on the incumbent


class Trust(StrEnum):
    """How the metric was obtained; never supplied by the candidate."""

    PRINTED = "printed"  #: read from the candidate's own output
    HARNESS = "harness"  #: printed by frozen code in the candidate's process
    AUDITED = "audited"  #: scored where candidate code can't touch it
    CONFIRMED = "confirmed"  #: audited on held-out data and re-run


class Gate(StrEnum):
    """What the budget counts."""

    TIME = "time"  #: wall-clock seconds
    CPU_TIME = "cpu_time"  #: CPU-seconds of the whole sandbox
    EPOCHS = "epochs"  #: passes over the data, counted by the frozen loader
    STEPS = "steps"  #: optimizer steps, counted by the frozen loader


class Direction(StrEnum):
    """Which way is better."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class RowKind(StrEnum):
    """What a ledger row says."""

    SESSION_OPENED = "session_opened"
    PROPOSED = "proposed"
    ATTEMPT_ISSUED = "attempt_issued"
    RESULT = "result"
    SUPERSEDED = "superseded"
    DECISION = "decision"
    CONTROL = "control"
    REPAIRED = "repaired"
    SESSION_CLOSED = "session_closed"


class ControlAction(StrEnum):
    """What a person or an agent asks of a running session."""

    PAUSE = "pause"  #: propose no more; what is in flight ends
    RESUME = "resume"  #: go on, also after stop or a closed run
    DRAIN = "drain"  #: propose no more, let in-flight work end, then close
    STOP = "stop"  #: end what runs as cancelled, then close
    REQUEUE = "requeue"  #: try an experiment that was given up anew
    DROP = "drop"  #: take it out of the dead letter; its verdict stays
    APPROVE = "approve"  #: let a proposed experiment run
    REJECT = "reject"  #: never run it
    STEER = "steer"  #: advice to the proposer; changes no state


class Strategy(StrEnum):
    """How a proposer is asked to search next; the policy changes it when nothing gets better."""

    NORMAL = "normal"
    SMALLER_STEP = "smaller_step"  #: after a failure: a simpler hypothesis
    COMBINE = "combine"  #: near misses together
    REREAD = "reread"  #: look at the files again for a new angle
    BOLDER = "bolder"  #: a more radical change
    REWIND = "rewind"  #: start from an earlier kept tree; rarely
