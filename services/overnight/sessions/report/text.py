"""A report as lines for a terminal. Pure: values in, lines out; the caller folds and colours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from overnight.contracts.status import Direction, Status
from overnight.contracts.untrusted import one_line
from overnight.sessions.report import figures
from overnight.sessions.report.entries import Facts
from overnight.sessions.report.gains import gains, noise_words
from overnight.sessions.report.knobs import Knob, knobs
from overnight.sessions.report.patterns import patterns
from overnight.sessions.report.points import TITLES, Group, points, tried
from overnight.sessions.report.research import Research
from overnight.sessions.report.summary import places, top_kept, values_tried

_KNOBS, _GROUPS, _VALUES, _FAILURES = 20, 25, 4, 8


@dataclass(frozen=True)
class Line:
    """One line. title: it begins a part."""

    text: str
    title: bool = False


def point_lines(facts: Facts) -> list[Line]:
    """The four points and nothing else."""
    return [Line(f"{title:<18} {text}") for title, text in zip(TITLES, points(facts), strict=True)]


def full_lines(facts: Facts, found: Research) -> list[Line]:
    """The four points, the research summary, and what they rest on."""
    better = "lower" if facts.metric.direction is Direction.MINIMIZE else "higher"
    head = f"session {facts.tag}: {facts.metric.name}, {better} is better"
    unrun = f", {facts.never_ran} never ran" if facts.never_ran else ""
    lines = [Line(f"{head}; {figures.count(len(facts.ideas), 'idea')} tried{unrun}", title=True)]
    lines += [Line(f"  {line.text}") for line in point_lines(facts)]
    for part in (_research(found), _kept(facts), _counts(facts), _failures(facts), _knobs(facts),
                 _tried(facts), _places(facts)):  # fmt: skip
        lines += [Line(""), *part]
    return lines


def _research(found: Research) -> Iterator[Line]:
    yield Line("1 best configuration", title=True)
    if not found.configuration:
        yield Line("  no constant of it is known by name: `overnight diff best` shows the code")
    changed = [row for row in found.configuration if row[1] != row[2]]
    for name, now, then in changed:
        yield Line(f"  * {name} = {now}   was {then}")
    same = [f"{name} {now}" for name, now, then in found.configuration if now == then]
    if same:
        yield Line(f"  as in the baseline: {', '.join(same)}")
    yield Line("2 what was learned", title=True)
    yield from (Line(f"  - {text}") for text in found.learned)
    yield Line("3 not explored yet", title=True)
    yield from (Line(f"  - {text}") for text in found.next)
    yield Line("4 why the best may work", title=True)
    yield Line(f"  {found.why}")
    yield Line(f"5 confidence that this is near the optimum: {found.confidence}", title=True)
    yield Line(f"  {'; '.join(found.reasons)}")


def _kept(facts: Facts) -> Iterator[Line]:
    yield Line("kept, best first", title=True)
    sure = {gain.entry.id: gain for gain in gains(facts)}
    best = top_kept(facts)
    name = one_line(facts.metric.name, 10)
    yield Line(f"  id   {name:>10}  {'gain':>8}  {'what':<36}  how sure" if best else "  nothing")
    for entry in best:
        found = sure.get(entry.id)
        gain = f"{found.gain:.3g}" if found and found.gain is not None else ""
        told = found.words if found else "the baseline"
        yield Line(f"  {entry.id:03d}  {figures.number(entry.metric):>10}  {gain:>8}"
                   f"  {figures.what(entry, 36):<36}  {told}")  # fmt: skip
    yield Line(f"  {noise_words(facts)}")


def _counts(facts: Facts) -> Iterator[Line]:
    told = [f"{name} {count}" for name, count in facts.counts.items() if count]
    yield Line("by verdict", title=True)
    yield Line(f"  {', '.join(told) or 'no idea is decided yet'}")


def _failures(facts: Facts) -> Iterator[Line]:
    yield Line("crashes and timeouts", title=True)
    found = patterns(facts)
    for pattern in found[:_FAILURES]:
        shared = f"; each with {pattern.shared}" if pattern.shared else ""
        yield Line(f"  {pattern.count:>4} x {pattern.cause}   e.g. {pattern.example:03d}{shared}")
    rest = sum(pattern.count for pattern in found[_FAILURES:])
    if rest:
        yield Line(f"  {rest:>4} more of {len(found) - _FAILURES} other kinds")
    if not found:
        yield Line("  none")


def _knobs(facts: Facts) -> Iterator[Line]:
    yield Line("knobs", title=True)
    found = [knob for knob in knobs(facts).values() if knob.trials]
    for knob in found[:_KNOBS]:
        yield Line(f"  {knob.name:<16} {_knob(knob)}")
    if len(found) > _KNOBS:
        yield Line(f"  and {len(found) - _KNOBS} more")
    if not found:
        yield Line("  none is known by name")


def _knob(knob: Knob) -> str:
    values = figures.names([figures.value(one) for one in knob.values], 6)
    best = knob.best
    told = f"values {values}; {figures.count(len(knob.trials), 'time')}, {knob.kept} kept"
    if best is None:
        return told
    how = "" if best.alone else " with others"
    return f"{told}; at best {figures.change(best.entry.gain)}{how} ({best.entry.id:03d})"


def _tried(facts: Facts) -> Iterator[Line]:
    yield Line("already tried", title=True)
    groups = tried(facts)
    for group in groups[:_GROUPS]:
        yield Line(f"  {tried_line(group)}")
    if len(groups) > _GROUPS:
        yield Line(f"  and {len(groups) - _GROUPS} groups more: overnight results")
    if not groups:
        yield Line("  nothing")


def tried_line(group: Group) -> str:
    """One group: what of it was kept, discarded, crashed."""
    kept = [e for e in group.entries if e.status is Status.KEEP]
    others = [e for e in group.entries if e.status is not Status.KEEP]
    told = "; ".join(values_tried(entry) for entry in [*kept, *others][:_VALUES])
    more = len(group.entries) - _VALUES
    if len(group.entries) == 1:
        return told
    return f"{group.name}: {told}" + (f"; {more} more" if more > 0 else "")


def _places(facts: Facts) -> Iterator[Line]:
    found = places(facts)
    yield Line("where it ran", title=True)
    for label, values in (("hardware", found["hardware"]), ("isolation", found["isolation"])):
        told = figures.names([one_line(value, 80) for value in values])
        yield Line(f"  {label:<9}  {told or 'not known'}")
    peak = found["peak_vram_mb"]
    if peak:
        yield Line(f"  peak VRAM  {peak / 1024:.1f} GB")
