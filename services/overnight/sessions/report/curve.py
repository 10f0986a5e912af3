"""The progress of a session as a picture: every experiment, the best so far, the kept ones named.

Pure. Three experiments or ten thousand: dots that would fall on one another are drawn once, and
only as many names are written as have room.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from overnight.contracts.status import Direction, Role, Status
from overnight.contracts.untrusted import one_line
from overnight.sessions.report import canvas, figures, labels, scale
from overnight.sessions.report.canvas import Ink, Picture, Point
from overnight.sessions.report.entries import Entry, Facts

WIDTH, HEIGHT = 960.0, 430.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 78.0, 942.0, 66.0, 352.0
_STRIP = (366.0, 16.0)  #: top and height of the band of verdicts
_CROWDED = 400  #: experiments; beyond, dots are smaller and verdicts are shares
_NAMED, _NAME_CHARS, _SIZE = 14, 34, 11.0
_INKS = {Status.KEEP: Ink.KEPT, Status.CRASH: Ink.FAILED, Status.TIMEOUT: Ink.SLOW,
         Status.DISCARD: Ink.OTHER}  # fmt: skip
_LEGEND = ((Ink.KEPT, "kept"), (Ink.OTHER, "not kept"), (Ink.FAILED, "crash"),
           (Ink.SLOW, "timeout"), (Ink.ODD, "other"))  # fmt: skip


def curve(facts: Facts) -> Picture:
    """The whole picture."""
    picture = Picture(WIDTH, HEIGHT, _title(facts))
    entries = facts.entries
    across = scale.Axis(0.5, max(len(entries), 1) + 0.5, _LEFT, _RIGHT)
    upright = _value_axis(facts)
    places = {entry.id: across.place(number) for number, entry in enumerate(entries, start=1)}
    _head(picture, facts)
    _grid(picture, across, upright, len(entries))
    measured = [e for e in entries if e.metric is not None]
    off = [e for e in measured if upright.off(e.metric or 0.0)]
    crowd: list[Point] = []
    for ink in (Ink.OTHER, Ink.ODD):
        dots = [_spot(e, places, upright) for e in measured
                if e.status is not Status.KEEP and _INKS.get(e.status, Ink.ODD) is ink
                and not upright.off(e.metric or 0.0)]  # fmt: skip
        crowd += dots
        picture.add(canvas.Dots(_thinned(dots), ink, 2.2 if len(entries) < _CROWDED else 1.4))
    _outside(picture, facts, off, places)
    _failures(picture, entries, places)
    line = _best_line(facts, places, upright)
    picture.add(canvas.Path(line, Ink.BEST, 1.8))
    _kept(picture, facts, places, upright, (line, crowd))
    _strip(picture, entries)
    return picture


def _title(facts: Facts) -> str:
    best, baseline = facts.best, facts.baseline
    name = one_line(facts.metric.name, 40)
    if best is None or baseline is None or best.metric is None:
        return f"{facts.tag}: no {name} yet"
    if best.id == baseline.id:
        return f"{name} {figures.number(best.metric)}: the baseline stands"
    return f"{name} {figures.pair(baseline.metric, best.metric)}, {figures.percent(facts)}"


def _value_axis(facts: Facts) -> scale.Axis:
    always = [e.metric for e in facts.entries if e.status is Status.KEEP and e.metric is not None]
    others = [e.metric for e in facts.entries if e.metric is not None]
    minimize = facts.metric.direction is Direction.MINIMIZE
    return scale.value_axis(always, others, _BOTTOM, _TOP, minimize=minimize)


def _head(picture: Picture, facts: Facts) -> None:
    picture.add(canvas.Words((_LEFT, 24), one_line(picture.title, 80), size=16, bold=True))
    minimize = facts.metric.direction is Direction.MINIMIZE
    told = f"session {one_line(facts.tag, 30)}, {figures.count(len(facts.ideas), 'idea')}; " + (
        "lower is better" if minimize else "higher is better"
    )
    picture.add(canvas.Words((_LEFT, 44), told, Ink.FAINT, 12))
    present = {_INKS.get(entry.status, Ink.ODD) for entry in facts.entries}
    x = _RIGHT
    for ink, word in reversed([pair for pair in _LEGEND if pair[0] in present]):
        x -= canvas.text_width(word, 12)
        picture.add(canvas.Words((x, 44), word, Ink.FAINT, 12))
        picture.add(canvas.Dots([(x - 8, 40)], ink, 3.5))
        x -= 24


def _grid(picture: Picture, across: scale.Axis, upright: scale.Axis, count: int) -> None:
    ticks = upright.ticks()
    for tick in ticks:
        y = upright.place(tick)
        picture.add(canvas.Path([(_LEFT, y), (_RIGHT, y)], Ink.GRID, 0.8))
        picture.add(
            canvas.Words((_LEFT - 8, y + 4), scale.label(tick, ticks), Ink.FAINT, 11, "end")
        )
    whole = sorted({round(tick) for tick in across.ticks(8) if 1 <= round(tick) <= count} | {1})
    for number in whole:
        if number == 1 and any(other > 1 and across.place(other) - across.place(1) < 30
                               for other in whole):  # fmt: skip
            continue
        x = across.place(number)
        align = "end" if x > _RIGHT - 16 else "middle"
        at = (x, _STRIP[0] + _STRIP[1] + 16)
        picture.add(canvas.Words(at, str(number), Ink.FAINT, 11, align))
    under = "experiments, in the order of their verdicts" + ("; logarithmic" if upright.log else "")
    picture.add(canvas.Words(((_LEFT + _RIGHT) / 2, HEIGHT - 8), under, Ink.FAINT, 11, "middle"))


def _spot(entry: Entry, places: dict[int, float], upright: scale.Axis) -> Point:
    assert entry.metric is not None  # the caller has looked
    return places[entry.id], upright.place(entry.metric)


def _thinned(points: Iterable[Point]) -> list[Point]:
    """One dot where several would cover each other."""
    return list({(round(x), round(y)): (round(x, 1), round(y, 1)) for x, y in points}.values())


def _failures(picture: Picture, entries: Sequence[Entry], places: dict[int, float]) -> None:
    """At the border: they have no number."""
    for status, ink in ((Status.CRASH, Ink.FAILED), (Status.TIMEOUT, Ink.SLOW)):
        columns = {round(places[e.id]) for e in entries if e.status is status}
        ticks = [(float(x), _BOTTOM) for x in sorted(columns)]
        picture.add(canvas.Ticks(ticks, ink, 9 if len(columns) < _CROWDED // 2 else 4))


def _outside(
    picture: Picture, facts: Facts, off: Sequence[Entry], places: dict[int, float]
) -> None:
    """What is far worse than the rest stands at the border, too."""
    columns = sorted({round(places[entry.id]) for entry in off})
    if not columns:
        return
    minimize = facts.metric.direction is Direction.MINIMIZE
    y = _TOP if minimize else _BOTTOM
    picture.add(canvas.Ticks([(float(x), y) for x in columns], Ink.OTHER, 6))
    told = f"{len(off)} far worse: off the scale"
    at = (_RIGHT, _TOP - 9 if minimize else _BOTTOM - 12)
    picture.add(canvas.Words(at, told, Ink.FAINT, 10, "end"))


def _best_line(facts: Facts, places: dict[int, float], upright: scale.Axis) -> list[Point]:
    """Level until something better is kept."""
    line: list[Point] = []
    best: float | None = None
    for entry in facts.entries:
        if entry.status is not Status.KEEP or entry.metric is None:
            continue
        if best is None or facts.metric.better(entry.metric, best):
            x, y = _spot(entry, places, upright)
            line += [(x, line[-1][1]), (x, y)] if line else [(x, y)]
            best = entry.metric
    return [*line, (_RIGHT, line[-1][1])] if line else []


def _kept(
    picture: Picture, facts: Facts, places: dict[int, float], upright: scale.Axis,
    drawn: tuple[Sequence[Point], Sequence[Point]],
) -> None:  # fmt: skip
    """The kept ones with their names. drawn: the line and the dots that are there already."""
    line, crowd = drawn
    kept = [e for e in facts.entries if e.status is Status.KEEP and e.metric is not None]
    spots = [_spot(entry, places, upright) for entry in kept]
    radius = 4.0 if len(kept) <= _CROWDED // 6 else 2.2
    for entry, at in zip(kept, spots, strict=True):
        told = f"{entry.id:03d} {_name(entry, 120)}: {figures.number(entry.metric)}"
        picture.add(canvas.Spot(at, Ink.KEPT, radius, told))
    order = sorted(
        zip(kept, spots, strict=True),
        key=lambda pair: (pair[0].id != facts.best_id, -(pair[0].gain_on_best or 0.0)),
    )
    wanted = [(at, f"{e.id:03d} {_name(e, _NAME_CHARS)}") for e, at in order[:_NAMED]]
    blocked = labels.around(spots, radius + 1) + labels.along(line)
    room = labels.Box(_LEFT + 2, _TOP - 6, _RIGHT, _BOTTOM - 10)
    for placed in labels.place(wanted, room, blocked, _SIZE, labels.Crowd(crowd)):
        if placed.leader is not None:
            picture.add(canvas.Path(placed.leader, Ink.FAINT, 0.7))
        picture.add(canvas.Words(placed.at, placed.text, Ink.TEXT, _SIZE, placed.align))


def _name(entry: Entry, limit: int) -> str:
    return "baseline" if entry.role is Role.BASELINE else figures.what(entry, limit)


def _strip(picture: Picture, entries: Sequence[Entry]) -> None:
    """Runs of verdicts; where there is no room for each, the shares of a few at a time."""
    top, height = _STRIP
    inks = [_INKS.get(entry.status, Ink.ODD) for entry in entries]
    if len(inks) > _CROWDED:
        _shares(picture, inks)
        return
    wide = (_RIGHT - _LEFT) / max(len(inks), 1)
    at = _LEFT
    for ink, run in itertools.groupby(inks):
        length = sum(1 for _ in run) * wide
        picture.add(canvas.Bar((at, top), length - (0.6 if wide > 4 else 0.0), height, ink))
        at += length


def _shares(picture: Picture, inks: Sequence[Ink]) -> None:
    top, height = _STRIP
    bins = 108
    wide = (_RIGHT - _LEFT) / bins
    for number in range(bins):
        first, last = number * len(inks) // bins, (number + 1) * len(inks) // bins
        part, y = inks[first:last], top
        for ink, _ in _LEGEND:
            share = height * part.count(ink) / max(len(part), 1)
            if share:
                picture.add(canvas.Bar((_LEFT + number * wide, y), wide, share, ink))
            y += share
