"""One experiment, one session in words and columns. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Mapping

from overnight.contracts.experiment import Decision
from overnight.contracts.status import Role, Status
from overnight.contracts.untrusted import one_line
from overnight.ledger.fold import ExperimentState, SessionState

WHAT_COLUMNS = 40
VERDICT_CHARS = 72

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
    "duplicate": "tried before",
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
#: Where the detail says more than the reason.
_TELLING = (Status.CRASH, Status.REJECTED, Status.HELD, Status.INFRA)
_PLURALS = {"crash": "crashes", "keep": "kept", "discard": "discarded", "timeout": "timeouts"}


def number(value: float | None) -> str:
    """A metric for a column of 10."""
    if value is None:
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}"
    return f"{value:.4f}"


def duration(seconds: float | None) -> str:
    """`2 min 58 s`, `13 s`, `0.3 s`."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{left} s"


def size(count: int) -> str:
    """`38 MB`."""
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def knob(hypothesis: str, limit: int = WHAT_COLUMNS) -> str:
    """The short name that a hypothesis starts with (`LR 0.1 -> 0.2: why`), or its start."""
    line = one_line(hypothesis, 500)
    short = line.partition(": ")[0]
    return one_line(short if len(short) <= limit else line, limit)


def verdict(experiment: ExperimentState, decision: Decision) -> str:
    """`keep`, `discard: no better`, `crash: out of memory`."""
    if experiment.proposed.role is Role.BASELINE and decision.verdict is Status.KEEP:
        return "baseline"
    reason = _REASONS.get(decision.reason or "", (decision.reason or "").replace("_", " "))
    told = [decision.verdict.value, reason]
    if decision.verdict in _TELLING:
        told.append(experiment.final.detail if experiment.final else "")
        told.append(experiment.proposed.rejection_detail)
    return one_line(": ".join(part for part in told if part), VERDICT_CHARS)


def style(status: Status) -> str:
    """How a verdict is coloured."""
    return _STYLES.get(status, "")


def heading(metric: str) -> str:
    """Over the columns of `row`."""
    name = one_line(metric, 12)
    return f"  {'id':<5} {'what':<{WHAT_COLUMNS}} {name:>12} {'delta':>9}  verdict"


def row(state: SessionState, experiment: ExperimentState, decision: Decision) -> tuple[str, str]:
    """One decided experiment: its columns before the verdict, and the verdict with its time."""
    final = experiment.final
    metric = final.metric if final else None
    before = state.metric_of(decision.incumbent_before)
    delta = "" if metric is None or before is None else f"{metric - before:+.4f}"
    what = knob(experiment.proposed.hypothesis)
    left = f"  {experiment.id:03d}   {what:<{WHAT_COLUMNS}} {number(metric):>12} {delta:>9}  "
    took = f"  {duration(final.runtime_s)}" if final else ""
    return left, f"{verdict(experiment, decision)}{took}"


def in_counts(counts: Mapping[str, int]) -> str:
    """`3 kept, 11 discarded, 2 crashes`; what did not happen is left out."""
    parts = [
        f"{count} {name if name == 'crash' and count == 1 else _PLURALS.get(name, name)}"
        for name, count in counts.items()
        if count
    ]
    return ", ".join(parts) or "nothing decided yet"
