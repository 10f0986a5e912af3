"""When an attempt is killed: wall clock and CPU, from the gate and the session so far. Pure."""

from __future__ import annotations

from statistics import median

from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import Gate, Status
from overnight.ledger.fold import SessionState
from overnight.orchestrator.caps import experiment_caps, tightest

BASELINE_SECONDS = 1800.0  #: a baseline without any other deadline
BACKSTOP_BUDGETS = 10.0  #: cpu_time: wall backstop in budgets ...
BACKSTOP_MEDIANS = 4.0  #: ... or in this session's median wall times, whichever is larger


def deadlines(config: LoopConfig, state: SessionState) -> tuple[float, float | None]:
    """(wall seconds, CPU-seconds or None), both from the start of the command.

    `time`: kill_factor x budget plus graces. `cpu_time`: the same in CPU-seconds, with the wall
    clock only as a backstop. `epochs` and `steps`: kill_factor x the baseline's wall time.
    deadline_seconds, when set, is the wall clock in every gate. What one experiment may cost bounds
    the wall clock in all of them.
    """
    wall, cpu = _by_gate(config, state)
    cap = tightest(experiment_caps(config))
    return (wall if cap is None else min(wall, cap.seconds)), cpu


def worst_seconds(config: LoopConfig, state: SessionState) -> float:
    """Wall clock that an experiment may take by its gate alone, whatever it may cost."""
    return _by_gate(config, state)[0]


def _by_gate(config: LoopConfig, state: SessionState) -> tuple[float, float | None]:
    graces = config.startup_grace + config.eval_grace
    granted = config.kill_factor * config.budget + graces
    if config.gate is Gate.TIME:
        return config.deadline_seconds or granted, None
    if config.gate is Gate.CPU_TIME:
        return config.deadline_seconds or _backstop(config, state, granted), granted
    if config.deadline_seconds is not None:
        return config.deadline_seconds, None
    baseline = state.baseline
    if baseline is None or baseline.final is None or baseline.final.runtime_s == 0:
        return BASELINE_SECONDS, None
    return config.kill_factor * baseline.final.runtime_s + graces, None


def _backstop(config: LoopConfig, state: SessionState, granted: float) -> float:
    walls = [
        e.final.runtime_s
        for e in state.experiments.values()
        if e.final is not None and e.final.status is Status.SCORED
    ]
    typical = BACKSTOP_MEDIANS * median(walls) if walls else 0.0
    return max(BACKSTOP_BUDGETS * config.budget, typical, granted)
