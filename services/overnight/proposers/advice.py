"""What a person's words say about constants: leave alone, try only, prefer, set to a value.

Only plain words count. A text that names no constant changes nothing, and that is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from overnight.contracts.tunable import parts
from overnight.contracts.untrusted import one_line
from overnight.proposers.constants import Value
from overnight.proposers.names import Kind
from overnight.proposers.past import Setting
from overnight.proposers.space import Knob, Space

MAX_CHARACTERS = 4000  #: of one text that are read

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_WORD = r"--?[A-Za-z][\w-]*|[A-Za-z_](?:[\w']|\.(?=\w)|-(?=[A-Za-z]))*(?:\[\d+\])?"
_TOKEN = re.compile(rf"{_NUMBER}|{_WORD}|->|=>|:=|[→\"\n]|[^\s\w]")
_ONLY_BUT = re.compile(
    r"\bnothing (?:but|except|besides|other than)\b|"
    r"\b(?:don'?t|do not|never)\b[^.;\n]{0,60}?\b(?:any|anything|everything|all)\b[^.;\n]{0,30}?"
    r"\b(?:but|except|besides|other than)\b",
    re.I,
)
_ALL_BUT = re.compile(
    r"\b(?:all|everything|anything)\b[^.;\n]{0,30}?\b(?:but|except|besides|other than)\b", re.I
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AVOID = _words("""
    don't dont not never leave keep avoid without freeze fix stop no skip except ignore
    exclude
""")
_ONLY = frozenset({"only", "just", "solely", "focus"})
_VERBS = _words("""
    try use prefer raise increase lower decrease reduce tune explore test set move
    change double halve
""")
_BREAKS = frozenset({".", ";", "\n", "but", "instead", "rather", "however", "then", "!"})
_UP = _words("""
    larger bigger higher more increase raise up longer deeper wider greater double
""")
_DOWN = _words("""
    smaller lower less fewer decrease reduce down shorter shallower narrower halve
""")
_ALL_AGAIN = re.compile(r"\b(?:everything|anything|all(?: constants)?) (?:again|goes)\b", re.I)
_REJECTION = re.compile(r"experiment \d+ was rejected\b")
_KINDS = {
    "learning rate": Kind.LR, "learning rates": Kind.LR, "step size": Kind.LR,
    "layers": Kind.DEPTH, "deeper": Kind.DEPTH, "shallower": Kind.DEPTH, "depth": Kind.DEPTH,
    "width": Kind.WIDTH, "wider": Kind.WIDTH, "narrower": Kind.WIDTH, "batches": Kind.BATCH,
    "batch": Kind.BATCH, "context": Kind.LENGTH, "regularization": Kind.DECAY,
}  # fmt: skip
_VAGUE = frozenset({"SIZE", "NUM", "MAX", "MIN", "RATE", "STEPS", "N", "TOTAL", "SCALE", "TYPE"})


class _Mode(StrEnum):
    PREFER = "prefer"
    AVOID = "avoid"
    ONLY = "only"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What all steering so far says, the newest text winning."""

    avoid: frozenset[str] = frozenset()  #: keys of knobs that are left alone
    only: frozenset[str] = frozenset()  #: empty: all
    preferred: dict[str, int] = field(default_factory=dict)  #: key -> +1, -1 or 0: either way
    note: str = ""  #: one line for the analysis

    def restrict(self, space: Space) -> Space:
        """The space in which the rest can't move."""
        if not self.avoid and not self.only:
            return space
        knobs = tuple(
            knob if self._may_move(knob.key) else replace(knob, values=(knob.value,), stride=1)
            for knob in space.knobs
        )
        return replace(space, knobs=knobs)

    def _may_move(self, key: str) -> bool:
        return key not in self.avoid and (not self.only or key in self.only)


def steering(texts: Sequence[str], space: Space) -> Advice:
    """Read *texts*, newest last."""
    avoid: set[str] = set()
    only: set[str] = set()
    preferred: dict[str, int] = {}
    unread = ""
    for text in texts:
        if _REJECTION.match(text):
            continue  # why one idea was refused is no advice about a constant
        if _ALL_AGAIN.search(text):
            avoid, only, preferred = set(), set(), {}
            unread = ""
            continue
        said = list(_mentions(text[:MAX_CHARACTERS], space))
        unread = "" if said else one_line(text, 100)
        if said:
            preferred = {}
        if limits := {key for key, mode, _ in said if mode is _Mode.ONLY}:
            only, avoid = limits, avoid - limits
        for key, mode, direction in said:
            if mode is _Mode.AVOID:
                avoid.add(key)
                only.discard(key)
            elif mode is _Mode.PREFER:
                avoid.discard(key)
                preferred[key] = direction
                only |= {key} if only else set()
    found = Advice(avoid=frozenset(avoid), only=frozenset(only), preferred=preferred)
    return replace(found, note=_note(found, space, unread))


def _note(found: Advice, space: Space, unread: str) -> str:
    names = {knob.key: knob.name for knob in space.knobs}
    said = [
        f"{how} {', '.join(sorted(names[key] for key in keys if key in names))}"
        for how, keys in (
            ("only", found.only),
            ("leaves alone", found.avoid),
            ("prefers", found.preferred),
        )
        if keys
    ]
    if unread:
        said.append(f'noted "{unread}", which names no constant that it tunes')
    return f"Steered: search {'; '.join(said)}." if said else ""


def _mentions(text: str, space: Space) -> Iterator[tuple[str, _Mode, int]]:
    """(key, mode, direction) of each constant that is named, in order."""
    text = _ALL_BUT.sub(" except ", _ONLY_BUT.sub(" only ", text.replace("\u2019", "'")))
    mode, direction, before = _Mode.PREFER, 0, ""
    waiting: list[str] = []  # named before a direction was: "LR higher"
    tokens = [match[0] for match in _TOKEN.finditer(text)]
    for index, token in enumerate(tokens):
        word = token.lower()
        listed = before in (",", "and", "or")
        if word in _BREAKS or (listed and word in _VERBS | _AVOID | _ONLY | _UP | _DOWN):
            yield from ((key, mode, 0) for key in waiting)
            mode, direction, waiting = _Mode.PREFER, 0, []
        if word in _ONLY:
            mode = _Mode.ONLY
        elif word in _AVOID:
            mode = _Mode.AVOID
        if word in _UP | _DOWN:
            direction = 1 if word in _UP else -1
            yield from ((key, mode, direction) for key in waiting)
            waiting = []
        for knob in _named(tokens, index, space):
            if direction:
                yield knob.key, mode, direction
            else:
                waiting.append(knob.key)
        before = word
    yield from ((key, mode, 0) for key in waiting)


def _named(tokens: list[str], index: int, space: Space) -> list[Knob]:
    """The knobs that the word at *index* names; exact names before kinds."""
    token = tokens[index]
    word = token.lower()
    exact = [knob for knob in space.knobs if token in (knob.name, knob.word)]
    if exact or not token[0].isalpha():
        return exact
    pair = f"{word} {tokens[index + 1].lower()}" if index + 1 < len(tokens) else word
    kind = _KINDS.get(pair, _KINDS.get(word))
    return [
        knob
        for knob in space.knobs
        if (kind is not None and knob.kind is kind) or _is_plainly(word, knob)
    ]


def _is_plainly(word: str, knob: Knob) -> bool:
    """Is it a constant's name in other letters, or the telling part of it: `batch`?"""
    if word in (knob.name.lower(), knob.word.lower()):
        return knob.kind is not Kind.OTHER or "_" in word or len(word) >= 5
    return len(word) >= 4 and word.upper() in parts(knob.word) and word.upper() not in _VAGUE


# --- a hypothesis that names constants and values ----------------------------------------------


def starting(text: str, space: Space) -> Setting | None:
    """The setting that *text* asks for, None when it names no constant with another value."""
    setting = space.setting
    for knob, value in _assigned(text[:MAX_CHARACTERS], space):
        setting[knob.key] = value
    changed = any(setting[knob.key] != knob.value for knob in space.knobs)
    return setting if changed else None


def _assigned(text: str, space: Space) -> Iterator[tuple[Knob, Value]]:
    tokens = [match[0] for match in _TOKEN.finditer(text.replace("\u2019", "'"))]
    for index in range(len(tokens)):
        knobs = _named(tokens, index, space)
        if len(knobs) != 1 or _is_denied(tokens, index):
            continue
        (knob,) = knobs
        skipped = 2 if f"{tokens[index]} {''.join(tokens[index + 1 : index + 2])}".lower() in (
            _KINDS) else 1  # fmt: skip
        switch = _switched(knob, tokens, index)
        after = tokens[index + skipped : index + skipped + 8]
        verb = index > 0 and tokens[index - 1].lower() in ("set", "use", "try")
        value = _value_after(after, knob, verb) if switch is None else switch
        if value is not None:
            yield knob, value


_TO = frozenset({"=", ":=", ":", "->", "=>", "→", "to", "is", "at", "be", "of"})
_ARROWS = frozenset({"->", "=>", "→", "to"})
_FILLERS = frozenset({"from", "should", "must", "up", "down", '"', "'"})


def _value_after(after: list[str], knob: Knob, verb: bool) -> Value | None:
    """`= 3`, `to 3`, `2 -> 3`, `from 2 to 3`; with *verb*, as in `set LR 3`, a value alone."""
    words = [word for word in after if word.lower() not in _FILLERS]
    if len(words) >= 3 and words[1].lower() in _ARROWS:
        second = _read_value(words[2], knob)
        if second is not None and _read_value(words[0], knob) is not None:
            return second
    if words and words[0].lower() in _TO:
        # `LR = 1e-3 -> 3e-3` says the second one.
        rest = words[2:] if len(words) > 1 and words[1].lower() in _TO else words[1:]
        if len(rest) >= 3 and rest[1] in _ARROWS and _read_value(rest[2], knob) is not None:
            return _read_value(rest[2], knob)
        return _read_value(rest[0], knob) if rest else None
    return _read_value(words[0], knob) if verb and words else None


def _switched(knob: Knob, tokens: list[str], index: int) -> bool | None:
    if not isinstance(knob.value, bool):
        return None
    before = " ".join(tokens[max(0, index - 2) : index]).lower()
    if re.search(r"(?:enable|turn on|switch on)$", before):
        return True
    return False if re.search(r"(?:disable|turn off|switch off)$", before) else None


def _is_denied(tokens: list[str], index: int) -> bool:
    for token in reversed(tokens[max(0, index - 6) : index]):
        word = token.lower()
        if word in _BREAKS or word == ",":
            return False
        if word in ("don't", "dont", "not", "never", "no", "without"):
            return True
    return False


def _read_value(text: str, knob: Knob) -> Value | None:
    """*text* as a value that the knob's literal could become."""
    old = knob.value
    if isinstance(old, bool):
        words = {"true": True, "on": True, "false": False, "off": False}
        return words.get(text.lower())
    if isinstance(old, str):
        return next((value for value in knob.values if value == text), None)
    if not re.fullmatch(_NUMBER, text):
        return None
    number = float(text.replace("_", ""))
    if not math.isfinite(number) or (number < 0) is not (old < 0):
        return None
    if isinstance(old, int):
        return int(number) if number.is_integer() else None
    return number
