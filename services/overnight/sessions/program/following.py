"""The next program from what a session found: baseline, directions and tried ideas anew, the
person's goal and constraints as they stand. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from overnight.contracts.untrusted import one_line
from overnight.sessions.program.parts import TODO, Part, Section, joined, section_of, sections
from overnight.sessions.program.template import gigabytes
from overnight.sessions.report import figures
from overnight.sessions.report.directions import next_family, unexplored
from overnight.sessions.report.entries import Facts
from overnight.sessions.report.gains import gains
from overnight.sessions.report.patterns import patterns
from overnight.sessions.report.points import Group, tried
from overnight.sessions.report.summary import values_tried

_MARK = re.compile(r"\n?<!-- overnight program next: ([0-9a-f]{64}) -->\n?\Z")
_GROUPS, _VALUES = 40, 3
_NOTHING_YET = "Nothing yet."


def following(text: str, facts: Facts) -> str:
    """program.next.md for *text*, a program.md: the same headings, its facts brought up to date."""
    found = sections(_MARK.sub("\n", text))
    new = {
        Part.BASELINE: baseline_lines(facts),
        Part.DIRECTIONS: _directions(facts, section_of(found, Part.DIRECTIONS)),
        Part.TRIED: _tried(facts, section_of(found, Part.TRIED)),
    }
    result = []
    for section in found:
        lines = new.pop(section.part, None) if section.part is not None else None
        result.append(section if lines is None else _with(section, lines))
    for part, lines in new.items():  # a program that had no such part has one now
        result.append(Section(part, 0, f"\n## {part.value.capitalize()}", ("", *lines, "")))
    return marked(joined(result))


def marked(text: str) -> str:
    """With a line at its end by which an unedited one is known."""
    return f"{text}\n<!-- overnight program next: {_digest(text)} -->\n"


def is_unedited(text: str) -> bool:
    """Is it ours, as we wrote it?"""
    mark = _MARK.search(text)
    return mark is not None and _digest(text[: mark.start()]) == mark[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _with(section: Section, lines: Sequence[str]) -> Section:
    body = (*lines, "") if section.bold else ("", *lines, "")
    return Section(section.part, section.line, section.head, body, section.bold)


def baseline_lines(facts: Facts) -> list[str]:
    """The best, from which the next session should begin."""
    best, first = facts.best, facts.baseline
    if best is None or first is None or best.metric is None:
        return [f"{TODO}: session {one_line(facts.tag, 60)} has no baseline; `overnight once` "
                "measures one."]  # fmt: skip
    told = [f"`{facts.metric.name}` {figures.number(best.metric)}"]
    if best.peak_vram_mb is not None:
        told.append(f"peak VRAM {gigabytes(best.peak_vram_mb)}")
    where = f"experiment {best.id:03d} of session {one_line(facts.tag, 60)}"
    if best.id == first.id:
        return [f"{', '.join(told)}; {where}: nothing was better."]
    sure = next((gain.words for gain in gains(facts) if gain.entry.id == best.id), "")
    return [
        f"{', '.join(told)}; {where}, {figures.percent(facts)} {figures.number(first.metric)}"
        f" ({sure}). `overnight apply best` brings its code home."
    ]


def _directions(facts: Facts, old: Section | None) -> list[str]:
    """The next narrow family, what nobody looked at, then what the person had written."""
    family = next_family(facts)
    found = [f"{_quoted(one.what)}: {one.why}"
             for one in [*([family] if family else []), *unexplored(facts)]]  # fmt: skip
    items = list(dict.fromkeys(found)) or [
        f"{TODO}: the ledger points nowhere; what would you change next, and why?"
    ]
    carried = [] if old is None else [_item(line) for line in _items(old)]
    lines = [f"{number}. {item}" for number, item in enumerate([*items, *carried], start=1)]
    if carried:
        lines += ["", f"From {len(items) + 1} on: as program.md had them. Strike what is done; what"
                  " failed again and again sinks."]  # fmt: skip
    return lines


def _items(section: Section) -> list[str]:
    """A person's list, each with the lines that belong to it joined."""
    items: list[str] = []
    for line in section.text.splitlines():
        if re.match(r"[ \t]*([-*+]|\d+[.)])[ \t]+", line):
            items.append(line.strip())
        elif items and line.startswith((" ", "\t")) and line.strip():
            items[-1] += f" {line.strip()}"
    return [item for item in items if TODO not in item]


def _item(line: str) -> str:
    return re.sub(r"^([-*+]|\d+[.)])[ \t]+", "", line)


def _tried(facts: Facts, old: Section | None) -> list[str]:
    """What stood there, then this session's groups, then what to keep away from."""
    before = [line for line in (old.text.splitlines() if old else [])
              if line.strip() and line.strip() != _NOTHING_YET and TODO not in line]  # fmt: skip
    groups = tried(facts)
    new = [f"- {tried_line(group)} ({one_line(facts.tag, 60)})" for group in groups[:_GROUPS]]
    if len(groups) > _GROUPS:
        new.append(f"- and {len(groups) - _GROUPS} groups more, in experiments.jsonl of "
                   f"{one_line(facts.tag, 60)}")  # fmt: skip
    for pattern in patterns(facts)[:5]:
        shared = f", each with {pattern.shared}" if pattern.shared else ""
        times = figures.count(pattern.count, "time")
        new.append(f"- Avoid: {_quoted(pattern.cause)} {times} (e.g. {pattern.example:03d}){shared}"
                   f" ({one_line(facts.tag, 60)})")  # fmt: skip
    lines = [*before, *(line for line in new if line not in before)]
    return lines or [_NOTHING_YET]


def tried_line(group: Group) -> str:
    """A group's values and what came of each."""
    told = "; ".join(_quoted(values_tried(entry)) for entry in group.entries[:_VALUES])
    more = len(group.entries) - _VALUES
    return told + (f"; {more} more of its kind" if more > 0 else "")


def _quoted(text: str) -> str:
    """What others named stands as code: data, not a person's words."""
    return f"`{one_line(text, 300).replace('`', chr(39))}`"
