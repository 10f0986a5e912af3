"""What a run is expected to take, in two lines. Pure: values in, text out."""

from __future__ import annotations

from overnight.cli import words
from overnight.sessions.limits import PRICE, Estimate

_LIMITS = {
    "policy.limits.experiments": "--max",
    "policy.limits.hours": "--hours",
}


def estimate_lines(estimate: Estimate) -> list[str]:
    """The pace and how far it leads, then what that costs. Nothing where nothing is left to run."""
    if estimate.experiments == 0 and estimate.measured:
        return []
    return [f"  expects   {_pace(estimate)}", f"  costs     {_costs(estimate)}"]


def _pace(estimate: Estimate) -> str:
    at_a_time = f"{estimate.runners} at a time"
    if estimate.experiments_per_hour is None:
        return f"how long an experiment takes is known after the baseline; {at_a_time}"
    basis = "as measured" if estimate.measured else "by the budget"
    rate = estimate.experiments_per_hour
    told = f"{rate:.0f} experiments/h ({basis}, {at_a_time})"
    if estimate.by_hand:
        told += ", and your time to approve each"
    if estimate.experiments is None or estimate.hours is None:
        return f"{told}, until you stop it"
    until = _LIMITS.get(estimate.until or "", estimate.until)
    many = f"~{estimate.experiments} in {words.duration(estimate.hours * 3600)}"
    return f"{told}: {many} ({until})"


def _costs(estimate: Estimate) -> str:
    priced = estimate.usd_per_hour
    if estimate.device_hours is None:
        money = f"unpriced: set {PRICE}" if not priced else f"{priced * estimate.runners:.2f} usd"
        return f"{estimate.runners} slot-hours an hour ({money})"
    hours = f"~{_hours(estimate.device_hours)} slot-hours"
    if estimate.usd is None:
        return f"{hours} (unpriced: set {PRICE})"
    return f"{hours}, ~{estimate.usd:.2f} usd"


def _hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 9.5 else f"{hours:.2g}"
