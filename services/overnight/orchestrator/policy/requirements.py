"""What a candidate must keep to whatever its metric: constraints, video memory, guard. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.loop import Constraint, LoopConfig

MB_PER_GB = 1024
CONSTRAINT, GUARD, VRAM = "constraint", "guard", "vram"  #: reasons of `discard`


@dataclass(frozen=True)
class Objection:
    """Why a result may not be kept."""

    reason: str
    why: str  #: one line for a person


def objection(config: LoopConfig, result: ExperimentResult) -> Objection | None:
    """The first thing that a scored *result* breaks; None: it may be kept.

    What was not measured is broken: a limit that nobody can check would promise too much.
    """
    for constraint in config.constraints:
        why = _broken(constraint, result.measures.get(constraint.name))
        if why is not None:
            return Objection(CONSTRAINT, why)
    limit = config.policy.limits.vram_gb
    if limit is not None:
        why = _too_much(limit, result.peak_vram_mb)
        if why is not None:
            return Objection(VRAM, why)
    if config.guard is not None and result.guard == "failed":
        return Objection(GUARD, result.detail or "the guard command failed")
    return None


def unguarded(config: LoopConfig, result: ExperimentResult) -> Objection | None:
    """Nothing is kept that the guard did not see."""
    if config.guard is None or result.guard == "passed":
        return None
    return Objection(GUARD, "the guard command was not run")


def _broken(constraint: Constraint, value: float | None) -> str | None:
    name = constraint.name
    if value is None:
        return f"{name} was not printed, but `constraints` bounds it"
    if constraint.max is not None and value > constraint.max:
        return f"{name} is {value:g}, `constraints` allows at most {constraint.max:g}"
    if constraint.min is not None and value < constraint.min:
        return f"{name} is {value:g}, `constraints` asks for at least {constraint.min:g}"
    return None


def _too_much(limit_gb: float, peak_mb: float | None) -> str | None:
    key = "policy.limits.vram_gb"
    if peak_mb is None:
        return f"no `peak_vram_mb:` line was printed, but `{key}` bounds it"
    if peak_mb > limit_gb * MB_PER_GB:
        return f"it took {peak_mb / MB_PER_GB:.1f} GB of video memory, `{key}` is {limit_gb:g}"
    return None
