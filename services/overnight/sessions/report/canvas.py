"""What a picture is made of: lines, dots, texts, with roles instead of colours. Pure.

One layout, two renderers: `svg` for pages, `png` for files. Units are pixels, y grows downwards.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Point = tuple[float, float]
_CHAR = 0.58  #: width of a character, in sizes; East Asian ones take a whole one


class Ink(StrEnum):
    """What something is; each renderer knows its colours."""

    TEXT = "text"
    FAINT = "faint"
    GRID = "grid"
    KEPT = "kept"
    BEST = "best"
    OTHER = "other"
    FAILED = "failed"
    SLOW = "slow"
    ODD = "odd"


@dataclass(frozen=True)
class Path:
    """Joined points."""

    points: Sequence[Point]
    ink: Ink
    width: float = 1.0


@dataclass(frozen=True)
class Dots:
    """Points of one kind."""

    points: Sequence[Point]
    ink: Ink
    radius: float


@dataclass(frozen=True)
class Ticks:
    """Short upright marks whose lower ends are given."""

    points: Sequence[Point]
    ink: Ink
    height: float


@dataclass(frozen=True)
class Bar:
    """A filled rectangle; point: its upper left corner."""

    point: Point
    width: float
    height: float
    ink: Ink


@dataclass(frozen=True)
class Spot:
    """One marked point that says what it is when somebody asks."""

    point: Point
    ink: Ink
    radius: float
    title: str


@dataclass(frozen=True)
class Words:
    """A text. align: start, middle or end of it stands at the point."""

    point: Point
    text: str
    ink: Ink = Ink.TEXT
    size: float = 12.0
    align: str = "start"
    bold: bool = False


Shape = Path | Dots | Ticks | Bar | Spot | Words


@dataclass
class Picture:
    """Shapes in the order in which they are drawn."""

    width: float
    height: float
    title: str  #: for who can't see it
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Draw on top."""
        self.shapes.extend(shapes)


def text_width(text: str, size: float) -> float:
    """About how wide it is; rather too much than too little."""
    wide = sum(1 for char in text if unicodedata.east_asian_width(char) in "WF")
    return size * (_CHAR * (len(text) - wide) + wide)
