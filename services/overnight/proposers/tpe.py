"""The edge to Optuna: past settings in, one suggested setting out. Nothing is kept between calls.

Optuna is imported at the first suggestion: it takes half a second that a start should not pay.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from overnight.proposers.past import Setting, Told
from overnight.proposers.space import Knob, Space

MAX_TOLD = 400  #: more makes a suggestion slow and not better
NEI = 24
_BEST_TOLD = 100  #: of these, kept whatever their age


def suggest(space: Space, told: Sequence[Told], seed: int) -> Setting:
    """A setting that resembles the better ones of *told*. The same arguments, the same answer."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            n_startup_trials=1,
            constant_liar=False,
            n_ei_candidates=NEI,
        )
        study = optuna.create_study(direction="minimize", sampler=sampler)
        ladders = {knob.key: _ladder(knob, optuna.distributions) for knob in space.knobs}
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params={knob.key: knob.place(item.setting[knob.key]) for knob in space.knobs},
                    distributions=ladders,
                    value=item.loss,
                )
                for item in _most_telling(told)
            ]
        )
        places = study.ask(fixed_distributions=ladders).params
    return {knob.key: knob.values[places[knob.key]] for knob in space.knobs}


def _ladder(knob: Knob, distributions: Any) -> Any:
    """A knob as Optuna sees it: a place on its ladder."""
    if knob.ordered and len(knob.values) > 2:
        return distributions.IntDistribution(0, len(knob.values) - 1)
    return distributions.CategoricalDistribution(range(len(knob.values)))


def _most_telling(told: Sequence[Told]) -> list[Told]:
    """The best ones and the newest ones, in their order."""
    if len(told) <= MAX_TOLD:
        return list(told)
    by_loss = sorted(range(len(told)), key=lambda index: (told[index].loss, index))
    chosen = {index for index in by_loss[:_BEST_TOLD] if math.isfinite(told[index].loss)}
    newest = [index for index in range(len(told) - 1, -1, -1) if index not in chosen]
    chosen.update(newest[: MAX_TOLD - len(chosen)])
    return [told[index] for index in sorted(chosen)]
