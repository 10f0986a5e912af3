"""Which numbers a call prints, and under which names: f-strings, %, format, logging, print0."""

from __future__ import annotations

import ast
import itertools
import re
import unicodedata
from collections.abc import Iterator

from overnight.sessions.sources.facts import Place, Printed

_HOLE = "\x00"  #: stands for a printed value
_SUMMARY_LINE = re.compile(rf"\s*([A-Za-z_][A-Za-z0-9_./@-]{{0,63}})\s*:\s*{_HOLE}\s*\Z")
_PERCENT = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")
_WORD = r"[^\W\d][\w./@-]*"
#: The last words before a value, such as `val loss ` in `step 3: train loss 1.2, val loss 1.3`.
_LABEL = re.compile(rf"({_WORD}(?:[ ]{_WORD}){{0,3}})(\s*(?:[:=]|\bis\b)?\s*)\Z")
#: A key of a dictionary that is printed, such as `{'val_loss': `.
_QUOTED = re.compile(rf"""(["'])({_WORD})\1\s*:\s*\Z""")
MAX_PATTERN = 300  #: characters; longer ones are no label
_FILLERS = frozenset({"on", "of", "the", "set", "is", "for", "in", "over", "across", "a", "at"})
_UNIT = re.compile(r"[A-Za-z%]+")
_NUMBER = r"([^\s,;)]+)"
_LOGGERS = frozenset({"info", "warning", "critical"})
_STREAMS = frozenset({"stdout", "stderr", "tqdm"})


def printed_by(
    call: ast.Call, file: str, loop: str | None, own: frozenset[str] = frozenset()
) -> Iterator[Printed]:
    """The numbers that *call* writes. *loop*: the variable of the `for` around it; *own*: the
    file's own functions that print."""
    whole = _writes_lines(call)
    if whole is None and isinstance(call.func, ast.Name) and call.func.id in own:
        whole = False  # it may put something before the text
    if whole is None or not call.args:
        return
    first = call.args[0]
    arguments = call.args if whole else call.args[:1]  # a logger's other ones fill in the first
    place = Place(file=file, line=call.lineno)
    text = " ".join(_shape(argument) for argument in arguments)
    if not whole and not isinstance(first, ast.JoinedStr):
        text = _PERCENT.sub(_HOLE, text)
    for line in text.split("\n"):
        match = _SUMMARY_LINE.match(line)
        if match and whole:
            yield Printed(name=match[1], place=place, repeated=loop)
            continue
        yield from _labelled(line, place, loop)


def logged_by(call: ast.Call, file: str) -> Iterator[Printed]:
    """Lightning's `self.log("val_loss", ...)`: shown in its tables and progress bars."""
    target = call.func
    if not (isinstance(target, ast.Attribute) and target.attr == "log" and len(call.args) > 1):
        return
    name = call.args[0]
    if isinstance(target.value, ast.Name) and target.value.id == "self" and _is_text(name):
        assert isinstance(name, ast.Constant)
        key = str(name.value)
        if re.fullmatch(_WORD, key):
            regex = rf"\b{re.escape(key)}[\s│|=:]+([^\s│|,\]]+)"
            place = Place(file=file, line=call.lineno)
            metric = key if key.isascii() else _plain_name(key)
            if metric:
                yield Printed(name=metric, place=place, regex=regex, in_table=True)


def _labelled(line: str, place: Place, loop: str | None) -> Iterator[Printed]:
    pieces = line.split(_HOLE)
    for before, after in itertools.pairwise(pieces):
        quoted = _QUOTED.search(before)
        if quoted:
            mark, key = quoted[1], quoted[2]
            regex = rf"{mark}{re.escape(key)}{mark}:\s*([^\s,}}]+)"
            if _plain_name(key) and len(regex) <= MAX_PATTERN:
                yield Printed(name=_plain_name(key), place=place, regex=regex, repeated=loop)
            continue
        match = _LABEL.search(before)
        if not match:
            continue
        words = match[1].split(" ")
        kept = [word for word in words if word.lower() not in _FILLERS] or words
        name = _plain_name("_".join(kept))
        unit = _UNIT.match(after)
        number = _NUMBER if unit is None else _NUMBER.replace("+)", f"+?){re.escape(unit[0])}")
        label = r"\s+".join(re.escape(word).replace(r"\-", "-") for word in words)
        between = match[2].strip()
        gap = rf"\s*{between}\s*" if between and " " in match[2].rstrip() else rf"{between}\s*"
        if not between:
            gap = r"\s+"
        regex = rf"\b{label}{gap}{number}"
        if name and len(regex) <= MAX_PATTERN:
            yield Printed(name=name, place=place, regex=regex, repeated=loop)


def _plain_name(text: str) -> str:
    """*text* as the name of a metric: small ASCII letters; nothing where none are left."""
    ascii_ = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return ascii_.strip("./@-0123456789")[:64]


def _writes_lines(call: ast.Call) -> bool | None:
    """True: its text is the line; False: something stands before it; None: it writes none."""
    target = call.func
    into = next((word.value for word in call.keywords if word.arg == "file"), None)
    if into is not None and not (isinstance(into, ast.Attribute) and into.attr in _STREAMS):
        return None
    if isinstance(target, ast.Name):
        return True if "print" in target.id else None
    if not isinstance(target, ast.Attribute):
        return None
    if target.attr in ("print", "print_"):
        return True
    if target.attr == "write":
        owner = target.value
        name = getattr(owner, "attr", getattr(owner, "id", ""))
        return True if name in _STREAMS or name == "out" else None
    return False if target.attr in _LOGGERS else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _shape(node: ast.expr) -> str:
    """The text of a printed expression with a hole for each value."""
    if isinstance(node, ast.Dict):
        return _shape_of(node, "'")
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "dumps" and node.args:
        return _shape_of(node.args[0], '"') if isinstance(node.args[0], ast.Dict) else _HOLE
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else _HOLE
    if isinstance(node, ast.JoinedStr):
        return "".join(_shape(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _PERCENT.sub(_HOLE, _shape(node.left))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _shape(node.left) + _shape(node.right)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
    ):
        return _BRACES.sub(_HOLE, _shape(node.func.value))
    return _HOLE


def _shape_of(node: ast.Dict, mark: str) -> str:
    """A dictionary as `print` or JSON shows it."""
    keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
    pairs = (f"{mark}{key}{mark}: {_HOLE}" for key in keys if isinstance(key, str))
    return f"{{{', '.join(pairs)}}}"
