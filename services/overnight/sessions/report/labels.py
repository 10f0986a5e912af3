"""Names beside points so that none covers another, a point or the line. Pure.

A name for which there is no room is left out; the point still says it when asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from overnight.sessions.report.canvas import Point, text_width

_AWAY = (9, 20, 34, 50, 70, 95, 125)  #: pixels between point and name, near first
_SQUARE = 8  #: pixels
_LEADER = 20  #: from here on a thin line shows what belongs together


@dataclass(frozen=True)
class Box:
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Have they a pixel in common?"""
        return not (self.right < other.left or other.right < self.left
                    or self.bottom < other.top or other.bottom < self.top)  # fmt: skip

    def inside(self, other: Box) -> bool:
        """Is all of it within *other*?"""
        return (other.left <= self.left and self.right <= other.right
                and other.top <= self.top and self.bottom <= other.bottom)  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """A name and where it stands."""

    text: str
    at: Point  #: of its base line: the left end, the middle or the right end, as *align* says
    align: str
    box: Box
    leader: tuple[Point, Point] | None
    away: float


class Crowd:
    """Where dots lie, in squares: a name goes where few are."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._squares = {(int(x // _SQUARE), int(y // _SQUARE)) for x, y in points}

    def under(self, box: Box) -> int:
        """How many squares with dots a box covers."""
        columns = range(int(box.left // _SQUARE), int(box.right // _SQUARE) + 1)
        rows = range(int(box.top // _SQUARE), int(box.bottom // _SQUARE) + 1)
        return sum((x, y) in self._squares for x in columns for y in rows)


def place(
    names: Sequence[tuple[Point, str]], room: Box, taken: Sequence[Box], size: float, crowd: Crowd
) -> list[Placed]:
    """The names in order of importance; *taken* is never covered, the *crowd* if need be."""
    found: list[Placed] = []
    blocked = list(taken)
    for point, text in names:
        free = [
            placed
            for placed in _tries(point, text, size)
            if placed.box.inside(room) and not any(placed.box.meets(b) for b in blocked)
        ]
        if free:
            best = min(free, key=lambda p: p.away + _SQUARE * crowd.under(p.box))
            found.append(best)
            blocked.append(best.box)
    return found


def _tries(point: Point, text: str, size: float) -> Iterator[Placed]:
    x, y = point
    width = text_width(text, size)
    ways = (("start", x + 3, x + 3), ("end", x - 3, x - width - 3), ("middle", x, x - width / 2))
    for away in _AWAY:
        for down in (-1, 1):
            for align, at, left in ways:
                base = y + down * away + (size * 0.75 if down > 0 else 0)
                box = Box(left - 2, base - size * 0.85, left + width + 2, base + size * 0.3)
                near = (at, box.bottom if down < 0 else box.top)
                leader = ((x, y), near) if away > _LEADER else None
                yield Placed(text, (at, base), align, box, leader, away)


def around(points: Sequence[Point], reach: float) -> list[Box]:
    """A little box about each point."""
    return [Box(x - reach, y - reach, x + reach, y + reach) for x, y in points]


def along(points: Sequence[Point]) -> list[Box]:
    """Boxes about a line of upright and level pieces."""
    return [
        Box(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1]))
        for a, b in itertools.pairwise(points)
    ]
