"""What a run may cost: checked before it starts, and estimated for whoever starts it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from overnight.configuration import ResolvedLoop
from overnight.contracts.errors import ConfigError
from overnight.contracts.loop import LoopConfig
from overnight.contracts.status import Gate, Status
from overnight.ledger.fold import SessionState
from overnight.orchestrator.caps import HOUR, Cap, experiment_caps, price, session_caps
from overnight.orchestrator.deadlines import deadlines, worst_seconds

PRICE = "pools.default.usd_per_hour"


def check_limits(resolved: ResolvedLoop, state: SessionState | None = None) -> None:
    """Money has a price, and no experiment may cost more than one may, or than all together.

    state: of a session that is gone on with; what is left of its limits is seen while it runs.

    Raises:
        ConfigError: names the key and the fix.
    """
    config = resolved.config
    _check_price(resolved)
    worst = worst_seconds(config, state or SessionState())
    for cap in (*experiment_caps(config), *(session_caps(config) if state is None else ())):
        if worst > cap.seconds:
            raise ConfigError(_too_dear(resolved, cap, worst))


def _check_price(resolved: ResolvedLoop) -> None:
    limits, usd_per_hour = resolved.config.policy.limits, price(resolved.config)
    if usd_per_hour is not None and usd_per_hour < 0:
        raise ConfigError(f"{_where(resolved, PRICE)}: must be 0 or more, not {usd_per_hour:g}")
    wanted = {"policy.limits.usd": limits.usd}
    wanted["policy.limits.per_experiment.usd"] = limits.per_experiment.usd
    for key, usd in wanted.items():
        if usd is not None and not usd_per_hour:
            raise ConfigError(
                f"{_where(resolved, key)}: money needs a price: set {PRICE}, or limit gpu_hours"
            )


def _too_dear(resolved: ResolvedLoop, cap: Cap, worst: float) -> str:
    unit = "" if cap.usd_per_hour is None else " usd"
    return (
        f"{_where(resolved, cap.key)}: {cap.told(cap.seconds)}{unit} is less than one experiment "
        f"may take: {cap.told(worst)}{unit}, its deadline of {worst:g} s; raise it, lower budget "
        f"or kill_factor, or set deadline_seconds to {math.floor(cap.seconds)} at most"
    )


def _where(resolved: ResolvedLoop, key: str) -> str:
    origin = resolved.origin(key)
    if origin == "default":
        return key
    return f"{origin}: {key}" if ":" in origin else origin  # a variable or a flag names the key


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run will take if nothing changes. None: not known, or nothing ends it."""

    runners: int
    seconds_each: float | None  #: None: known only after the baseline
    measured: bool  #: by this session's results; else by the budget
    experiments_per_hour: float | None
    experiments: int | None  #: until the first limit, the baseline included where it is to come
    until: str | None  #: the limit that is reached first, e.g. policy.limits.hours
    hours: float | None  #: wall clock
    device_hours: float | None
    usd_per_hour: float | None  #: of one runner
    usd: float | None
    by_hand: bool  #: each idea waits for a person, who takes time too


def estimate(config: LoopConfig, state: SessionState, runners: int) -> Estimate:
    """Of a run that starts now with so many runners."""
    each = _seconds_each(config, state)
    pace = None if each is None else runners * HOUR / each
    left = sorted(_left(config, state, each, pace), key=lambda found: found[0])
    number, until = left[0] if left else (None, None)
    slot_hours = None if each is None or number is None else number * each / HOUR
    device_hours = None if slot_hours is None else slot_hours * config.devices_each
    usd_per_hour = price(config)
    return Estimate(
        runners=runners,
        seconds_each=each,
        measured=_measured(state) is not None,
        experiments_per_hour=pace,
        experiments=number,
        until=until,
        hours=None if pace is None or number is None else number / pace,
        device_hours=device_hours,
        usd_per_hour=usd_per_hour,
        usd=None if device_hours is None or not usd_per_hour else device_hours * usd_per_hour,
        by_hand=config.policy.approval == "hypothesis",
    )


def _left(
    config: LoopConfig, state: SessionState, each: float | None, pace: float | None
) -> Iterator[tuple[int, str]]:
    """How many experiments each limit still lets run."""
    limits = config.policy.limits
    baseline = 1 if state.incumbent is None else 0
    if limits.experiments is not None:
        number = max(0, limits.experiments - state.candidates) + baseline
        yield number, "policy.limits.experiments"
    if limits.hours is not None and pace is not None:
        yield math.floor(limits.hours * pace), "policy.limits.hours"
    for cap in session_caps(config) if each is not None else ():
        # The last one starts only while its deadline still fits.
        spare = cap.seconds - state.device_seconds - deadlines(config, state)[0]
        yield (0 if spare < 0 else math.floor(spare / (each or 1.0)) + 1), cap.key


def _seconds_each(config: LoopConfig, state: SessionState) -> float | None:
    by_clock = config.gate in (Gate.TIME, Gate.CPU_TIME)
    return _measured(state) or (config.budget if by_clock else None)


def _measured(state: SessionState) -> float | None:
    """The median of what experiments took that came to their end."""
    finals = (e.final for e in state.experiments.values())
    took = [f.runtime_s for f in finals if f is not None and f.status is Status.SCORED]
    return (median(took) or None) if took else None
