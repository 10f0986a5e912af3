"""The parts of a program.md, wherever a person's own headings put them. Pure.

A part begins with a heading (`## Goal`) or a bold start of a line (`**Goal.** The lowest ...`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

TODO = "TODO"
_HEADING = re.compile(r"(#{1,6}[ \t]+)(.+?)[ \t]*#*$")
_BOLD = re.compile(r"\*\*([^*]{1,80})\*\*[ \t]*[.:,]?[ \t]*")
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Part(StrEnum):
    """What a program.md has to say."""

    GOAL = "goal"
    BASELINE = "baseline"
    DIRECTIONS = "directions"
    TRIED = "already tried"
    CONSTRAINTS = "constraints"


#: Looked for in a heading, in this order: `What was tried` is no direction to try.
_WORDS = (
    (Part.TRIED, re.compile(r"\b(tried|history|past experiments)\b")),
    (Part.BASELINE, re.compile(r"\bbaseline\b")),
    (Part.CONSTRAINTS, re.compile(r"\b(constraints?|rules?|limits?)\b")),
    (Part.DIRECTIONS, re.compile(r"\b(directions?|priorit\w+|hypothes[ei]s|ideas?|to try)\b")),
    (Part.GOAL, re.compile(r"\b(goal|objective|aim)\b")),
)


@dataclass(frozen=True)
class Section:
    """One part of the text, or something else that stands under a heading."""

    part: Part | None
    line: int  #: of its heading, from 1
    head: str  #: as it stands there: `## Goal`, or `**Goal.** ` before the words of its line
    body: tuple[str, ...]  #: the lines below it; of a bold start, the rest of its line first
    bold: bool = False

    @property
    def text(self) -> str:
        """What it says, without comments."""
        return _COMMENT.sub("", "\n".join(self.body)).strip()


def sections(text: str) -> list[Section]:
    """*text* in order, nothing left out; what stands before the first heading has none."""
    found: list[tuple[Part | None, int, str, list[str], bool]] = [(None, 1, "", [], False)]
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.fullmatch(line)
        bold = None if fenced or heading else _BOLD.match(line)
        bold_part = _part(bold[1]) if bold else None
        if heading:
            found.append((_part(heading[2]), number, line, [], False))
        elif bold and bold_part is not None:
            rest = line[bold.end() :]
            found.append((bold_part, number, bold[0], [rest], True))
        else:
            found[-1][3].append(line)
    return [Section(part, line, head, tuple(body), bold) for part, line, head, body, bold in found]


def section_of(found: Sequence[Section], part: Part) -> Section | None:
    """The first section of that part that says something, else the first one."""
    own = [section for section in found if section.part is part]
    return next((section for section in own if section.text), own[0] if own else None)


def joined(found: Sequence[Section]) -> str:
    """The text again."""
    lines: list[str] = []
    for section in found:
        body = list(section.body)
        if section.bold:
            lines.append(section.head + (body[0] if body else ""))
            body = body[1:]
        elif section.head:
            lines.append(section.head)
        lines += body
    return "\n".join(lines).rstrip("\n") + "\n"


def _part(heading: str) -> Part | None:
    words = heading.casefold()
    return next((part for part, pattern in _WORDS if pattern.search(words)), None)
