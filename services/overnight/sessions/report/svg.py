"""A picture as inline SVG. Pure. Colours are classes; the page that holds it sets them."""

from __future__ import annotations

from html import escape

from overnight.sessions.report.canvas import (
    Bar,
    Dots,
    Path,
    Picture,
    Point,
    Shape,
    Spot,
    Ticks,
    Words,
)


def svg(picture: Picture) -> str:
    """One `<svg>` element; every text in it is escaped."""
    size = f"0 0 {picture.width:.0f} {picture.height:.0f}"
    body = "\n".join(part for shape in picture.shapes if (part := _shape(shape)))
    return (f'<svg viewBox="{size}" role="img" xmlns="http://www.w3.org/2000/svg">'
            f"<title>{escape(picture.title)}</title>\n{body}\n</svg>")  # fmt: skip


def _shape(shape: Shape) -> str:
    match shape:
        case Path(points, ink, width):
            return _stroke(_joined(points), f"s-{ink}", width) if points else ""
        case Dots(points, ink, radius):
            dots = "".join(f"M{_at(point)}h0" for point in points)
            return _stroke(dots, f"s-{ink} round", 2 * radius) if points else ""
        case Ticks(points, ink, height):
            ticks = "".join(f"M{_at(point)}v{-height:g}" for point in points)
            return _stroke(ticks, f"s-{ink}", 1.5) if points else ""
        case Bar((x, y), width, height, ink):
            return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.3):.2f}" '
                    f'height="{height:g}" class="f-{ink}"/>')  # fmt: skip
        case Spot((x, y), ink, radius, title):
            return (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="f-{ink} spot">'
                    f"<title>{escape(title)}</title></circle>")  # fmt: skip
        case Words():
            return _words(shape)


def _words(words: Words) -> str:
    x, y = words.point
    bold = ' font-weight="600"' if words.bold else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{words.size:g}" class="f-{words.ink}" '
            f'text-anchor="{words.align}"{bold}>{escape(words.text)}</text>')  # fmt: skip


def _stroke(path: str, classes: str, width: float) -> str:
    return f'<path d="{path}" class="{classes}" stroke-width="{width:g}"/>'


def _joined(points: object) -> str:
    assert isinstance(points, list | tuple)
    return "M" + "L".join(_at(point) for point in points)


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"
