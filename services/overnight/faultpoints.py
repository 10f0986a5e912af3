"""Fault points: every step between which a service may die, named, so that a test can make it.

A step stands where the world has just changed, or is about to: after it, a killed service must be
able to go on from what lies on the disk and in the ledger. In production nothing is armed and
`reach` does nothing; only the test suite's own entry point arms one (tests/faults/armed.py).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """`<service>:<step>`, in the order in which one experiment meets them."""

    SUPERVISOR_BASE = "supervisor:base"  #: the base tree is stored, no file says of which session
    SUPERVISOR_UNNAMED = "supervisor:unnamed"  #: opening.json is written, session.json is not
    SUPERVISOR_OPENED = "supervisor:opened"  #: session files written, no child yet
    SUPERVISOR_REDIS = "supervisor:redis"  #: Redis is about to be started
    SUPERVISOR_CHILD = "supervisor:child"  #: a child was started, stack.json does not name it
    SUPERVISOR_STACK = "supervisor:stack"  #: stack.json is written
    SUPERVISOR_DIED = "supervisor:died"  #: a child's death was seen, it is not started again
    SUPERVISOR_ENDING = "supervisor:ending"  #: the run is over, all children still live
    SUPERVISOR_ENDED = "supervisor:ended"  #: no child lives, stack.json is still there

    ORCHESTRATOR_STARTED = "orchestrator:started"  #: its lock is held, nothing is sent
    ORCHESTRATOR_FOLDED = "orchestrator:folded"  #: new rows are folded, refs are behind
    ORCHESTRATOR_REFS = "orchestrator:refs"  #: refs follow the fold
    ORCHESTRATOR_LOOK = "orchestrator:look"  #: about to look at the queue
    ORCHESTRATOR_REQUEUE = "orchestrator:requeue"  #: about to push what a flush took
    ORCHESTRATOR_PROPOSE = "orchestrator:propose"  #: about to ask the proposer
    ORCHESTRATOR_TREE = "orchestrator:tree"  #: the candidate's tree is stored, no row names it
    ORCHESTRATOR_CANCEL = "orchestrator:cancel"  #: taken out of the queue, no row says so
    ORCHESTRATOR_PUSHED = "orchestrator:pushed"  #: the attempt is in the queue
    SEND_SESSION_OPENED = "orchestrator:send-session_opened"
    SEND_PROPOSED = "orchestrator:send-proposed"
    SEND_ATTEMPT_ISSUED = "orchestrator:send-attempt_issued"
    SEND_RESULT = "orchestrator:send-result"
    SEND_DECISION = "orchestrator:send-decision"
    SEND_CONTROL = "orchestrator:send-control"
    SEND_SESSION_CLOSED = "orchestrator:send-session_closed"
    ACKED_SESSION_OPENED = "orchestrator:acked-session_opened"
    ACKED_PROPOSED = "orchestrator:acked-proposed"
    ACKED_ATTEMPT_ISSUED = "orchestrator:acked-attempt_issued"  #: fence written, nothing pushed
    ACKED_RESULT = "orchestrator:acked-result"
    ACKED_DECISION = "orchestrator:acked-decision"  #: decided, the session branch is behind
    ACKED_CONTROL = "orchestrator:acked-control"
    ACKED_SESSION_CLOSED = "orchestrator:acked-session_closed"

    RUNNER_STARTED = "runner:started"  #: its device is held, leftovers are not looked for
    RUNNER_RECONCILED = "runner:reconciled"  #: leftovers are ended, the old claim still stands
    RUNNER_TAKEN = "runner:taken"  #: out of the queue, in nobody's hands
    RUNNER_LEASED = "runner:leased"  #: the lease is ours, no file says so
    RUNNER_RENEW = "runner:renew"  #: about to renew the lease
    RUNNER_CLAIMED = "runner:claimed"  #: the claim file is on the disk
    RUNNER_EXPORTED = "runner:exported"  #: the tree is exported and checked
    RUNNER_RECORDED = "runner:recorded"  #: a record names the sandbox, which does not exist yet
    RUNNER_PREPARED = "runner:prepared"  #: the sandbox is reserved
    RUNNER_LAUNCHED = "runner:launched"  #: its walls stand, the command waits at the gate
    RUNNER_TRAINING = "runner:training"  #: the gate is open
    RUNNER_ENDED = "runner:ended"  #: the command is over
    RUNNER_COLLECTED = "runner:collected"  #: /out is copied
    RUNNER_EMPTIED = "runner:emptied"  #: no process of it lives, its files and record do
    RUNNER_DESTROYED = "runner:destroyed"  #: nothing of it is left; the result is only in memory
    RUNNER_STAGED = "runner:staged"  #: a durable file is written beside, not renamed
    RUNNER_OUTBOX = "runner:outbox"  #: the result is in the outbox, the claim still stands
    RUNNER_UNCLAIMED = "runner:unclaimed"  #: the claim is cleared, nothing is sent
    RUNNER_SENT = "runner:sent"  #: the result is in the stream
    RUNNER_ACKED = "runner:acked"  #: the recorder has it, the outbox still does
    RUNNER_DELIVERED = "runner:delivered"  #: the outbox is empty, the lease still ours
    RUNNER_RELEASED = "runner:released"  #: the lease is gone, rq does not know that the job ended

    RECORDER_TAIL = "recorder:tail"  #: a torn tail is kept aside, not cut off
    RECORDER_STARTED = "recorder:started"  #: ledger locked, checked and folded
    RECORDER_READ = "recorder:read"  #: messages are read, none is handled
    RECORDER_STAGED = "recorder:staged"  #: the next head is staged, its row not written
    RECORDER_WRITTEN = "recorder:written"  #: the row is written, maybe not on the disk
    RECORDER_SYNCED = "recorder:synced"  #: the row is on the disk, the head is behind
    RECORDER_APPENDED = "recorder:appended"  #: row and head stand, nobody was told
    RECORDER_EXPORT = "recorder:export"  #: exports are about to get a line
    RECORDER_HALF_EXPORTED = "recorder:half-exported"  #: results.tsv has it, the other not
    RECORDER_REBUILD = "recorder:rebuild"  #: a new export lies beside the old one
    RECORDER_FORGET = "recorder:forget"  #: decided, what it left in /out is about to go
    RECORDER_ACK = "recorder:ack"  #: recorded, about to be acked
    RECORDER_ACKED = "recorder:acked"  #: acked, its entry is out of the stream

    REPAIR_KEPT = "repair:kept"  #: the original is in quarantine, ledger and head as they were
    REPAIR_HEAD = "repair:head"  #: the head names the row to come, the ledger is as it was
    REPAIR_CUT = "repair:cut"  #: the ledger is whole again and says so; the lock is still held

    @property
    def service(self) -> str:
        """Which process reaches it."""
        return self.value.partition(":")[0]


_hook: Callable[[Step], None] | None = None


def reach(step: Step) -> None:
    """This is the step. Does nothing unless a test has armed something."""
    if _hook is not None:
        _hook(step)


def arm(hook: Callable[[Step], None] | None) -> None:
    """Call *hook* at every step from now on: it may kill, raise or wait. For tests alone."""
    global _hook
    _hook = hook
