"""What a program.md lacks: parts that are missing or empty, each with its line. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from overnight.sessions.program.parts import TODO, Part, Section, section_of, sections

_NUMBER = re.compile(r"\d")
_LIST = re.compile(r"[ \t]*([-*+]|\d+[.)])([ \t]+|$)")
_TODO = re.compile(rf"\b{TODO}\b")
#: What the constraints must speak of, in a person's own words.
_RULES = (
    ("the budget of an experiment", re.compile(r"\bbudget|\bseconds?\b|\bminutes?\b|\d+ ?s\b|epochs"
                                               r"|\bsteps\b|time_budget")),
    ("which files are frozen", re.compile(r"frozen|read-only|do not (change|edit|modify)|settled"
                                          r"|\bonly\b.*\bedit|\bedit\w*\b.*\bonly\b|editable")),
    ("new packages", re.compile(r"packages?|dependenc|install")),
    ("a limit of VRAM or memory", re.compile(r"\bvram\b|\bmemory\b|\bg(i)?b\b")),
    ("one change an experiment", re.compile(r"\b(one|single)\b[\w ,'-]*\b(change|variable|idea|knob"
                                            r"|thing)\b")),
)  # fmt: skip


@dataclass(frozen=True)
class Gap:
    """Something that is not there. Lines count from 1."""

    line: int
    part: str
    what: str


@dataclass(frozen=True)
class Checked:
    """What `check` found."""

    gaps: tuple[Gap, ...]
    open: tuple[tuple[int, str], ...]  #: lines that still say TODO

    @property
    def ok(self) -> bool:
        """Nothing is missing."""
        return not self.gaps


def check(text: str, metric: str | None) -> Checked:
    """Judge a program. metric: its name, which the goal must speak of; None: not known."""
    found, last = sections(text), max(1, len(text.splitlines()))
    gaps: list[Gap] = []
    for part in Part:
        section = section_of(found, part)
        if section is None:
            gaps.append(
                Gap(last, part.value, f"missing: add a part `## {part.value.capitalize()}`")
            )
        elif not _says_something(section):
            todo = bool(_TODO.search(section.text))
            gaps.append(Gap(section.line, part.value, "only a TODO" if todo else "empty"))
        else:
            gaps += _within(section, metric)
    lines = enumerate(text.splitlines(), start=1)
    todo_lines = tuple((n, line.strip()) for n, line in lines if _TODO.search(line))
    return Checked(tuple(sorted(gaps, key=lambda gap: gap.line)), todo_lines)


def _says_something(section: Section) -> bool:
    """Any line that is no TODO."""
    lines = (_LIST.sub("", line).strip() for line in section.text.splitlines())
    return any(line and not line.startswith(TODO) for line in lines)


def _within(section: Section, metric: str | None) -> list[Gap]:
    words = section.text.casefold()
    if section.part is Part.GOAL and metric is not None and metric.casefold() not in words:
        what = f"does not name the metric {metric}, so nobody can tell when it is reached"
        return [Gap(section.line, section.part.value, what)]
    if section.part is Part.BASELINE and not _NUMBER.search(words):
        return [Gap(section.line, section.part.value, "no figure: `overnight once` measures it")]
    if section.part is Part.CONSTRAINTS:
        return [Gap(section.line, section.part.value, f"nothing on {rule}")
                for rule, pattern in _RULES if not pattern.search(words)]  # fmt: skip
    return []
