"""How long ideas wait for a person's word, by the orchestrator's own monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class AnswerClock:
    """Counts anew after a start and after a pause. What nobody watched does not count."""

    def __init__(self, unseen_seconds: float) -> None:
        self._unseen = unseen_seconds  #: between two looks; only a stopped or busy loop takes more
        self._since: dict[int, float] = {}
        self._looked_at: float | None = None

    def waited(self, waiting: Iterable[int], now: float) -> Mapping[int, float]:
        """Seconds that each of *waiting* has waited so far. now: seconds, monotonic."""
        last = self._looked_at if self._looked_at is not None else now
        skipped = max(0.0, now - last - self._unseen)
        self._looked_at = now
        known = self._since
        self._since = {i: known[i] + skipped if i in known else now for i in waiting}
        return {i: now - since for i, since in self._since.items()}
