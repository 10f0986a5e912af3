"""One printed number: the grammar of a value, and what a reader of the metric found."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from overnight.contracts.untrusted import one_line

RAW_CHARACTERS = 64  #: Claim.value can't be longer

NO_METRIC = "no_metric"
AMBIGUOUS = "ambiguous_metric"
UNPARSABLE = "metric_unparsable"
NONFINITE = "nonfinite"

_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NONFINITE = re.compile(
    r"[+-]?(?:s?nan(?:\([a-z0-9_]*\))?|inf(?:inity)?|1\.#(?:inf|ind|qnan|snan)0*)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class Outcome:
    """What one metric line said."""

    value: float | None  #: finite
    problem: str | None  #: nonfinite or metric_unparsable; None with a value
    raw: str  #: as printed, safe and cut

    @property
    def key(self) -> float | str | None:
        """Two outcomes with the same key are the same value."""
        return self.problem if self.value is None else self.value


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a source says of the metric. Exactly one of value and problem is set."""

    value: float | None = None  #: finite
    problem: str | None = None  #: no_metric, ambiguous_metric, metric_unparsable or nonfinite
    raw: str | None = None  #: the metric as printed, safe and cut; None when nothing counted
    flags: tuple[str, ...] = ()
    why: str = ""  #: the problem in words, where the source knows better ones than its name


def is_number(text: str) -> bool:
    """Optional sign, digits, optional fraction and exponent; ASCII alone."""
    return _NUMBER.fullmatch(text) is not None


def outcome(text: str, cut: bool) -> Outcome:
    """*text* as a value. *cut*: its end is missing, so that it can't be one."""
    raw = one_line(text, RAW_CHARACTERS)
    if not cut and is_number(text):
        value = float(text)
        if math.isfinite(value):
            return Outcome(value, None, raw)
        return Outcome(None, NONFINITE, raw)
    if not cut and _NONFINITE.fullmatch(text):
        return Outcome(None, NONFINITE, raw)
    return Outcome(None, UNPARSABLE, raw)


def found(one: Outcome, flags: tuple[str, ...] = (), why: str = "") -> Found:
    """*one* is what counts."""
    return Found(value=one.value, problem=one.problem, raw=one.raw, flags=flags, why=why)
