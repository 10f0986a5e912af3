"""The research summary: best configuration, what was learned, what is unexplored, why the best may
work, how sure that is. Pure; inference is called inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from overnight.contracts.status import Status
from overnight.contracts.untrusted import one_line
from overnight.sessions.report import figures
from overnight.sessions.report.directions import texts, unexplored
from overnight.sessions.report.entries import Entry, Facts
from overnight.sessions.report.gains import Standing, gains, noise_words
from overnight.sessions.report.knobs import Knob, knobs, near

_ENOUGH, _MANY = 20, 50  #: ideas
_MAINLY = 40  #: percent of the gain by one change
_THIN = "too few ideas ended to say anything about the search space"


@dataclass(frozen=True, kw_only=True)
class Research:
    """The five parts."""

    configuration: list[tuple[str, str, str]]  #: knob, value in the best, value in the baseline
    learned: list[str]
    next: list[str]
    why: str
    confidence: str  #: none, low, medium or high
    reasons: list[str]


def research(facts: Facts, constants: dict[str, tuple[str, str]] | None = None) -> Research:
    """All five. *constants*: name -> its text in the best and in the baseline, from the trees."""
    confidence, reasons = _confidence(facts)
    nothing = "no direction is left that the ledger knows of; the next idea needs new code"
    if not facts.ideas:
        nothing = "all of them: nothing was tried yet"
    return Research(
        configuration=_configuration(facts, constants or {}),
        learned=_learned(facts),
        next=texts(unexplored(facts)) or [nothing],
        why=_why(facts),
        confidence=confidence,
        reasons=reasons,
    )


def _configuration(
    facts: Facts, constants: dict[str, tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Changed ones first. What stands in the code wins over what a proposer wrote down."""
    found = {name: tuple(map(_short, pair)) for name, pair in constants.items()}
    before: dict[str, str] = {}
    for entry in facts.kept:
        for step in entry.steps:
            before.setdefault(step.knob, figures.value(step.before))
    for name, now in facts.knobs.items():
        shown = figures.value(now)
        found.setdefault(name, (shown, before.get(name, shown)))
    rows = [(name, now, then) for name, (now, then) in found.items()]
    return sorted(rows, key=lambda row: (row[1] == row[2], row[0]))


def _short(text: str) -> str:
    return one_line(text, 40)


def _learned(facts: Facts) -> list[str]:
    """Two or three points, each with its figures; one honest line where the data is thin."""
    if len(facts.ideas) < 2:
        return [_THIN]
    known = knobs(facts)
    found = [_strongest(known), _flat(facts, known), _walls(known), _in_vain(known)]
    told = [line for line in found if line]
    if told:
        return told[:3]
    measured = [e for e in facts.ideas if e.gain_on_best is not None]
    if not measured:
        return ["every idea failed before it gave a number: nothing is known of the search space"]
    better = sum(1 for e in measured if (e.gain_on_best or 0.0) > 0)
    return [f"{better} of {len(measured)} ideas with a number were better than the best of their "
            "time; which knob does what is not known, since none was moved by itself"]  # fmt: skip


def _strongest(known: Mapping[str, Knob]) -> str:
    knob = max(known.values(), key=lambda k: k.swing, default=None)
    if knob is None or not knob.swing:
        return ""
    alone = [t for t in knob.alone if t.entry.gain is not None]
    alone.sort(key=lambda t: -(t.entry.gain or 0.0))
    ends = [alone[0], alone[-1]] if len(alone) > 1 else alone
    told = [f"{figures.step(t.step)} {figures.change(t.entry.gain)} ({t.entry.id:03d})"
            for t in ends]  # fmt: skip
    return f"{knob.name} moved the metric most: {'; '.join(told)}"


def _flat(facts: Facts, known: Mapping[str, Knob]) -> str:
    """Knobs that hardly matter."""
    bound = near(facts)
    flat = [k for k in known.values() if k.alone and 0 < k.swing <= bound]
    if not flat or not bound:
        return ""
    most = figures.number(max(k.swing for k in flat))
    names = figures.names([k.name for k in flat], 4)
    if len(flat) == 1:
        return f"{names} hardly matters: by itself it moved the metric by {most} at most"
    return f"{names} hardly matter: none moved the metric by more than {most} by itself"


def _walls(known: Mapping[str, Knob]) -> str:
    """Values that fail."""
    walls = []
    for knob in known.values():
        failed = [trial for trial in knob.failed if trial.alone]
        if failed:
            values = dict.fromkeys(figures.value(t.step.after) for t in failed)
            walls.append(f"{knob.name} at {figures.names(list(values), 3)} "
                         f"({failed[0].entry.status.value}, {failed[0].entry.id:03d})")  # fmt: skip
    return f"fails: {figures.names(walls, 3)}" if walls else ""


def _in_vain(known: Mapping[str, Knob]) -> str:
    lost = [k for k in known.values() if len(k.alone) >= 2 and not k.kept]
    if not lost:
        return ""
    told = [f"{k.name} ({len(k.alone)} values)" for k in lost]
    return f"no value that was tried helped: {figures.names(told, 4)}"


def _why(facts: Facts) -> str:
    """A clear hypothesis, called what it is."""
    kept = [e for e in facts.kept if e.gain is not None and e.gain > 0]
    total = facts.total_gain
    if not kept or not total or total <= 0:
        return "nothing was better than the baseline, so there is nothing to explain"
    first = max(kept, key=lambda e: e.gain or 0.0)
    share = 100 * (first.gain or 0.0) / total
    reason = _reason(first)
    because = f"; its proposer's reason: {reason}" if reason else "; no reason was given"
    test = "run the best again with that change alone taken back"
    name = f"{figures.what(first)} ({first.id:03d})"
    told = f"the best works mainly because of {name}, {min(share, 100):.0f} % of the gain"
    if share < _MAINLY and len(kept) > 1:
        told = (f"the best works through {len(kept)} small steps, none of which decides; "
                f"the largest is {name}, {share:.0f} % of the gain")  # fmt: skip
    return f"Inference, not tested: {told}{because}. To test it: {test}."


def _reason(entry: Entry) -> str:
    _, _, why = one_line(entry.hypothesis, 1000).partition(": ")
    return one_line(why, 160)


def _confidence(facts: Facts) -> tuple[str, list[str]]:
    """How near to the optimum this is: a word, and what it rests on."""
    tried, best = len(facts.ideas), facts.best
    since = _since_last_gain(facts)
    known = knobs(facts)
    untouched = sum(1 for knob in known.values() if not knob.trials)
    reasons = [f"{figures.count(tried, 'idea')} tried", noise_words(facts)]
    if tried:
        reasons.append(since[1])
    if known:
        reasons.append(f"{len(known) - untouched} of {len(known)} knobs moved at least once")
    standing = next((g.standing for g in gains(facts) if best and g.entry.id == best.id), None)
    if standing is not None:
        sure = standing is Standing.HELD
        reasons.append("the best was re-run and held" if sure else "the best was run once")
    if best is None or not tried:
        return "none", reasons
    settled = since[0] >= max(10, tried // 3)
    sure = facts.noise is not None and standing is Standing.HELD
    if sure and tried >= _MANY and settled and untouched * 4 <= len(known):
        return "high", reasons
    if tried >= _ENOUGH and settled and standing is not Standing.FELL:
        return "medium", reasons
    return "low", reasons


def _since_last_gain(facts: Facts) -> tuple[int, str]:
    """How many ideas ended after the last one that was kept."""
    places = [n for n, e in enumerate(facts.ideas, start=1) if e.status is Status.KEEP]
    if not places:
        return len(facts.ideas), f"no gain in {figures.count(len(facts.ideas), 'idea')}"
    since = len(facts.ideas) - places[-1]
    if not since:
        return 0, "the very last idea was still a gain: it has not levelled off"
    return since, f"{figures.count(since, 'idea')} since the last gain"
