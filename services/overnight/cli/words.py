"""One experiment, one session in words and columns. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overnight.contracts.experiment import Decision
from overnight.contracts.status import Role, Status
from overnight.contracts.untrusted import one_line
from overnight.ledger.fold import ExperimentState, SessionState

WHAT_COLUMNS = 40
VERDICT_CHARS = 60

#: What a reason is to a person; others are shown as they are, with spaces.
_REASONS = {
    "oom": "out of memory",
    "nonfinite": "not a finite number",
    "no_metric": "printed no metric",
    "ambiguous_metric": "printed several metrics",
    "metric_unparsable": "metric is no number",
    "exit_code": "",
    "worse": "",
    "equal": "no better",
    "no_change": "changes nothing",
    "edit_not_applied": "edit does not apply",
    "train": "over its budget",
}

_STYLES = {
    Status.KEEP: "green",
    Status.DISCARD: "dim",
    Status.CRASH: "red",
    Status.TIMEOUT: "red",
    Status.REJECTED: "yellow",
    Status.HELD: "yellow",
    Status.INFRA: "magenta",
}


def number(value: float | None) -> str:
    """A metric for a column of 10."""
    if value is None:
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}"
    return f"{value:.4f}"


def seconds(value: float | None) -> str:
    """`2 min 58 s`, `13 s`, `0.3 s`."""
    if value is None:
        return "-"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{left} s"


def verdict(experiment: ExperimentState, decision: Decision) -> str:
    """`keep`, `discard: no better`, `crash: out of memory`."""
    if experiment.proposed.role is Role.BASELINE and decision.verdict is Status.KEEP:
        return "baseline"
    word = decision.verdict.value
    reason = _REASONS.get(decision.reason or "", (decision.reason or "").replace("_", " "))
    detail = ""
    if decision.verdict in (Status.CRASH, Status.REJECTED, Status.HELD, Status.INFRA):
        detail = experiment.final.detail if experiment.final else ""
        detail = one_line(detail or experiment.proposed.rejection_detail, VERDICT_CHARS)
    told = [word, *(part for part in (reason, detail) if part)]
    return one_line(": ".join(told), VERDICT_CHARS)


def style(status: Status) -> str:
    """How a verdict is coloured."""
    return _STYLES.get(status, "")


def heading(metric: str) -> str:
    """Over the columns of `row`."""
    return f"  {'id':<5} {'what':<{WHAT_COLUMNS}} {one_line(metric, 10):>10} {'delta':>9}  verdict"


def row(state: SessionState, experiment: ExperimentState, decision: Decision) -> tuple[str, str]:
    """One decided experiment: its columns before the verdict, and the verdict with its time."""
    final = experiment.final
    metric = final.metric if final else None
    before = state.metric_of(decision.incumbent_before)
    delta = "" if metric is None or before is None else f"{metric - before:+.4f}"
    what = one_line(experiment.proposed.hypothesis, WHAT_COLUMNS)
    left = f"  {experiment.id:03d}   {what:<{WHAT_COLUMNS}} {number(metric):>10} {delta:>9}  "
    took = f"  {seconds(final.runtime_s)}" if final else ""
    return left, f"{verdict(experiment, decision)}{took}"


def in_counts(counts: Mapping[str, int]) -> str:
    """`3 keep, 11 discard, 2 crash`; what did not happen is left out."""
    return ", ".join(f"{n} {name}" for name, n in counts.items() if n) or "nothing decided yet"


def experiments_in(status: Mapping[str, Any]) -> int:
    """How many are decided."""
    return sum(status["counts"].values())
