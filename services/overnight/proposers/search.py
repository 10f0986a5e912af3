"""The proposer `search`: tunes constants, one knob early, few at a time later.

It needs no model and no network. It changes literals only; ideas that need new code are others'.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History
from overnight.contracts.status import Strategy
from overnight.proposers import advice, draws, past, steps, telling, tpe
from overnight.proposers.advice import Advice
from overnight.proposers.past import Record, Setting
from overnight.proposers.space import Space

_DRAWS = 24  #: may turn out to be repeats before what is left is gone through
_SUGGESTIONS = 2  #: of TPE, the slow part, for one proposal
_ASKED_FOR = 2  #: steps that a preferred knob gets before the others

Idea = tuple[Setting, str | None]  #: and why, None: what the knobs themselves suggest


class SearchProposer:
    """One knob by itself for the first ideas; then in turn one knob, TPE, two or three knobs.

    Options: `max_knobs` (3) changed at once, `early` (6) ideas of one knob each, `seed` (the
    session's). The same history and seed give the same proposal.
    """

    name = "search"

    def __init__(self, options: dict[str, object]) -> None:
        chosen = telling.whole_options(options, {"max_knobs": 3, "early": 6, "seed": None})
        self._max_knobs = max(1, chosen["max_knobs"] or 1)
        self._early = chosen["early"] or 0
        self._seed = chosen["seed"]
        self._reader = telling.Reader()

    def propose(self, history: History) -> Proposal:
        """Raises ProposerError: no constants to tune, or every setting was tried."""
        whole = self._reader.space(history)
        steered = advice.steering(history.steering, whole)
        space = steered.restrict(whole)
        record = past.read(history, space)
        first, note = self._starting(history, whole)
        rng = draws.rng_for(history.seed if self._seed is None else self._seed, history.next_id)
        ideas = itertools.chain(first, self._ideas(history, space, record, steered, rng))
        setting, why = draws.first_new(space, record, ideas, rng)
        notes = " ".join(text for text in (note, steered.note) if text)
        return telling.proposal(history, space, record, setting, self.name, why=why, notes=notes)

    def _starting(self, history: History, space: Space) -> tuple[list[Idea], str]:
        """Experiment 2 tries what a person has asked for, where the words name it."""
        if history.next_id != 2 or not history.starting_hypothesis:
            return [], ""
        setting = advice.starting(history.starting_hypothesis, space)
        if setting is None:
            return [], (
                "Search can't act on the starting hypothesis, which names no constant and value "
                "that it tunes, and goes on by itself."
            )
        return [(setting, "the starting hypothesis of this session")], ""

    def _ideas(
        self, history: History, space: Space, record: Record, steered: Advice, rng: random.Random
    ) -> Iterator[Idea]:
        yield from self._preferred(space, record, steered)
        yield from self._strategic(history, space, record, rng)
        for setting, number in steps.overtaken(space, record):
            yield setting, f"a gain of experiment {number} too, while another was kept"
        turn = sum(one.proposer == self.name for one in history.experiments) - self._early
        for lag, gains in ((1, "gain"), (2, "two gains")) if turn >= 0 else ():
            onward = steps.onward(space, record, lag)
            if onward is not None and len(telling.changes(space, onward)) <= self._max_knobs:
                yield onward, f"on in the direction of the last {gains}"
        if turn < 0 or turn % 3 == 0:
            yield from ((setting, None) for setting in steps.singles(space, record))
        if turn % 3 == 1:
            why = "closer to the settings that did well so far"
            yield from ((setting, why) for setting in self._suggested(space, record, rng))
        for _ in range(_DRAWS):
            yield steps.nearby(space, record, rng, rng.randint(1, self._max_knobs)), None

    def _preferred(self, space: Space, record: Record, steered: Advice) -> Iterator[Idea]:
        for knob in space.knobs:
            direction = steered.preferred.get(knob.key)
            if direction is None or len(knob.values) < 2:
                continue
            made = [
                move
                for move in steps.moves_of(knob, record)
                if not direction or move.direction == direction
            ]
            if len(made) < _ASKED_FOR:
                for setting in steps.of_knob(space, record, knob, direction):
                    yield setting, "as was asked for"

    def _strategic(
        self, history: History, space: Space, record: Record, rng: random.Random
    ) -> Iterator[Idea]:
        """What the policy asks for when nothing gets better. There is nothing to read again."""
        match history.strategy:
            case Strategy.SMALLER_STEP:
                # What only measured worse says little of the way there; what crashed says: less.
                for setting in steps.halved(space, record):
                    yield setting, "half of the step that failed"
            case Strategy.COMBINE:
                for setting, ids in steps.near_misses(space, record, self._max_knobs):
                    yield setting, f"near misses {ids[0]} and {ids[1]} together"
            case Strategy.BOLDER:
                for _ in range(_DRAWS):
                    count = rng.randint(min(2, self._max_knobs), self._max_knobs)
                    yield steps.anywhere(space, rng, count, record), "a bolder change on a plateau"
            case Strategy.REWIND:
                parent = past.parent_of(history)
                for setting in steps.singles(space, record):
                    yield setting, f"another way on from experiment {parent}"

    def _suggested(self, space: Space, record: Record, rng: random.Random) -> Iterator[Setting]:
        """TPE's suggestions, brought down to few knobs on top of the parent."""
        weight = steps.weights(space, record)
        for _ in range(_SUGGESTIONS):
            suggested = tpe.suggest(space, record.told, rng.getrandbits(32))
            moved = [knob.key for knob in telling.changes(space, suggested)]
            for _ in range(_DRAWS // _SUGGESTIONS):
                kept = steps.draw(rng, moved, weight, self._max_knobs)
                yield steps.towards(space, record, suggested, kept)
