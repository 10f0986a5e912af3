"""Axes: which part of the numbers is shown, linear or logarithmic, with round ticks. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_DECADE = 10.0  #: from here on a ratio of positive numbers is shown on a logarithmic axis
_SHOWN = 0.9  #: of the ideas must have their place; the worst may be off the scale,
_FAR = 2.0  #: where all would need so many times the room
_PAD = 0.06


@dataclass(frozen=True)
class Axis:
    """From *low* to *high*, over pixels from *start* to *end*."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where *value* stands, within the axis."""
        low, high, at = (self._bent(v) for v in (self.low, self.high, value))
        share = min(1.0, max(0.0, (at - low) / (high - low)))
        return self.start + share * (self.end - self.start)

    def off(self, value: float) -> int:
        """-1 below the axis, 1 above it, 0 on it."""
        return (value > self.high) - (value < self.low)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high, about)

    def _bent(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.log else value / self._size

    @property
    def _size(self) -> float:
        """Differences of huge numbers stay numbers."""
        return max(abs(self.low), abs(self.high), 1.0)


def value_axis(
    always: Sequence[float], others: Sequence[float], start: float, end: float, *, minimize: bool
) -> Axis:
    """All of *always* and most of *others*; what is far on the worse side is off the scale."""
    ordered = sorted(others, reverse=not minimize)
    most = ordered[: max(1, math.ceil(len(ordered) * _SHOWN))] if ordered else []
    shown = [*always, *most] or [0.0, 1.0]
    low, high = min(shown), max(shown)
    lowest, highest = min([low, *others]), max([high, *others])
    if highest / _FAR - lowest / _FAR <= high - low:
        low, high = lowest, highest
    if low > 0 and high / low >= _DECADE:
        pad = math.exp(_PAD * (math.log(high) - math.log(low)))
        return Axis(max(low / pad, 5e-324), _clamped(high * pad), start, end, log=True)
    span = high / 2 - low / 2  # halves: the difference may be more than a float holds
    pad = 2 * span * _PAD if span else abs(high) * 0.01 or 1.0
    low, high = _clamped(low - pad), _clamped(high + pad)
    return Axis(low, high if high > low else math.nextafter(low, math.inf), start, end)


def _clamped(value: float) -> float:
    return min(max(value, -1e308), 1e308)


def _ticks(low: float, high: float, about: int) -> list[float]:
    span = high / about - low / about
    if not math.isfinite(span) or span <= 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span))
    step *= next((m for m in (1, 2, 5) if m * step >= span), 10)
    first, count = math.ceil(low / step), 0
    found = []
    while count <= 2 * about and (at := (first + count) * step) <= high:
        found.append(at)
        count += 1
    return found


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = max(1, (last - first) // 6)
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    return [m * 10.0**power for power in range(first, last + 1, stride) for m in steps
            if low <= m * 10.0**power <= high]  # fmt: skip


def label(value: float, ticks: Sequence[float]) -> str:
    """As many decimals as tell the ticks apart."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    gaps = [abs(b - a) for a, b in itertools.pairwise(ticks) if b != a]
    decimals = max(0, -math.floor(math.log10(min(gaps)) + 1e-9)) if gaps else 3
    return f"{value:.{min(decimals, 8)}f}"
