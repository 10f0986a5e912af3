"""Numbers on the command line: read in our words, since the parser's own differ by version."""

from __future__ import annotations

import math
from collections.abc import Callable

from overnight.contracts.errors import UsageError
from overnight.contracts.untrusted import one_line

_SHOWN = 40


def whole(flag: str, least: int | None = None) -> Callable[[str], int]:
    """Reads a whole number, *least* or more. It raises UsageError."""
    bound = "" if least is None else f", {least} or more"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or (least is not None and value < least):
            raise _wrong(flag, f"a whole number{bound}", text)
        return value

    return read


def amount(flag: str, *, or_zero: bool = False) -> Callable[[str], float]:
    """Reads a finite number above 0, or 0 too. It raises UsageError."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (0 < value < math.inf or (or_zero and value == 0)):
            raise _wrong(flag, "a number, 0 or more" if or_zero else "a number above 0", text)
        return value

    return read


def _wrong(flag: str, wanted: str, text: object) -> UsageError:
    return UsageError(f"{flag}: must be {wanted}, not {one_line(str(text), _SHOWN) or 'nothing'}")
