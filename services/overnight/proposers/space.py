"""What may be tried: for each tunable constant a finite ladder of values, inferred from its
value, its name and the comment beside it.

Ladders are finite so that a setting can be recognised when it comes again, and round so that a
diff reads well. What values go together can't be known here: a crash tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from overnight.contracts.errors import ProposerError
from overnight.contracts.tunable import is_fixed_elsewhere, is_never_tuned
from overnight.proposers import constants
from overnight.proposers.constants import Constant, Source, Value
from overnight.proposers.names import LORE, Kind, kind_of
from overnight.proposers.places import Form

MAX_KNOBS = 64  #: more can't be searched in a night; the most promising stay
MAX_FILE_CHARACTERS = 1024**2  #: what a proposal may carry
MAX_VALUES = 64  #: of one knob
STATED_PROMISE = 62.0  #: at least, when a comment gives the range: somebody meant it to be tuned

_UNTELLING = (Kind.OTHER, Kind.SWITCH, Kind.CHOICE)
_FINE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  # each about a quarter more
_COARSE = (1.0, 2.0, 3.0, 5.0)
_SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_BETAS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995)
_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"(?<![\w.])({_NUMBER})\s*\.\.\.?\s*({_NUMBER})(?![\w.])")
_WORD = r"[\w.+'\"-]+"
_OR = re.compile(rf"{_WORD}(?:,\s*{_WORD})*,?\s+or\s+{_WORD}")
_BOUND = re.compile(rf"\bat (most|least) ({_NUMBER})(?![\w.])")
_FIXED = re.compile(r"(?:fixed|frozen|do not (?:change|tune)|don't (?:change|tune))\b", re.I)


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One constant that is tuned."""

    key: str  #: "train.py:LR"
    path: str
    name: str  #: unique in its file, as a person would write it: LR, Config.lr, --lr
    word: str  #: its last part
    kind: Kind
    value: Value  #: in the incumbent's text
    written: str  #: that value as the source has it
    values: tuple[Value, ...]  #: all that may be tried, the current one among them
    ordered: bool  #: neighbours on the ladder are alike
    stride: int  #: a bold step, in places on the ladder; 1 is a careful one
    promise: float  #: how early it is worth an experiment of its own

    def place(self, value: Value) -> int:
        """Where *value*, or what is nearest to it, stands on the ladder."""
        for index, known in enumerate(self.values):
            if constants.is_same(known, value):
                return index
        here = self.values.index(self.value)
        if not self.ordered or isinstance(value, str):
            return here
        return min(range(len(self.values)), key=lambda i: abs(float(self.values[i]) - float(value)))

    def write(self, value: Value) -> str:
        """*value* as it would stand in the source, with its sign."""
        negative = isinstance(value, int | float) and value < 0
        return ("-" if negative else "") + constants.literal(value, self.written)


@dataclass(frozen=True, kw_only=True)
class Space:
    """All knobs of the editable files, the most promising first."""

    knobs: tuple[Knob, ...]
    sources: Mapping[str, Source]

    @property
    def setting(self) -> dict[str, Value]:
        """The incumbent's own values, by key."""
        return {knob.key: knob.value for knob in self.knobs}

    @property
    def size(self) -> int:
        """How many settings there are."""
        return math.prod(len(knob.values) for knob in self.knobs)

    def texts(self, setting: Mapping[str, Value]) -> dict[str, str]:
        """path -> whole new text, of the files that *setting* changes."""
        wanted: dict[str, dict[str, Value]] = {}
        for knob in self.knobs:
            wanted.setdefault(knob.path, {})[knob.name] = setting[knob.key]
        new = {path: self.sources[path].rewrite(values) for path, values in wanted.items()}
        return {path: text for path, text in new.items() if text != self.sources[path].text}


def build_space(sources: Mapping[str, Source], anchors: Mapping[str, Value]) -> Space:
    """The space around *anchors* (where the session began), else around the current values.

    Raises:
        ProposerError: none of the files has a constant that can be tuned.
    """
    knobs = [
        knob
        for path in sorted(sources)
        for constant in sources[path].constants
        if (knob := _knob(path, constant, anchors)) is not None
    ]
    if not knobs:
        raise ProposerError(
            f"nothing to tune in {', '.join(sorted(sources)) or 'the editable files'}: name "
            "constants there, such as LR = 1e-3 at the top level, or take another proposer"
        )
    return Space(knobs=tuple(_most_promising_first(knobs)), sources=sources)


def _most_promising_first(knobs: list[Knob]) -> list[Knob]:
    """By promise; the second of a kind waits, so that the first ideas differ."""
    same: dict[Kind, int] = {}
    ranked: list[tuple[float, int, Knob]] = []
    for index, knob in enumerate(sorted(knobs, key=lambda knob: -knob.promise)):
        nth = same.get(knob.kind, 0)
        same[knob.kind] = nth + 1
        ranked.append((-knob.promise * 0.7**nth, index, knob))
    return [knob for _, _, knob in sorted(ranked, key=lambda item: item[:2])[:MAX_KNOBS]]


def _knob(path: str, constant: Constant, anchors: Mapping[str, Value]) -> Knob | None:
    word, value = constant.word, constant.value
    if is_never_tuned(word) or _FIXED.match(constant.comment):
        return None
    stated = _stated(constant)
    if stated is None and (is_fixed_elsewhere(word) or _is_no_plain_number(constant)):
        return None
    kind = _kind(word, value)
    if stated is None and kind in _UNTELLING and not _speaks_for_itself(constant):
        return None
    key = f"{path}:{constant.name}"
    anchor = anchors.get(key, value)
    if constants.sort(anchor) != constants.sort(value):
        anchor = value
    ladder = list(stated) if stated is not None else _ladder(kind, anchor, constant)
    ordered = not isinstance(value, str)
    ladder = [item for item in ladder if _may_be(item, constant)]
    ladder += [item for item in (value, anchor) if item not in ladder]
    if ordered:
        ladder = sorted(set(ladder))
    ladder = list(dict.fromkeys(ladder))
    if len(ladder) < 2 or len(ladder) > MAX_VALUES:
        return None
    promise = max(LORE[kind].promise, 0.0 if stated is None else STATED_PROMISE)
    return Knob(
        key=key,
        path=path,
        name=constant.name,
        word=word,
        kind=kind,
        value=value,
        written=constant.literal,
        values=tuple(ladder),
        ordered=ordered,
        stride=_stride(ladder),
        promise=promise if constant.is_read else promise / 100,
    )


def _speaks_for_itself(constant: Constant) -> bool:
    """Is it a setting though its name does not tell what for? A lower-case name may be anything,
    and so may an argument of whatever is called at module level."""
    if constant.form is Form.NAME:
        return constant.name == constant.name.upper()
    return constant.configures


def _kind(name: str, value: Value) -> Kind:
    if isinstance(value, str):
        return Kind.CHOICE
    if isinstance(value, bool):
        return Kind.SWITCH
    kind = kind_of(name)
    if kind is Kind.FRACTION and not 0 <= value <= 1:
        return Kind.SPAN if isinstance(value, int) and "RATIO" not in name.upper() else Kind.OTHER
    if kind is Kind.FRACTION and isinstance(value, int) and value == 1:
        return Kind.OTHER
    if kind is Kind.BETA and not 0.3 <= value < 1:
        return Kind.OTHER
    return kind


def _may_be(item: Value, constant: Constant) -> bool:
    """A minus stays where it is, only digits are rewritten; `at most 512` is honoured."""
    if isinstance(item, str | bool) or isinstance(constant.value, str | bool):
        return True
    if (item < 0) is not (constant.value < 0):
        return False
    bounds = [(which, float(n.replace("_", ""))) for which, n in _BOUND.findall(constant.comment)]
    return all(item <= bound if which == "most" else item >= bound for which, bound in bounds)


def _is_no_plain_number(constant: Constant) -> bool:
    """Hexadecimal, huge or negative whole numbers are masks, sentinels and ids."""
    value = constant.value
    if isinstance(value, bool | str):
        return False
    if isinstance(value, int):
        return constant.literal[:2].lower() in ("0x", "0o", "0b") or not 0 <= value < 2**31
    return abs(value) >= 1e6


def _stride(ladder: list[Value]) -> int:
    """How many places make a bold step: about a factor of three where the ladder is fine."""
    first, last = ladder[0], ladder[-1]
    if isinstance(first, str | bool) or isinstance(last, str | bool) or len(ladder) < 8:
        return 1
    low, high = sorted((abs(first), abs(last)))
    if low <= 0 or high / low < 10:
        return len(ladder) // 4
    return max(1, round(math.log(3) / math.log(high / low) * (len(ladder) - 1)))


# --- what a comment states ---------------------------------------------------------------------


def _stated(constant: Constant) -> tuple[Value, ...] | None:
    """The values that its type, its option or the comment beside it names: all, or a range."""
    if any(constants.is_same(item, constant.value) for item in constant.declared):
        like = constants.sort(constant.value)
        return tuple(item for item in constant.declared if constants.sort(item) == like)
    listed = _listed(constant.comment, constant.value)
    if listed is not None:
        return listed
    value = constant.value
    found = _RANGE.search(constant.comment)
    if not found or isinstance(value, bool | str):
        return None
    low, high = (float(text.replace("_", "")) for text in found.groups())
    if not low <= value <= high or low == high or not math.isfinite(high - low):
        return None
    if isinstance(value, int):
        return _whole_between(math.ceil(low), math.floor(high), value)
    return tuple(_between(low, high))


def _listed(comment: str, value: Value) -> tuple[Value, ...] | None:
    """`a | b | c` or `a, b or c`. It counts when it holds the present value."""
    words = _words(comment)
    if words is None:
        return None
    if isinstance(value, str):
        return tuple(words) if value in words and all(words) else None
    if isinstance(value, bool) or not all(re.fullmatch(_NUMBER, word) for word in words):
        return None
    numbers = [float(word.replace("_", "")) for word in words]
    if value not in numbers:
        return None
    if isinstance(value, int):
        whole = all(number.is_integer() for number in numbers)
        return tuple(int(number) for number in numbers) if whole else None
    return tuple(numbers)


def _words(comment: str) -> list[str] | None:
    pieces = [piece.split() for piece in comment.split("|")]
    if len(pieces) >= 2 and all(pieces) and all(len(piece) == 1 for piece in pieces[1:-1]):
        words = [pieces[0][-1], *(piece[0] for piece in pieces[1:])]
    elif found := _OR.search(comment):
        words = re.split(r",?\s+or\s+|,\s*", found[0])
    else:
        return None
    return [word.strip("\"'`,;()") for word in words]


def _between(low: float, high: float) -> list[Value]:
    if low > 0 and high / low >= 8:
        return [low, *_round_between(low, high, _FINE), high]
    return [float(f"{low + (high - low) * step / 10:.6g}") for step in range(11)]


def _whole_between(low: int, high: int, value: int) -> tuple[Value, ...]:
    if low > 0 and all(_is_power(number) for number in (low, high, value)) and high >= 4 * low:
        return tuple(_powers(low, high))
    if high - low < 32:
        return tuple(range(low, high + 1))
    if low > 0:
        inner = {round(number) for number in _round_between(low, high, _FINE)}
        return tuple(sorted({low, high} | {number for number in inner if low <= number <= high}))
    return tuple(sorted({low + (high - low) * step // 10 for step in range(11)}))


# --- what name and value suggest ---------------------------------------------------------------


def _ladder(kind: Kind, anchor: Value, constant: Constant) -> list[Value]:
    if isinstance(anchor, str):
        return list(constant.choices)
    if isinstance(anchor, bool):
        return [False, True]
    if kind is Kind.FRACTION:
        highest = 0.5 if "DROPOUT" in constant.word.upper() else 1.0
        return [share for share in _SHARES if share <= highest]
    if kind is Kind.BETA or (kind is Kind.DECAY and 0.5 <= anchor < 1):
        return list(_BETAS)
    if kind is Kind.DECAY and (anchor == 0 or isinstance(anchor, float)):
        return [0.0, *_around(anchor or 0.03, 30, _COARSE)]
    if isinstance(anchor, int):
        return _whole(kind, anchor)
    if kind is Kind.LR:
        return _around(anchor, 30, _FINE)
    return _around(anchor, 100 if kind is Kind.EPSILON else 10, _COARSE)


def _around(anchor: float, factor: float, digits: tuple[float, ...]) -> list[Value]:
    """Round numbers from a *factor* below to a *factor* above; none around zero."""
    size = abs(anchor)
    if size == 0:
        return []
    sign = -1 if anchor < 0 else 1
    return [sign * number for number in _round_between(size / factor, size * factor, digits)]


def _round_between(low: float, high: float, digits: tuple[float, ...]) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers = (float(f"{digit}e{exponent}") for exponent in exponents for digit in digits)
    return [number for number in numbers if low * (1 - 1e-9) <= number <= high * (1 + 1e-9)]


def _whole(kind: Kind, anchor: int) -> list[Value]:
    if anchor == 0:
        return [0, 10, 20, 50, 100, 200, 500] if kind is Kind.SPAN else []
    sizes = (Kind.BATCH, Kind.WIDTH, Kind.LENGTH, Kind.HEADS, Kind.ACCUMULATION)
    if _is_power(anchor) and (kind in sizes or anchor >= 16):
        return _powers(max(1, anchor // 8), anchor * 8)
    if anchor < 16:
        return list(range(max(1, anchor // 2), max(2 * anchor, anchor + 2) + 1))
    # Shares of the present value: what divided it before is likely to divide these.
    return sorted({anchor * quarters // 4 for quarters in (1, 2, 3, 4, 5, 6, 8, 12, 16)})


def _is_power(number: float) -> bool:
    return number >= 1 and float(number).is_integer() and int(number) & (int(number) - 1) == 0


def _powers(low: int, high: int) -> list[Value]:
    return [2**n for n in range(64) if low <= 2**n <= high]
