"""What a session has cost, and what one more experiment may cost at most. Pure.

A device-hour is an hour for which an attempt's command held a runner's slot: a GPU where the pool
has some, a processor's slot where it has none. Start-up and clean-up of ours are not counted, nor
what a lost attempt took, which nobody could tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from overnight.ledger.fold import SessionState
from overnight.orchestrator.caps import Cap, session_caps, tightest
from overnight.orchestrator.deadlines import deadlines


@dataclass(frozen=True)
class Budget:
    """What is left of a cap, all that is under way counted at its deadline."""

    cap: Cap
    spent: float  #: seconds of a slot
    held: float  #: seconds of a slot that open attempts may still take
    each: float  #: seconds of a slot that one more attempt may take

    def affords(self, attempts: int) -> bool:
        """May so many more be started without going over, whatever they take?"""
        return self.spent + self.held + attempts * self.each <= self.cap.seconds

    def told(self) -> str:
        """`policy.limits.gpu_hours: 1.9 h of 2 h used, one more may take 0.167 h`."""
        spent, all_of_it, each = map(self.cap.told, (self.spent, self.cap.seconds, self.each))
        return f"{self.cap.key}: {spent} of {all_of_it} used, one more may take {each}"


def budget(state: SessionState) -> Budget | None:
    """How the session stands against its cap; None: it has none."""
    assert state.config is not None  # opened
    limit = tightest(session_caps(state.config))
    if limit is None:
        return None
    open_attempts = (state.experiments[i].open_attempt for i in state.running)
    held = sum(attempt.issued.wall_seconds for attempt in open_attempts if attempt is not None)
    return Budget(limit, state.device_seconds, held, deadlines(state.config, state)[0])
