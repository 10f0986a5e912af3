"""A report as one HTML file that needs nothing else: no script, no font, no address. Pure.

Whatever a proposer or a candidate wrote is text here: made safe for a terminal first, which also
takes bidi controls and odd line ends, then escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from overnight.contracts.status import Direction, Status
from overnight.contracts.untrusted import one_line
from overnight.sessions.report import figures
from overnight.sessions.report.curve import curve
from overnight.sessions.report.entries import Entry, Facts
from overnight.sessions.report.gains import gains, noise_words
from overnight.sessions.report.knobs import knobs
from overnight.sessions.report.patterns import patterns
from overnight.sessions.report.points import TITLES, outcome, points, tried
from overnight.sessions.report.research import Research
from overnight.sessions.report.style import STYLE
from overnight.sessions.report.summary import places, top_kept
from overnight.sessions.report.svg import svg
from overnight.sessions.report.text import tried_line

MARK = "<!-- overnight report -->"  #: by which we know a page of ours
_KNOBS, _GROUPS, _KEPT = 200, 200, 50
_CELL = 200  #: characters of an idea in a table


def page(facts: Facts, found: Research) -> str:
    """The whole file."""
    name = one_line(facts.metric.name, 64)
    better = "lower" if facts.metric.direction is Direction.MINIMIZE else "higher"
    title = f"{one_line(facts.tag, 60)}: {name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=sub>{escape(_head(facts, better))}</p>",
        _points(facts),
        f"<figure>{svg(curve(facts))}</figure>",
        *_research(facts, found),
        *_tables(facts),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            MARK,
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
            *body,
            "</main></body></html>",
            "",
        ]
    )


def _head(facts: Facts, better: str) -> str:
    running = f", {facts.unfinished} not decided" if facts.unfinished else ""
    told = [f"{name} {count}" for name, count in facts.counts.items() if count]
    return (f"{better} is better; {figures.count(len(facts.ideas), 'idea')} tried{running}"
            + (f": {', '.join(told)}" if told else ""))  # fmt: skip


def _points(facts: Facts) -> str:
    rows = (f"<dt>{escape(title)}</dt><dd>{_safe(text, 600)}</dd>"
            for title, text in zip(TITLES, points(facts), strict=True))  # fmt: skip
    return f"<dl class=points>{''.join(rows)}</dl>"


def _research(facts: Facts, found: Research) -> Iterator[str]:
    yield "<h2>Research summary</h2><div class=cards>"
    rows = [(n, now, then if now != then else "") for n, now, then in found.configuration]
    config = _table(("constant", "best", "was"), rows, numbers=(1, 2))
    nothing = "<p>No constant of it is known by name.</p>"
    yield f"<section><h3>1 Best configuration</h3>{config if rows else nothing}</section>"
    yield f"<section><h3>2 What was learned</h3>{_list(found.learned)}"
    yield f"<h3>3 Not explored yet</h3>{_list(found.next)}</section>"
    yield f"<section><h3>4 Why the best may work</h3><p>{_safe(found.why, 1000)}</p>"
    yield f"<h3>5 Confidence: {escape(found.confidence)}</h3>{_list(found.reasons)}</section></div>"


def _tables(facts: Facts) -> Iterator[str]:
    yield "<h2>Kept</h2>"
    sure = {gain.entry.id: gain for gain in gains(facts)}
    kept = []
    for entry in top_kept(facts, _KEPT):
        gain = sure.get(entry.id)
        size = f"{gain.gain:.3g}" if gain and gain.gain is not None else ""
        kept.append((_id(entry), figures.number(entry.metric), size, figures.what(entry, _CELL),
                     gain.words if gain else "the baseline"))  # fmt: skip
    name = one_line(facts.metric.name, 30)
    yield _table(("id", name, "gain", "what", "how sure"), kept, numbers=(0, 1, 2))
    yield f"<p class=sub>{escape(noise_words(facts))}</p>"
    yield "<h2>Crashes and timeouts</h2>"
    failed = [(str(p.count), p.cause, f"{p.example:03d}", p.shared) for p in patterns(facts)[:50]]
    yield _table(("times", "cause", "e.g.", "each with"), failed, numbers=(0, 2), none="none")
    yield "<h2>Knobs</h2>"
    yield _table(("knob", "in the best", "values", "times", "kept", "at best"), _knobs(facts),
                 numbers=(1, 3, 4), none="none is known by name")  # fmt: skip
    yield "<h2>Already tried</h2>"
    groups = tried(facts)
    more = [f"and {len(groups) - _GROUPS} groups more"] if len(groups) > _GROUPS else []
    yield _list([tried_line(group) for group in groups[:_GROUPS]] + more)
    yield f"<h2>Where it ran</h2>{_list(_places(facts))}"
    yield f"<details><summary>All {len(facts.entries)} experiments</summary>{_all(facts)}</details>"


def _knobs(facts: Facts) -> Iterator[Sequence[str]]:
    for knob in [k for k in knobs(facts).values() if k.trials][:_KNOBS]:
        best = knob.best
        told = "" if best is None else f"{outcome(best.entry)} ({best.entry.id:03d})"
        values = figures.names([figures.value(one) for one in knob.values], 8)
        yield (knob.name, figures.value(knob.here) if knob.here is not None else "", values,
               str(len(knob.trials)), str(knob.kept), told)  # fmt: skip


def _places(facts: Facts) -> list[str]:
    found = places(facts)
    peak = found["peak_vram_mb"]
    told = [f"hardware: {figures.names(found['hardware']) or 'not known'}",
            f"isolation: {figures.names(found['isolation']) or 'not known'}"]  # fmt: skip
    return told + ([f"peak VRAM: {peak / 1024:.1f} GB"] if peak else [])


def _all(facts: Facts) -> str:
    rows = (
        (_id(e), _verdict(e), figures.number(e.metric), outcome(e) if e.is_idea else "",
         f"{e.runtime_s:.1f} s" if e.runtime_s is not None else "", one_line(e.hypothesis, _CELL))
        for e in facts.entries
    )  # fmt: skip
    heads = ("id", "verdict", one_line(facts.metric.name, 30), "against its parent", "took", "idea")
    return _table(heads, rows, numbers=(0, 2, 4))


def _id(entry: Entry) -> str:
    return f"{entry.id:03d}"


def _verdict(entry: Entry) -> str:
    if entry.status is Status.KEEP and not entry.is_idea:
        return entry.role.value
    return entry.status.value + (f": {entry.reason}" if entry.reason else "")


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (),
    none: str = "nothing",
) -> str:  # fmt: skip
    classes = [" class=n" if at in numbers else "" for at in range(len(heads))]
    top = "".join(f"<th{c}>{_safe(h, 64)}</th>" for c, h in zip(classes, heads, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{c}>{_safe(cell, 300)}</td>"
                         for c, cell in zip(classes, row, strict=True)) + "</tr>"
        for row in rows
    ]  # fmt: skip
    if not lines:
        return f"<p>{escape(none)}</p>"
    return f"<div class=wide><table><tr>{top}</tr>\n" + "\n".join(lines) + "</table></div>"


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{_safe(text, 1200)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else "<p>nothing</p>"


def _safe(text: str, limit: int) -> str:
    return escape(one_line(text, limit))
