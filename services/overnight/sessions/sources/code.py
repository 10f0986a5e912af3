"""Reads one Python file without running it: what it prints, keeps, writes, and names."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from overnight.sessions.sources.facts import Constant, Kept, Place, Printed, Script, Text
from overnight.sessions.sources.keeping import kept_by
from overnight.sessions.sources.printing import logged_by, printed_by
from overnight.sessions.sources.writing import written_by

_OPTION = re.compile(r"--[\w-]+\Z")


def script_of(file: str, text: str) -> Script:
    """What *text*, the content of *file*, says. A syntax error leaves `broken_at` and no facts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, e.g. invalid escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Script(file=file, text=text, broken_at=getattr(error, "lineno", None) or 1)
    printed: list[Printed] = []
    own = _printing(tree)
    kept: list[Kept] = []
    for node, loop in _walk(tree, _called_in_loops(tree)):
        if isinstance(node, ast.Call):
            printed += [*printed_by(node, file, loop, own), *logged_by(node, file)]
        kept += kept_by(node, file)
    constants = [one for statement in tree.body for one in _constants(file, statement)]
    return Script(
        file=file,
        printed=tuple(sorted(printed, key=lambda one: one.place.line)),
        written=tuple(written_by(tree, file)),
        kept=tuple(kept),
        constants=(*constants, *_options(tree, file)),
        texts=tuple(_texts(tree, file)),
        text=text,
    )


def _printing(tree: ast.Module) -> frozenset[str]:
    """Functions of the file's own that print what they are told, such as `log0(text)`."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        told = {argument.arg for argument in node.args.args}
        for call in ast.walk(node):
            is_print = isinstance(call, ast.Call) and getattr(call.func, "id", "") == "print"
            first = call.args[:1] if isinstance(call, ast.Call) and is_print else []
            if told & {one.id for one in first if isinstance(one, ast.Name)}:
                found.add(node.name)
    return frozenset(found)


def _called_in_loops(tree: ast.Module) -> frozenset[str]:
    """Functions that some loop calls: what these print is printed again and again."""
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.AsyncFor | ast.While)]
    calls = (call for loop in loops for call in ast.walk(loop) if isinstance(call, ast.Call))
    return frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))


def _walk(root: ast.AST, again: frozenset[str]) -> Iterator[tuple[ast.AST, str | None]]:
    """Every node, with what repeats it: the variable of the innermost `for` around it, `while`,
    or the function, if it is one of *again*. No recursion: code may nest deeper than we can stack.
    """
    pending: list[tuple[ast.AST, str | None]] = [(root, None)]
    while pending:
        node, around = pending.pop()
        yield node, around
        inner = around
        if isinstance(node, ast.For | ast.AsyncFor):
            inner = ast.unparse(node.target)[:60]
        elif isinstance(node, ast.While):
            inner = inner or "while"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{node.name}()" if node.name in again else None
        body = getattr(node, "body", [])
        inside = {id(child) for child in body} if isinstance(body, list) else set()
        for child in ast.iter_child_nodes(node):
            pending.append((child, inner if id(child) in inside else around))


def _constants(file: str, statement: ast.stmt) -> list[Constant]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    else:
        return []
    number = number_of(value)
    place = Place(file=file, line=statement.lineno)
    return [
        Constant(name=target.id, value=number, place=place)
        for target in targets
        if number is not None and isinstance(target, ast.Name)
    ]


def _options(tree: ast.Module, file: str) -> Iterator[Constant]:
    """Defaults of `add_argument("--epochs", default=3)`, under the option's name."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "add_argument":
            continue
        names = [a.value for a in node.args if isinstance(a, ast.Constant)]
        option = next((n for n in names if isinstance(n, str) and _OPTION.match(n)), None)
        default = next((k.value for k in node.keywords if k.arg == "default"), None)
        number = number_of(default) if default is not None else None
        if option and number is not None:
            yield Constant(name=option, value=number, place=Place(file=file, line=node.lineno))


def number_of(node: ast.expr) -> float | None:
    """A plain number, or a product of plain numbers as in `5 * 60`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return None if isinstance(node.value, bool) else float(min(node.value, 1e15))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = number_of(node.left), number_of(node.right)
        return None if left is None or right is None else left * right
    return None


def _texts(tree: ast.Module, file: str) -> Iterator[Text]:
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and 0 < len(value) <= 400 and "\n" not in value:
            yield Text(value=value, place=Place(file=file, line=getattr(node, "lineno", 1)))
