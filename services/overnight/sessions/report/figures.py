"""Figures and names as a report writes them. Pure: values in, short safe text out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from overnight.contracts.untrusted import one_line
from overnight.sessions.report.entries import Entry, Facts, Step, Value

VALUE_CHARS = 24


def number(value: float | None) -> str:
    """A metric: four decimals where that says enough, never a figure that rounds to 0."""
    if value is None:
        return "-"
    if value != 0 and not 1e-2 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.4f}"


def pair(before: float | None, after: float | None) -> str:
    """`2.2824 -> 1.8831`, with as many decimals as tell the two apart."""
    told = f"{number(before)} -> {number(after)}"
    if before is None or after is None or before == after or number(before) != number(after):
        return told
    return f"{before:.15g} -> {after:.15g}"


def change(gain: float | None) -> str:
    """`better by 0.02`, `worse by 0.02`, `no better`."""
    if gain is None:
        return "no figure"
    if gain == 0:
        return "no better"
    return f"{'better' if gain > 0 else 'worse'} by {abs(gain):.3g}"


def percent(facts: Facts) -> str:
    """`17.5 % better than the baseline`, or the difference where a share says nothing."""
    total, baseline = facts.total_gain, facts.baseline
    if total is None or baseline is None or baseline.metric is None:
        return "a gain beyond what a number holds"
    share = 100 * total / abs(baseline.metric) if baseline.metric else math.inf
    if not math.isfinite(share) or abs(share) >= 1e4:
        return f"{change(total)} than the baseline"
    if total < 0:  # kept for its simplicity
        return f"{-share:.2g} % worse than the baseline, with less code"
    told = f"{share:.1f}" if share >= 0.1 else f"{share:.2g}"
    return f"{told} % better than the baseline"


def value(found: Value | None) -> str:
    """A knob's value. Numbers short, texts as one safe line."""
    if isinstance(found, bool) or found is None:
        return "?" if found is None else str(found)
    if isinstance(found, float):
        return f"{found:.4g}"
    if isinstance(found, int):
        return str(found) if abs(found) < 10**12 else f"{found:.4g}" if found < 1e300 else "huge"
    return one_line(found, VALUE_CHARS)


def step(found: Step) -> str:
    """`LR 0.001 -> 0.003`; `LR = 0.003` where nobody knows what it was."""
    if found.before is None:
        return f"{found.knob} = {value(found.after)}"
    return f"{found.knob} {value(found.before)} -> {value(found.after)}"


def what(entry: Entry, limit: int = 60) -> str:
    """An idea in a few words."""
    return one_line(", ".join(map(step, entry.steps)) or entry.name, limit)


def ids(entries: Iterable[Entry], limit: int = 3) -> str:
    """`002, 005 and 4 more`."""
    found = [f"{entry.id:03d}" for entry in entries]
    if len(found) <= limit:
        return ", ".join(found)
    return f"{', '.join(found[:limit])} and {len(found) - limit} more"


def count(number: int, word: str, plural: str | None = None) -> str:
    """`1 crash`, `3 crashes`."""
    return f"{number} {word if number == 1 else plural or word + 's'}"


def names(found: Sequence[str], limit: int = 5) -> str:
    """`A, B, C and 3 more`."""
    if len(found) <= limit:
        return ", ".join(found)
    return f"{', '.join(found[:limit])} and {len(found) - limit} more"
