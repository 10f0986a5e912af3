"""The constants of a Python source that can be tuned, and how to change only their literals.

A constant is one literal in one of the `places` that are set once. Values that are computed,
imported or set again are left alone. What is worth tuning is `space`'s to say.
"""

from __future__ import annotations

import ast
import io
import itertools
import math
import re
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from overnight.contracts.errors import ProposerError
from overnight.proposers.places import Form, Place, places
from overnight.proposers.scan import Scan, scan, string_value

MAX_DEPTH = 300  #: of a syntax tree; libcst's parser ends the process somewhere above 900
MAX_TOKENS = 900  #: of one statement that Python's own parser does not take

Value = bool | int | float | str

_NEWLINE = re.compile(r"\r\n|\r|\n")
_POWER = re.compile(r"(2\s*\*\*\s*)(\d{1,2})\Z")
_PLAIN_STRING = re.compile(r"[^'\"\\{}\x00-\x1f\x7f]*\Z")  # means itself behind any prefix


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One constant as it stands in the source."""

    name: str  #: unique in the file: LR, BETAS[1], Config.lr, --lr
    word: str  #: the part of it that says what it is for
    form: Form = Form.NAME
    configures: bool = True  #: False: only a telling word makes it tunable
    value: Value
    literal: str  #: the text of the literal, without a minus before it
    start: int  #: where the literal starts in the source, in characters
    comment: str  #: the comment at the end of its line, without the hash
    choices: tuple[str, ...] = ()  #: strings that the code holds it against
    declared: tuple[Value, ...] = ()  #: all that its type or its option allows
    is_read: bool  #: the file itself uses it


@dataclass(frozen=True, kw_only=True)
class Source:
    """One Python file and its constants, in the order of the file."""

    path: str
    text: str
    constants: tuple[Constant, ...]

    def rewrite(self, values: Mapping[str, Value]) -> str:
        """The text with the literals of *values* changed and every other character kept."""
        parts: list[str] = []
        end = 0
        for constant in self.constants:
            value = values.get(constant.name, constant.value)
            if is_same(value, constant.value):
                continue
            parts += [self.text[end : constant.start], literal(value, constant.literal)]
            end = constant.start + len(constant.literal)
        return "".join([*parts, self.text[end:]])


def parse(path: str, text: str) -> Source:
    """Find the constants of *text*.

    Raises:
        ProposerError: it is not Python that can be read; names the file and the line.
    """
    lines = _Lines(text)
    try:
        _check_depth(lines.plain)
        module = cst.parse_module(lines.plain)
        found = scan(module)
        constants = sorted(_constants(path, module, found, lines), key=lambda item: item[0])
    except cst.ParserSyntaxError as error:
        raise ProposerError(f"{path}:{error.raw_line}: not valid Python") from error
    except UnicodeEncodeError as error:
        raise ProposerError(f"{path}: is not text in UTF-8, nothing to tune") from error
    except (RecursionError, MemoryError) as error:
        raise ProposerError(f"{path}: an expression is nested too deeply to be read") from error
    return Source(path=path, text=text, constants=tuple(constant for _, constant in constants))


def _check_depth(text: str) -> None:
    """libcst's own parser overflows the stack, and takes the process with it, where Python's
    raises. Both are recursive: what is deep in one is deep in the other.

    Raises:
        RecursionError, MemoryError: too deep.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's own doubtful escapes
            level: list[ast.AST] = [ast.parse(text)]
    except (SyntaxError, ValueError):
        # Not Python, or of a newer one than ours. A statement is no deeper than it is long.
        if _longest_statement(text) > MAX_TOKENS:
            raise RecursionError from None
        return
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise RecursionError


def _longest_statement(text: str) -> int:
    """In tokens; one too many where it can't be told."""
    longest = length = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            length = 0 if token.type == tokenize.NEWLINE else length + 1
            longest = max(longest, length)
    except (SyntaxError, tokenize.TokenError):
        words = len(re.findall(r"\w+|[^\w\s]", text))
        return max(longest, words)
    return longest


def is_same(one: Value, other: Value) -> bool:
    """Equal and of one sort: 1 is not True."""
    return sort(one) == sort(other) and one == other


def sort(value: Value) -> str:
    """A switch, a text or a number: a constant never becomes another sort."""
    return "switch" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def literal(value: Value, old: str = "") -> str:
    """How *value* is written where *old* stood: its notation is kept where it can be."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        quote = re.match(r"""([A-Za-z]*)('{3}|"{3}|'|")""", old)
        if quote and _PLAIN_STRING.match(value):
            return f"{quote[1]}{quote[2]}{value}{quote[2]}"
        return repr(value)
    if isinstance(value, int):
        return _integer(abs(value), old)
    return _number(abs(value), old)


def _integer(value: int, old: str) -> str:
    power = _POWER.match(old)
    if power and value > 0 and value & (value - 1) == 0:
        return f"{power[1]}{value.bit_length() - 1}"
    return f"{value:_}" if "_" in old else str(value)


def _number(value: float, old: str) -> str:
    plain = repr(value)
    digits, _, exponent = f"{value:.15e}".partition("e")
    if "e" not in plain and ("e" not in old.lower() or 0.1 <= value < 1000 or value == 0):
        return plain
    digits = digits.rstrip("0").rstrip(".")
    short = f"{digits}e{int(exponent)}"
    return short if float(short) == value else plain


class _Lines:
    """The source as libcst gives it back unchanged, and the way from there to the real offsets.

    libcst does not keep mixed line ends, form feeds that start a line, a byte order mark and
    blanks after the last line. It reads a plain copy; literals are then changed in the real text.
    """

    def __init__(self, text: str) -> None:
        plain: list[str] = []
        self._real: list[int] = []  # offset of each line's first plain character in the text
        self._starts: list[int] = []
        position = length = 0
        for line in _NEWLINE.split(text):
            skipped = len(line) - len(line.lstrip("\f" if plain else "\f\ufeff"))
            self._real.append(position + skipped)
            self._starts.append(length)
            plain.append(line[skipped:])
            position += len(line)
            newline = _NEWLINE.match(text, position)
            position = newline.end() if newline else position
            length += len(plain[-1]) + 1
        self.plain = "\n".join(plain).rstrip() + "\n"

    def real(self, offset: int) -> int:
        """The offset in the real text of an offset in the plain one."""
        low, high = 0, len(self._starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle)
        return self._real[low] + offset - self._starts[low]


def _constants(
    path: str, module: cst.Module, found: Scan, lines: _Lines
) -> Iterator[tuple[int, Constant]]:
    """(offset, constant) of every place that holds a literal."""
    literals = [
        (place, *literal)
        for place in places(module, found)
        if (literal := _literal_node(place.node)) is not None
    ]
    starts = _starts(
        path, module, lines.plain, [(place.statement, node) for place, node, _ in literals]
    )
    for (place, _, value), (plain_start, bare) in zip(literals, starts, strict=True):
        start = lines.real(plain_start)
        shown = place.name if place.form is Form.NAME else f".{place.word}"
        yield (
            start,
            Constant(
                name=place.name,
                word=place.word,
                form=place.form,
                configures=place.configures,
                value=value,
                literal=bare,
                start=start,
                comment=place.comment,
                choices=found.choices(shown),
                declared=_declared(place.declared),
                is_read=_is_read(place, found),
            ),
        )


def _is_read(place: Place, found: Scan) -> bool:
    """Does the file itself use it? A keyword and an item are handed to whoever reads them."""
    if place.form in (Form.KEYWORD, Form.ITEM):
        return True
    return found.seen[place.word] > (0 if place.form is Form.ARGUMENT else 1)


def _declared(node: cst.BaseExpression | None) -> tuple[Value, ...]:
    """The closed set of literals that a type or the choices of an option name."""
    if isinstance(node, cst.Subscript):
        indices = [element.slice for element in node.slice]
        nodes = [index.value for index in indices if isinstance(index, cst.Index)]
    elif isinstance(node, cst.Tuple | cst.List | cst.Set):
        nodes = [element.value for element in node.elements]
    else:
        return ()
    found = [_literal_node(one) for one in nodes]
    return tuple(literal[1] for literal in found if literal is not None)


def _literal_node(node: cst.BaseExpression) -> tuple[cst.BaseExpression, Value] | None:
    """The node whose text is replaced, and the value of the whole expression."""
    match node:
        case cst.Name(value="True" | "False"):
            return node, node.value == "True"
        case cst.SimpleString():
            text = string_value(node)
            return None if text is None else (node, text)
        case cst.Integer() | cst.Float() if len(node.value) <= 40:
            number = ast.literal_eval(node.value)
            return (node, number) if math.isfinite(number) else None
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() | cst.Float()):
            inner = _literal_node(node.expression)
            # A minus before a zero says nothing that could be kept when it changes.
            if inner is None or isinstance(inner[1], bool | str) or inner[1] == 0:
                return None
            return node.expression, -inner[1]
        case cst.BinaryOperation(
            left=cst.Integer(value="2", lpar=[]),
            operator=cst.Power(),
            right=cst.Integer(value=exponent, lpar=[]),
        ) if exponent.isdigit() and int(exponent) < 64:
            return node, 2 ** int(exponent)
    return None


def _starts(
    path: str, module: cst.Module, plain: str, nodes: list[tuple[int, cst.BaseExpression]]
) -> list[tuple[int, str]]:
    """Where in *plain* the text of each (statement, node below it) starts, and that text.

    Raises:
        ProposerError: libcst does not give the file back unchanged.
    """
    offset = sum(len(module.code_for_node(line)) for line in module.header)
    codes: list[tuple[int, str]] = []  # of each statement: where it starts, its text
    for statement in module.body:
        code = module.code_for_node(statement)
        if not plain.startswith(code, offset):
            raise ProposerError(f"{path}: libcst does not give this file back unchanged")
        codes.append((offset, code))
        offset += len(code)
    texts = [module.code_for_node(node.with_changes(lpar=(), rpar=())) for _, node in nodes]
    unclear = {
        at for (at, _), text in zip(nodes, texts, strict=True) if codes[at][1].count(text) > 1
    }
    inside = {at: _positions(module, at, codes[at][1]) for at in unclear}
    return [
        (codes[at][0] + (inside[at][node] if at in inside else codes[at][1].index(text)), text)
        for (at, node), text in zip(nodes, texts, strict=True)
    ]


def _positions(module: cst.Module, at: int, code: str) -> Mapping[cst.CSTNode, int]:
    """Where each node of a statement starts in the statement's *code*. Slow."""
    alone = module.with_changes(header=(), footer=(), body=[module.body[at]])
    ranges = MetadataWrapper(alone, unsafe_skip_copy=True).resolve(PositionProvider)
    lines = [0, *itertools.accumulate(len(line) + 1 for line in code.split("\n"))]
    return {node: lines[at.start.line - 1] + at.start.column for node, at in ranges.items()}
