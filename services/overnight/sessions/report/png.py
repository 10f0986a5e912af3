"""A picture as a PNG, drawn by matplotlib, which is an extra: `overnight[report]`."""

from __future__ import annotations

import io
import warnings
from typing import Any

from overnight.contracts.errors import UsageError
from overnight.sessions.report.canvas import (
    Bar,
    Dots,
    Ink,
    Path,
    Picture,
    Shape,
    Spot,
    Ticks,
    Words,
)

SOFTWARE = "overnight report"  #: in the file, so that we know our own
_PIXELS = 2  #: of the file, for one of the picture
_COLOURS = {
    Ink.TEXT: "#1c2430", Ink.FAINT: "#67707e", Ink.GRID: "#d9dde3", Ink.KEPT: "#15803d",
    Ink.BEST: "#15803d", Ink.OTHER: "#a3acb9", Ink.FAILED: "#dc2626", Ink.SLOW: "#ea8a0c",
    Ink.ODD: "#7c5cd6",
}  # fmt: skip


def png(picture: Picture) -> bytes:
    """The file's bytes.

    Raises:
        UsageError: matplotlib is not there; names the line that installs it.
    """
    try:
        from matplotlib import rc_context, rcParamsDefault
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "a PNG needs matplotlib: pip install 'overnight[report]' (--html needs nothing)"
        ) from error
    # Whatever the user's own style is, and whatever scripts its font lacks, a report looks alike.
    with warnings.catch_warnings(), rc_context(dict(rcParamsDefault) | {"backend": "agg"}):
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(picture.width / 100, picture.height / 100), dpi=100 * _PIXELS)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, picture.width)
        axes.set_ylim(picture.height, 0)
        axes.axis("off")
        for shape in picture.shapes:
            _draw(axes, shape)
        file = io.BytesIO()
        figure.savefig(file, format="png", metadata={"Software": SOFTWARE}, facecolor="white")
    return file.getvalue()


def _draw(axes: Any, shape: Shape) -> None:
    colour = _COLOURS[shape.ink]
    match shape:
        case Path(points, _, width):
            axes.plot(*_columns(points), color=colour, linewidth=width * 0.72)
        case Dots(points, _, radius):
            axes.scatter(*_columns(points), s=(2 * radius * 0.72) ** 2, color=colour, linewidths=0)
        case Ticks(points, _, height):
            x, y = _columns(points)
            axes.vlines(x, y, [at - height for at in y], color=colour, linewidth=1.1)
        case Bar((x, y), width, height, _):
            axes.bar(x, height, max(width, 0.3), bottom=y, align="edge", color=colour, linewidth=0)
        case Spot((x, y), _, radius, _):
            axes.scatter([x], [y], s=(2 * radius * 0.72) ** 2, color=colour, zorder=3,
                         edgecolors="white", linewidths=0.7)  # fmt: skip
        case Words():
            _write(axes, shape, colour)


def _write(axes: Any, words: Words, colour: str) -> None:
    from matplotlib.patheffects import withStroke

    align = {"start": "left", "middle": "center", "end": "right"}[words.align]
    axes.text(
        *words.point, words.text, color=colour, fontsize=words.size * 0.72, ha=align,
        va="baseline", fontweight="bold" if words.bold else "normal", zorder=4,
        parse_math=False, path_effects=[withStroke(linewidth=2, foreground="white")],
    )  # fmt: skip


def _columns(points: Any) -> tuple[list[float], list[float]]:
    return [point[0] for point in points], [point[1] for point in points]
