"""The controls that a search has to beat: `random` and `best_of_n`."""

from __future__ import annotations

from dataclasses import replace

from overnight.contracts.errors import ProposerError
from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History
from overnight.contracts.status import Role
from overnight.proposers import draws, past, steps, telling

_DRAWS = 24  #: may turn out to be repeats before what is left is gone through


class RandomProposer:
    """Every knob anywhere: uniform over the space that `search` uses, whatever happened before.

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
        rng = draws.rng_for(history.seed if self._seed is None else self._seed, history.next_id)
        ideas = ((draws.uniform(space, rng), None) for _ in range(_DRAWS))
        setting, _ = draws.first_new(space, record, ideas, rng)
        why = "a random setting as control"
        return telling.proposal(history, space, record, setting, self.name, why=why)


class BestOfNProposer:
    """N independent single ideas, each on top of the baseline and never of one another.

    An idea is what one step of a search is: one to `max_knobs` (3) knobs, drawn uniformly, each at
    any other of its values. The best of them is kept. So a loop that beats it has gained by
    building on what it kept and by learning from results, not by trying often.

    Options: `max_knobs`, `seed` (the session's).
    """

    name = "best_of_n"

    def __init__(self, options: dict[str, object]) -> None:
        chosen = telling.whole_options(options, {"max_knobs": 3, "seed": None})
        self._max_knobs = max(1, chosen["max_knobs"] or 1)
        self._seed = chosen["seed"]
        self._reader = telling.Reader()

    def propose(self, history: History) -> Proposal:
        """Raises ProposerError: no constants to tune, or every setting was tried."""
        begun = _at_the_baseline(history)
        space = self._reader.space(begun)
        record = past.read(begun, space)
        rng = draws.rng_for(history.seed if self._seed is None else self._seed, history.next_id)
        ideas = (
            (steps.anywhere(space, rng, rng.randint(1, self._max_knobs)), None)
            for _ in range(_DRAWS)
        )
        setting, _ = draws.first_new(space, record, ideas, rng)
        why = "one random change of the baseline as control"
        return telling.proposal(begun, space, record, setting, self.name, why=why)


def _at_the_baseline(history: History) -> History:
    baseline = next(one.id for one in history.experiments if one.role is Role.BASELINE)
    if past.parent_of(history) == baseline:
        return history
    if not history.baseline_files:
        raise ProposerError("best_of_n edits the baseline, whose files were not handed over")
    return replace(history, parent=baseline, parent_files=history.baseline_files)
