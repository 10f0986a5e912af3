"""Where constants stand in a syntax tree: plain names, and members of what configures a run.

A member counts where the source shows that nobody sets it again: a class default that no call
passes, a keyword of a call at module level, an item of a module-level dict, an argparse default.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import libcst as cst

from overnight.contracts.tunable import is_never_tuned, parts
from overnight.proposers.scan import Called, Scan, spoken, string_value

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)\Z")
_CONFIGURES = frozenset(
    {
        "ARGS", "ARGUMENTS", "CFG", "CONF", "CONFIG", "CONFIGURATION", "HP", "HPARAMS",
        "HYPERPARAMETERS", "HYPERPARAMS", "OPTIONS", "PARAMS", "SETTINGS", "NAMESPACE", "DICT",
    }
)  # fmt: skip
_NOT_A_CONFIG = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "Exception"})
_MAX_ELEMENTS = 4  #: of a tuple of numbers, such as ADAM_BETAS


class Form(StrEnum):
    """What kind of place it is."""

    NAME = "name"  #: LR = 1e-3
    ELEMENT = "element"  #: BETAS = (0.9, 0.95)
    FIELD = "field"  #: class Config: lr: float = 1e-3
    KEYWORD = "keyword"  #: config = Config(lr=1e-3)
    ITEM = "item"  #: config = {"lr": 1e-3}
    ARGUMENT = "argument"  #: parser.add_argument("--lr", default=1e-3)


@dataclass(frozen=True, kw_only=True)
class Place:
    """An expression that may be a literal, and what it is called."""

    name: str  #: unique in the file: LR, BETAS[1], Config.lr, config.lr, --lr
    word: str  #: the part that says what it is for: LR, BETAS, lr
    form: Form
    node: cst.BaseExpression
    statement: int  #: index of the top-level statement
    comment: str = ""  #: at the end of its line, without the hash
    declared: cst.BaseExpression | None = None  #: its Literal[...] or the choices of argparse
    configures: bool = True  #: False: it may be anybody's matter, only a telling word counts


def places(module: cst.Module, found: Scan) -> list[Place]:
    """All of them, in the order of the file's forms; what is set twice is left out."""
    every = [
        *_names(module, found),
        *_fields(module, found),
        *_keywords(found),
        *_arguments(found),
    ]
    times = Counter(place.name for place in every)
    return [place for place in every if times[place.name] == 1]


# --- names and their elements ------------------------------------------------------------------


def _names(module: cst.Module, found: Scan) -> Iterator[Place]:
    for index, statement in enumerate(module.body):
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        comment = _line_comment(statement)
        for small in statement.body:
            name, node, annotation = _assigned(small)
            if name is None or node is None or found.bound[name] != 1 or name in found.rebound:
                continue
            yield Place(
                name=name, word=name, form=Form.NAME, node=node, statement=index, comment=comment,
                declared=_literal_type(annotation, found),
            )  # fmt: skip
            if isinstance(node, cst.Tuple | cst.List) and len(node.elements) <= _MAX_ELEMENTS:
                for number, element in enumerate(node.elements):
                    yield Place(
                        name=f"{name}[{number}]", word=name, form=Form.ELEMENT,
                        node=element.value, statement=index, configures=False,
                    )  # fmt: skip
            if isinstance(node, cst.Dict) and _is_config(name):
                yield from _items(name, node, index, found)


def _items(owner: str, table: cst.Dict, index: int, found: Scan) -> Iterator[Place]:
    for item in table.elements:
        if not isinstance(item, cst.DictElement):
            continue
        word = string_value(item.key)
        if word and _NAME.match(word) and not _is_set_again(found, {owner}, word):
            yield Place(
                name=f"{owner}.{word}", word=word, form=Form.ITEM, node=item.value,
                statement=index, comment=_comma_comment(item.comma),
            )  # fmt: skip


def _assigned(
    small: cst.CSTNode,
) -> tuple[str | None, cst.BaseExpression | None, cst.Annotation | None]:
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=node):
            return (name if _NAME.match(name) else None), node, None
        case cst.AnnAssign(target=cst.Name(value=name), value=node, annotation=annotation):
            return (name if _NAME.match(name) else None), node, annotation
    return None, None, None


# --- class defaults ----------------------------------------------------------------------------


def _fields(module: cst.Module, found: Scan) -> Iterator[Place]:
    for index, statement in enumerate(module.body):
        if isinstance(statement, cst.ClassDef) and found.bound[statement.name.value] == 1:
            yield from _fields_of(statement, index, found)


def _fields_of(node: cst.ClassDef, index: int, found: Scan) -> Iterator[Place]:
    owner = node.name.value
    bases = {(spoken(base.value) or "").lstrip(".") for base in node.bases}
    passed = found.passed.get(owner)
    if bases & _NOT_A_CONFIG or not _may_own(owner) or (passed and passed.unknown):
        return
    configures = _is_config(owner) or any(_is_dataclass(one) for one in node.decorators)
    number = 0
    for line in node.body.body:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            continue
        word, value, annotation = _assigned(line.body[0])
        if isinstance(line.body[0], cst.AnnAssign):
            number += 1  # where it stands among the arguments of a dataclass
        if word is None or value is None or _is_set_again(found, {owner}, word):
            continue
        if passed and (word in passed.keywords or number <= passed.positional):
            continue
        yield Place(
            name=f"{owner}.{word}", word=word, form=Form.FIELD, node=value, statement=index,
            comment=_line_comment(line), declared=_literal_type(annotation, found),
            configures=configures,
        )  # fmt: skip


def _is_dataclass(decorator: cst.Decorator) -> bool:
    node = decorator.decorator
    name = spoken(node.func if isinstance(node, cst.Call) else node)
    return name is not None and name.lstrip(".") in ("dataclass", "define", "frozen", "attrs")


# --- keywords of calls, options of argparse ----------------------------------------------------


def _keywords(found: Scan) -> Iterator[Place]:
    for called in found.calls:
        callee = (spoken(called.call.func) or "").lstrip(".")
        owner = called.target or callee
        if not callee or not _may_configure(callee, found) or not _may_own(owner):
            continue
        configures = _is_config(callee) or _is_config(owner)
        for arg in called.call.args:
            word = arg.keyword.value if arg.keyword else ""
            if _NAME.match(word) and not _is_set_again(found, {owner}, word):
                yield Place(
                    name=f"{owner}.{word}", word=word, form=Form.KEYWORD, node=arg.value,
                    statement=called.statement, comment=_comma_comment(arg.comma),
                    configures=configures,
                )  # fmt: skip


def _may_configure(callee: str, found: Scan) -> bool:
    """A class, `dict`, or a function of this file; not print, open, basicConfig."""
    own = found.bound[callee] == 1 and callee not in found.imported
    return callee == "dict" or callee[:1].isupper() or own


def _arguments(found: Scan) -> Iterator[Place]:
    for called in found.arguments:
        place = _argument(called)
        if place is not None and not _is_set_again(found, set(), place.word):
            yield place


def _argument(called: Called) -> Place | None:
    keywords = {arg.keyword.value: arg for arg in called.call.args if arg.keyword}
    texts = [string_value(arg.value) or "" for arg in called.call.args if not arg.keyword]
    options = [option for text in texts if (option := _OPTION.match(text))]
    default, choices = keywords.get("default"), keywords.get("choices")
    if default is None or not options:
        return None
    option = next((one for one in options if one[0].startswith("--")), options[0])
    word = string_value(keywords["dest"].value) if "dest" in keywords else None
    return Place(
        name=option[0],
        word=word or option[1].replace("-", "_"),
        form=Form.ARGUMENT,
        node=default.value,
        statement=called.statement,
        comment=_comma_comment(default.comma),
        declared=choices.value if choices else None,
    )


# --- what the source says around a place -------------------------------------------------------


def _is_set_again(found: Scan, owners: set[str], word: str) -> bool:
    """Does the file assign this member, of the owner itself or of what is called a config?"""
    return any(
        member == word and (base in owners or _is_config(base)) for base, member in found.members
    )


def _words(owner: str) -> frozenset[str]:
    return frozenset(parts(_CAMEL.sub("_", owner)))


def _is_config(owner: str) -> bool:
    return bool(_words(owner) & _CONFIGURES)


def _may_own(owner: str) -> bool:
    """Not what belongs to evaluation, logging or a machine."""
    return not is_never_tuned(_CAMEL.sub("_", owner).lstrip("_"))


def _literal_type(annotation: cst.Annotation | None, found: Scan) -> cst.BaseExpression | None:
    node = annotation.annotation if annotation else None
    if isinstance(node, cst.Name):
        node = found.aliases.get(node.value)
    if isinstance(node, cst.Subscript) and (spoken(node.value) or "").lstrip(".") == "Literal":
        return node
    return None


def _line_comment(line: cst.SimpleStatementLine) -> str:
    comment = line.trailing_whitespace.comment if len(line.body) == 1 else None
    return _text_of(comment)


def _comma_comment(comma: cst.Comma | cst.MaybeSentinel) -> str:
    after = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    if not isinstance(after, cst.ParenthesizedWhitespace):
        return ""
    return _text_of(after.first_line.comment)


def _text_of(comment: cst.Comment | None) -> str:
    return comment.value.lstrip("#").strip() if comment else ""
