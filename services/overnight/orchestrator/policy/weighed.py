"""Policy version 2: a gain must be worth its code, less code may cost next to nothing.

Strictly better is kept, as in version 1, unless the added code costs more than the gain. A
candidate that is as good as the incumbent, to within tie_epsilon, is kept when it is clearly less
code. Such losses never add up: an incumbent is at most one tie_epsilon worse than the best that
was ever kept. Nothing is kept that breaks a constraint, a limit or the guard.
"""

from __future__ import annotations

from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import ENVIRONMENT, Direction, Role, Status
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.orchestrator.policy import environment
from overnight.orchestrator.policy.requirements import objection, unguarded
from overnight.orchestrator.policy.verdicts import verdict

#: A gain has to be this much larger than the price of its code: what is printed is rounded, and
#: the seed's example (20 lines for 0.001 at 0.9979) must not hang on the last digit.
MARGIN = 0.05
TIE_LINES = 10  #: tie_epsilon `auto` is what so many lines of code must bring
CLEARLY_LESS = 5  #: lines of code less than the incumbent
MORE_VRAM = 1.25  #: of the incumbent's peak: from here on the decision carries `vram_warning`
MANY_PLACES = 8  #: separate places; a candidate that changes more carries `many_changes`

SIMPLIFICATION, NOT_WORTH_IT = "simplification", "not_worth_it"
RE_RUN = "re_run"  #: reason of `discard`: the incumbent again, never a candidate
VRAM_WARNING, MANY_CHANGES = "vram_warning", "many_changes"


def decide(state: SessionState, experiment: ExperimentState) -> Decision:
    """The verdict on an ended experiment."""
    if experiment.rejection is not None:
        return verdict(state, experiment, Status.REJECTED, experiment.rejection)
    final = experiment.final
    assert final is not None and state.config is not None  # ended
    if environment.blamed(state, experiment):
        return verdict(state, experiment, Status.INFRA, ENVIRONMENT)
    if final.status is not Status.SCORED:
        return verdict(state, experiment, Status(final.status), final.reason)
    if experiment.proposed.role is Role.REPLICATE:
        return verdict(state, experiment, Status.DISCARD, RE_RUN)
    status, reason = _judged(state, state.config, experiment, final)
    return verdict(state, experiment, status, reason, flags=_flags(state, experiment, final))


def _judged(
    state: SessionState, config: LoopConfig, experiment: ExperimentState, final: ExperimentResult
) -> tuple[Status, str | None]:
    found = objection(config, final)
    if experiment.proposed.role is Role.BASELINE:
        found = found or unguarded(config, final)
        return (Status.DISCARD, found.reason) if found else (Status.KEEP, None)
    parent = state.experiments[experiment.proposed.parent or 1]
    if experiment.proposed.tree_digest == parent.proposed.tree_digest:
        return Status.DISCARD, "no_change"
    if found is not None:
        return Status.DISCARD, found.reason
    status, reason = _weighed(state, config, experiment, final)
    if status is Status.KEEP:
        found = unguarded(config, final)
        if found is not None:
            return Status.DISCARD, found.reason
    return status, reason


def _weighed(
    state: SessionState, config: LoopConfig, experiment: ExperimentState, final: ExperimentResult
) -> tuple[Status, str | None]:
    """By the metric and the code alone."""
    best = state.metric_of(state.incumbent)
    assert best is not None and final.metric is not None  # an incumbent is scored
    added = added_code(state, experiment)
    if config.metric.better(final.metric, best):
        gain = abs(final.metric - best)
        price = config.policy.simplicity.per_line * _scale(state) * max(0, added or 0)
        if gain <= price * (1 + MARGIN):
            return Status.DISCARD, NOT_WORTH_IT
        return Status.KEEP, None
    less = measured(state, experiment) and added is not None and -added >= CLEARLY_LESS
    if less and not config.metric.better(worst_kept(state), final.metric):
        return Status.KEEP, SIMPLIFICATION
    return Status.DISCARD, "equal" if final.metric == best else "worse"


def added_code(state: SessionState, experiment: ExperimentState) -> int | None:
    """Lines of code more (or less) than the incumbent; None: there is no incumbent.

    Where the size of either is unknown, the lines of its diff stand for it.
    """
    if state.incumbent is None:
        return None
    incumbent = state.experiments[state.incumbent].proposed
    own = experiment.proposed
    if own.code_lines is None or incumbent.code_lines is None:
        return own.lines_added - own.lines_removed
    return own.code_lines - incumbent.code_lines


def measured(state: SessionState, experiment: ExperimentState) -> bool:
    """Is it known how much code both are? The lines of a diff don't show that one is simpler."""
    pair = (experiment, state.experiments[state.incumbent or 1])
    return all(one.proposed.code_lines is not None for one in pair)


def tie_epsilon(state: SessionState) -> float:
    """How far apart two metrics may be and count as the same, in units of the metric."""
    assert state.config is not None  # opened
    simplicity = state.config.policy.simplicity
    if simplicity.tie_epsilon != "auto":
        return float(simplicity.tie_epsilon)
    return TIE_LINES * simplicity.per_line * _scale(state)


def worst_kept(state: SessionState) -> float:
    """The worst metric that a candidate can still be kept with, however simple it is.

    Measured from the best that was ever kept, so that small losses can't add up to a large one,
    whatever small gains stand between them.
    """
    assert state.config is not None  # opened
    metrics = [m for m in (state.metric_of(one) for one in state.kept) if m is not None]
    if state.config.metric.direction is Direction.MINIMIZE:
        return min(metrics) + tie_epsilon(state)
    return max(metrics) - tie_epsilon(state)


def _scale(state: SessionState) -> float:
    """|baseline|: what gains and prices are relative to."""
    return abs(state.metric_of(1) or 0.0)


def _flags(
    state: SessionState, experiment: ExperimentState, final: ExperimentResult
) -> tuple[str, ...]:
    """What a person should look at. It never changes the verdict."""
    if experiment.proposed.role is Role.BASELINE or state.incumbent is None:
        return ()
    flags = []
    before = state.experiments[state.incumbent].final
    peak_before = before.peak_vram_mb if before else None
    if peak_before and final.peak_vram_mb and final.peak_vram_mb > MORE_VRAM * peak_before:
        flags.append(VRAM_WARNING)
    if experiment.proposed.places > MANY_PLACES and experiment.proposed.role is Role.CANDIDATE:
        flags.append(MANY_CHANGES)
    return tuple(flags)
