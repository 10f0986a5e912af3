"""The four points of a report: best improvement, repeated failures, what to add to 'tried', what
to try next. Nothing else. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from overnight.contracts.status import Status
from overnight.contracts.untrusted import one_line
from overnight.sessions.report import figures
from overnight.sessions.report.directions import NOTHING_KNOWN, next_family
from overnight.sessions.report.entries import FAILED, Entry, Facts
from overnight.sessions.report.gains import Standing, gains
from overnight.sessions.report.patterns import never_helped, patterns

TITLES = ("best improvement", "repeated failures", "add to 'tried'", "try next")
POINT_CHARS = 175  #: two lines beside their title


@dataclass(frozen=True)
class Group:
    """Ideas that belong together: the same knobs, or the same words."""

    name: str
    entries: tuple[Entry, ...]

    def of(self, *statuses: Status) -> list[Entry]:
        """Those with one of these verdicts."""
        return [entry for entry in self.entries if entry.status in statuses]


def tried(facts: Facts) -> list[Group]:
    """All ideas, grouped; what brought nothing first, the most often tried at the top."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in facts.ideas:
        found[entry.group].append(entry)
    groups = [Group(name, tuple(entries)) for name, entries in found.items()]
    return sorted(groups, key=_order)


def _order(group: Group) -> tuple[bool, int, int, str]:
    """What was never kept first, often tried before seldom, one knob before several."""
    first = group.entries[0]
    return bool(group.of(Status.KEEP)), -len(group.entries), len(first.steps), group.name


def points(facts: Facts) -> tuple[str, str, str, str]:
    """The four texts, in the order of TITLES. Each is a line or two."""
    return best_improvement(facts), repeated_failures(facts), to_add(facts), next_point(facts)


def best_improvement(facts: Facts) -> str:
    """The best, not the last."""
    best, baseline = facts.best, facts.baseline
    ideas = figures.count(len(facts.ideas), "idea") + (" that ran" if facts.never_ran else "")
    running = f"; {facts.unfinished} not decided yet" if facts.unfinished else ""
    if best is None or baseline is None or best.metric is None:
        return _no_baseline(facts) + running
    name = facts.metric.name
    if best.id == baseline.id:
        if not facts.ideas:
            return f"none yet: only the baseline ran, {name} {figures.number(best.metric)}{running}"
        return (
            f"none: the baseline's {name} {figures.number(best.metric)} stands after {ideas}"
            f"{_closest(facts)}{running}"
        )
    kept = facts.kept
    largest = max(kept, key=lambda e: e.gain or 0.0)
    share = 100 * (largest.gain or 0.0) / facts.total_gain if facts.total_gain else 0.0
    step = f"largest step {figures.what(largest)} ({largest.id:03d})" + (
        f", {share:.0f} % of it" if 1 <= share <= 100 else ""
    )
    by = f"{figures.count(len(kept), 'kept change')} of {ideas}"
    told = [
        f"{best.id:03d} {name} {figures.pair(baseline.metric, best.metric)}"
        f", {figures.percent(facts)}, by {by}",
        step if len(kept) > 1 else f"it is {figures.what(best)}",
        _how_sure(facts, best),
    ]
    return "; ".join(part for part in told if part) + running


def _no_baseline(facts: Facts) -> str:
    baseline = facts.baseline
    if baseline is None:
        return "none yet: the baseline has not ended"
    reason = f":{baseline.reason}" if baseline.reason else ""
    return f"none: the baseline itself ended as {baseline.status.value}{reason}"


def _closest(facts: Facts) -> str:
    measured = [e for e in facts.ideas if e.gain_on_best is not None]
    if not measured:
        return "; none of them gave a number"
    best = max(measured, key=lambda e: e.gain_on_best or 0.0)
    return f"; closest {best.id:03d} {figures.what(best)}, {figures.change(best.gain_on_best)}"


def _how_sure(facts: Facts, best: Entry) -> str:
    found = next((gain for gain in gains(facts) if gain.entry.id == best.id), None)
    if found is None:
        return ""
    return "one run only" if found.standing is Standing.ONE_RUN else found.words


def repeated_failures(facts: Facts) -> str:
    """Crashes and timeouts that came again; else what never helped."""
    found = patterns(facts)
    failed = sum(pattern.count for pattern in found)
    again = [pattern for pattern in found if pattern.count > 1]
    told = []
    for pattern in again[:2]:
        shared = f", each with {pattern.shared}" if pattern.shared else ""
        told.append(f"{pattern.cause}, {pattern.count} times ({figures.ids(pattern.entries)})"
                    f"{shared}")  # fmt: skip
    rest = failed - sum(pattern.count for pattern in again[:2])
    if told:
        told += [f"{rest} more of other kinds"] if rest else []
        return "; ".join(told)
    if found:
        first = found[0]
        told = [f"none came twice; {failed} in all: {first.cause} ({first.example:03d})"
                + (f" and {failed - 1} more" if failed > 1 else "")]  # fmt: skip
    else:
        told = [f"none: no crash or timeout in {figures.count(len(facts.ideas), 'idea')}"]
    lost = never_helped(facts)
    if lost:
        told.append(figures.names([f"{k} never helped ({len(e)} of {len(e)} lost)"
                                   for k, e in lost], 2))  # fmt: skip
    return "; ".join(told)


def to_add(facts: Facts) -> str:
    """What need not be tried again."""
    if not facts.ideas:
        return "nothing: no idea has ended yet"
    lost = [e for e in facts.ideas if e.status is not Status.KEEP and not e.overtaken]
    again = sum(1 for e in facts.ideas if e.overtaken)
    more = f"; {again} overtaken, worth another try" if again else ""
    if not lost:
        return f"nothing: of {figures.count(len(facts.ideas), 'idea')} none lost{more}"
    told = (
        f"{len(lost)} of {figures.count(len(facts.ideas), 'idea')} brought nothing"
        f" ({_outcomes(lost)}{more})"
    )
    names = {entry.group for entry in lost}
    groups = [g for g in tried(facts) if g.name in names and not g.of(Status.KEEP)]
    if not groups:
        return f"{told}; each of their knobs won with another value"
    begun, left = False, len(groups)
    for group in groups:
        longer = f"{told}{'; ' if begun else ': '}{_group(group)}"
        if len(longer) > POINT_CHARS - len(" and 10000 more"):
            break
        told, begun, left = longer, True, left - 1
    return f"{told} and {left} more" if left else told


def _group(group: Group) -> str:
    """`HEADS 4 -> 8 (worse by 0.09)`; `HEADS (3 times)`."""
    if len(group.entries) > 1:
        return f"{one_line(group.name, 40)} ({len(group.entries)} times)"
    entry = group.entries[0]
    how = entry.status.value
    if entry.status not in FAILED and entry.gain:
        how = f"{'better' if entry.gain > 0 else 'worse'} {abs(entry.gain):.3g}"
    return f"{figures.what(entry, 40)} ({how})"


def outcome(entry: Entry) -> str:
    """What came of it, against its parent: that is what its change did."""
    if entry.status in FAILED or entry.gain is None:
        return entry.status.value
    if entry.objection is not None:
        return f"{figures.change(entry.gain)}, but: {entry.objection.replace('_', ' ')}"
    if entry.gain > 0 and entry.status is not Status.KEEP:
        return f"{figures.change(entry.gain)} than its parent only"
    return figures.change(entry.gain)


def _outcomes(entries: Sequence[Entry]) -> str:
    failed = sum(1 for entry in entries if entry.status in FAILED)
    parts = [f"{len(entries) - failed} discarded" if len(entries) > failed else "",
             f"{failed} failed" if failed else ""]  # fmt: skip
    return ", ".join(part for part in parts if part)


def next_point(facts: Facts) -> str:
    """The next narrow family."""
    if not facts.ideas:
        if facts.baseline is not None and facts.baseline.metric is None:
            return "the unmodified code: mend what ended it (overnight log 1), then run again"
        return "any one idea: nothing was tried that could point somewhere"
    family = next_family(facts)
    return NOTHING_KNOWN if family is None else f"{family.what}: {family.why}"
