"""The proposer `random`: any value for every knob, the control that a search has to beat."""

from __future__ import annotations

from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History
from overnight.proposers import past, search, telling


class RandomProposer:
    """Uniform over the space that `search` uses. Best-of-N is this, run N times.

    Options: `seed` (the session's).
    """

    name = "random"

    def __init__(self, options: dict[str, object]) -> None:
        self._seed = telling.whole_options(options, {"seed": None})["seed"]
        self._reader = telling.Reader()

    def propose(self, history: History) -> Proposal:
        """Raises ProposerError: no constants to tune, or every setting was tried."""
        space = self._reader.space(history)
        record = past.read(history, space)
        seed = history.seed if self._seed is None else self._seed
        rng = search.rng_for(seed, history.next_id)
        ideas = (search.uniform(space, rng) for _ in range(24))
        setting = search.first_new(space, record, ideas, rng)
        return telling.proposal(history, space, setting, self.name, "a random setting as control")
