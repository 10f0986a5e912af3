"""One walk over a parsed module: which names it binds, how often, what it compares them to, which
calls it makes.

It does not follow values through other names or files: what the source does not show plainly
is not known. A member (`config.lr`, `config["lr"]`) is known by its last word alone, as `.lr`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

_INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_TELLING = (cst.Comparison, cst.Subscript, cst.Call, cst.Match, cst.Assign)
_BINDING = (
    cst.AssignTarget, cst.AugAssign, cst.For, cst.NamedExpr, cst.Del, cst.AnnAssign, cst.AsName,
    cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.MatchAs, cst.MatchStar,
)  # fmt: skip
# Fields that hold only blanks, commas and parentheses: half of all nodes, and nothing to find.
_LAYOUT = ("whitespace", "leading_lines", "trailing_whitespace", "header", "footer", "semicolon",
           "comma", "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "indent", "equal",
           "lines_after_decorators", "encoding", "default_", "has_trailing")  # fmt: skip


@dataclass
class Passed:
    """What all calls of one name hand over."""

    keywords: set[str] = field(default_factory=set)
    positional: int = 0  #: in the longest call
    unknown: bool = False  #: a call unpacks something


@dataclass(frozen=True)
class Called:
    """A call, and where it stands."""

    call: cst.Call
    statement: int  #: index of the top-level statement
    target: str | None  #: the module-level name that it is assigned to


@dataclass
class Scan:
    """What the walk found. Names are as written in the source."""

    bound: Counter[str] = field(default_factory=Counter)  #: bindings at module level
    imported: set[str] = field(default_factory=set)  #: names that an import binds
    rebound: set[str] = field(default_factory=set)  #: named by a `global` statement somewhere
    seen: Counter[str] = field(default_factory=Counter)  #: occurrences anywhere
    shown: dict[str, list[str]] = field(default_factory=dict)  #: name -> strings it is held against
    tables: dict[str, list[str]] = field(default_factory=dict)  #: name -> string keys of its dict
    aliases: dict[str, cst.BaseExpression] = field(default_factory=dict)  #: to a Literal[...]
    members: set[tuple[str, str]] = field(default_factory=set)  #: (base, member) that are assigned
    passed: dict[str, Passed] = field(default_factory=dict)  #: callee -> what it is given
    calls: list[Called] = field(default_factory=list)  #: those in the module's own scope
    arguments: list[Called] = field(default_factory=list)  #: of argparse, anywhere

    def choices(self, name: str) -> tuple[str, ...]:
        """The closed set of strings that the source itself shows for *name*, in order."""
        return tuple(dict.fromkeys(self.shown.get(name, [])))


def scan(module: cst.Module) -> Scan:
    """Walk *module* once, without recursion."""
    found = Scan()
    lookups: list[tuple[str, str]] = []  # (table, name): resolved when all tables are known
    fields: dict[type, tuple[str, ...]] = {}
    targets: dict[int, str] = {}  # id of a call -> what it is assigned to
    # Reversed, so that the walk goes in the order of the source. `inner`: the scope below the
    # module's own that the node stands in, "" where it is that one.
    stack: list[tuple[cst.CSTNode, int, str]] = []
    stack += [(node, index, "") for index, node in reversed([*enumerate(module.body)])]
    while stack:
        node, index, inner = stack.pop()
        if isinstance(node, cst.Name):
            found.seen[node.value] += 1
            continue
        if isinstance(node, cst.Global):
            found.rebound.update(item.name.value for item in node.names)
        elif not inner and isinstance(node, _BINDING):
            found.bound.update(_bindings(node))
            if isinstance(node, cst.ImportAlias):
                found.imported.add(node.evaluated_alias or node.evaluated_name.split(".")[0])
        if isinstance(node, _TELLING):
            _evidence(node, found, lookups)
        if isinstance(node, cst.AssignTarget | cst.AugAssign):
            _assigned_member(node.target, inner, found)
        if not inner and isinstance(node, cst.Assign):
            _named_call(node, targets)
        if isinstance(node, cst.Call):
            _called(Called(node, index, targets.get(id(node))), inner, found)
        below = inner
        if isinstance(node, cst.ClassDef):
            below = node.name.value
        elif isinstance(node, _INNER):
            below = inner or "()"
        stack.extend((child, index, below) for child in reversed(_children(node, fields)))
    for table, name in lookups:
        found.shown.setdefault(name, []).extend(found.tables.get(table, []))
    return found


def string_value(node: cst.BaseExpression | None) -> str | None:
    """The text of a plain string literal without escapes, None for anything else."""
    if isinstance(node, cst.SimpleString) and "\\" not in node.value:
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


def _children(node: cst.CSTNode, fields: dict[type, tuple[str, ...]]) -> list[cst.CSTNode]:
    """The nodes below, in order; *fields* remembers where the code of each class stands."""
    names = fields.get(type(node))
    if names is None:
        every = node.__dataclass_fields__
        names = tuple(name for name in every if not name.startswith(_LAYOUT))
        fields[type(node)] = names
    children: list[cst.CSTNode] = []
    for name in names:
        value = getattr(node, name)
        if isinstance(value, tuple | list):
            children.extend(value)
        elif value is not None and not isinstance(value, str | bool | int):
            children.append(value)
    # A MaybeSentinel is the one thing left that is no node (and isinstance is slow for nodes).
    return [child for child in children if hasattr(child, "__dataclass_fields__")]


def _bindings(node: cst.CSTNode) -> Iterator[str]:
    """The names that this one node binds in the scope it stands in."""
    match node:
        case cst.AssignTarget() | cst.AugAssign() | cst.For() | cst.NamedExpr() | cst.Del():
            yield from _targets(node.target)
        case cst.AnnAssign(value=value) if value is not None:
            yield from _targets(node.target)
        case cst.AsName():
            yield from _targets(node.name)
        case cst.FunctionDef() | cst.ClassDef():
            yield node.name.value
        case cst.ImportAlias(asname=None):
            yield node.evaluated_name.split(".")[0]
        case cst.MatchAs() | cst.MatchStar() if node.name is not None:
            yield node.name.value


def _targets(node: cst.BaseExpression) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, cst.Tuple | cst.List):
        for element in node.elements:
            yield from _targets(element.value)


def _evidence(node: cst.CSTNode, found: Scan, lookups: list[tuple[str, str]]) -> None:
    match node:
        case cst.Comparison():
            _compared(node, found)
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            _looked_up(node.value, key, found, lookups)
        case cst.Call(
            func=cst.Attribute(value=table, attr=cst.Name(value="get")), args=[cst.Arg() as key, *_]
        ):
            _looked_up(table, key.value, found, lookups)
        case cst.Match():
            for case in node.cases:
                _show(found, spoken(node.subject), list(_patterns(case.pattern)))
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Dict() as table
        ):
            found.tables[name] = _keys(table)
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Subscript() as alias
        ):
            found.aliases[name] = alias


def _compared(node: cst.Comparison, found: Scan) -> None:
    left = node.left
    for target in node.comparisons:
        right = target.comparator
        if isinstance(target.operator, cst.Equal | cst.NotEqual):
            for name, other in ((left, right), (right, left)):
                value = string_value(other)
                if value is not None:
                    _show(found, spoken(name), [value])
        elif isinstance(target.operator, cst.In | cst.NotIn):
            if isinstance(right, cst.Tuple | cst.List | cst.Set):
                values = [string_value(element.value) for element in right.elements]
                _show(found, spoken(left), [value for value in values if value is not None])
            elif isinstance(right, cst.Dict):
                _show(found, spoken(left), _keys(right))
        left = right


def _looked_up(
    table: cst.BaseExpression, key: cst.BaseExpression, found: Scan, lookups: list[tuple[str, str]]
) -> None:
    name = spoken(key)
    if isinstance(table, cst.Dict):
        _show(found, name, _keys(table))
    elif isinstance(table, cst.Name) and name is not None:
        lookups.append((table.value, name))


def spoken(node: cst.BaseExpression) -> str | None:
    """`NAME` for a name, `.lr` for a member: `x.lr`, `x["lr"]`. None for anything else."""
    match node:
        case cst.Name(value=name):
            return name
        case cst.Attribute(attr=cst.Name(value=name)):
            return f".{name}"
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            text = string_value(key)
            return None if text is None else f".{text}"
    return None


def _assigned_member(node: cst.BaseExpression, inner: str, found: Scan) -> None:
    member = spoken(node)
    if member is None or not member.startswith("."):
        return
    assert isinstance(node, cst.Attribute | cst.Subscript)
    base = spoken(node.value) or ""
    found.members.add((inner if base == "self" else base.lstrip("."), member[1:]))


def _named_call(node: cst.Assign, targets: dict[int, str]) -> None:
    target = node.targets[0].target
    if isinstance(node.value, cst.Call) and isinstance(target, cst.Name):
        targets[id(node.value)] = target.value


def _called(called: Called, inner: str, found: Scan) -> None:
    name = (spoken(called.call.func) or "").lstrip(".")
    if name == "add_argument":
        found.arguments.append(called)
        return
    if not inner:
        found.calls.append(called)
    passed = found.passed.setdefault(name, Passed())
    passed.unknown = passed.unknown or any(arg.star for arg in called.call.args)
    passed.keywords.update(arg.keyword.value for arg in called.call.args if arg.keyword)
    positional = sum(not arg.keyword and not arg.star for arg in called.call.args)
    passed.positional = max(passed.positional, positional)


def _patterns(pattern: cst.MatchPattern) -> Iterator[str]:
    if isinstance(pattern, cst.MatchValue):
        value = string_value(pattern.value)
        if value is not None:
            yield value
    elif isinstance(pattern, cst.MatchOr):
        for option in pattern.patterns:
            yield from _patterns(option.pattern)


def _keys(table: cst.Dict) -> list[str]:
    keys = [string_value(item.key) for item in table.elements if isinstance(item, cst.DictElement)]
    return [key for key in keys if key is not None]


def _show(found: Scan, name: str | None, values: list[str]) -> None:
    if name is not None and values:
        found.shown.setdefault(name, []).extend(values)
