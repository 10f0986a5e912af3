"""What experiments left in /out stays for the best and what led to it; the rest goes by itself.

Only ever follows the ledger: done late or twice it comes to the same.
"""

from __future__ import annotations

import structlog

from overnight.faultpoints import Step, reach
from overnight.ledger.disk import forget_out, keeps_out
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState

log = structlog.get_logger()


class Retention:
    """Of one session. The one thing that removes, while it runs."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._kept: frozenset[int] = frozenset()

    def catch_up(self, state: SessionState) -> None:
        """After a start: whatever an earlier recorder did not come to, or a late attempt left."""
        self._kept = keeps_out(state)
        self._forget(state.experiments.keys() - self._kept)

    def follow(self, state: SessionState, decided: int) -> None:
        """An experiment was decided, and the row of it is on the disk."""
        before, self._kept = self._kept, keeps_out(state)
        self._forget((before | {decided}) - self._kept)

    def _forget(self, experiments: frozenset[int] | set[int]) -> None:
        for experiment in sorted(experiments):
            reach(Step.RECORDER_FORGET)
            if forget_out(self._files, experiment):
                log.info("out_forgotten", experiment_id=experiment)
