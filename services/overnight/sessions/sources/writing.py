"""Which numbers a script writes into a JSON file: json.dump, write_text, Trainer.save_metrics."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from overnight.sessions.sources.facts import Place, Written

_HELD_OUT = ("eval", "test", "validation", "val")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./@-]{0,63}\Z")


def written_by(tree: ast.Module, file: str) -> Iterator[Written]:
    """What *tree* writes, in order."""
    dumps = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    places = list(_places(tree))
    for call in sorted(dumps, key=lambda node: node.lineno):
        name = _called(call)
        if name == "save_metrics":
            yield from _trainer(call, file, tree)
        elif name in ("dump", "dumps") and call.args and places:
            place = min(places, key=lambda one: abs(one.line - call.lineno))
            for key in _keys(call.args[0], tree):
                yield Written(
                    name=key, file=place.file, folder=place.folder, option=place.option,
                    place=Place(file=file, line=call.lineno),
                )  # fmt: skip


def _trainer(call: ast.Call, file: str, tree: ast.Module) -> Iterator[Written]:
    """`trainer.save_metrics("eval", metrics)` writes all_results.json into --output_dir."""
    split = call.args[0] if call.args else None
    if not (isinstance(split, ast.Constant) and split.value in _HELD_OUT):
        return
    prefix = "eval" if split.value in ("eval", "validation", "val") else str(split.value)
    place = Place(file=file, line=call.lineno)
    folder = _folders(tree).get("output_dir", "")
    names = [f"{prefix}_loss"]
    names += [key for key in _assigned(tree) if not key.startswith(("train", "eval_", "test_"))]
    for name in dict.fromkeys(names):
        yield Written(
            name=name, file="all_results.json", folder=folder, option="output_dir", place=place
        )


class _JsonPlace:
    """A file that the code names."""

    def __init__(self, file: str, folder: str, option: str | None, line: int) -> None:
        self.file, self.folder, self.option, self.line = file, folder, option, line


def _places(tree: ast.Module) -> Iterator[_JsonPlace]:
    """Where *.json files are named, with the option that names their folder."""
    known = _folders(tree)
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and _called(node) in ("join", "open", "Path", "joinpath"):
            parts = list(node.args)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.FormattedValue) else v for v in node.values]
        named = [p.value for p in parts if isinstance(p, ast.Constant) and
                 isinstance(p.value, str) and p.value.endswith(".json")]  # fmt: skip
        if not named:
            continue
        owner = next((p for p in parts if isinstance(p, ast.Name | ast.Attribute)), None)
        option = getattr(owner, "attr", getattr(owner, "id", None))
        folder = known.get(option or "", "")
        name = named[0].lstrip("/").removeprefix("./")
        if not name.startswith("..") and not folder.startswith(("/", "~", "..")):
            yield _JsonPlace(name, folder, option, getattr(node, "lineno", 1))


def _folders(tree: ast.Module) -> dict[str, str]:
    """Names of folders that are constants: OUT = Path("results"), output_dir="results"."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        for word in node.keywords if isinstance(node, ast.Call) else []:
            text = word.value.value if isinstance(word.value, ast.Constant) else None
            if word.arg and word.arg.endswith("dir") and isinstance(text, str):
                found[word.arg] = text
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value: ast.expr | None = statement.value
            if isinstance(value, ast.Call) and _called(value) == "Path" and value.args:
                value = value.args[0]
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[statement.targets[0].id] = value.value
    return found


def _keys(node: ast.expr, tree: ast.Module) -> list[str]:
    """The keys of a dictionary with a name or in place."""
    if isinstance(node, ast.Dict):
        return _of(node)
    if isinstance(node, ast.Name):
        return _assigned(tree, node.id)
    return []


def _assigned(tree: ast.Module, name: str | None = None) -> list[str]:
    """Keys that *name* (None: anything called metrics or results) is given in this file."""
    found: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            owner = target.value if isinstance(target, ast.Subscript) else target
            called = owner.id if isinstance(owner, ast.Name) else ""
            if called != name and not (name is None and called in ("metrics", "results")):
                continue
            if isinstance(target, ast.Subscript):
                key = target.slice
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.append(key.value)
            elif isinstance(node.value, ast.Dict):
                found += _of(node.value)
    return [key for key in dict.fromkeys(found) if _KEY.match(key)]


def _of(node: ast.Dict) -> list[str]:
    """Its keys; `outer.inner` where a value is itself a dictionary, which is no number."""
    found: list[str] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            inner = _of(value) if isinstance(value, ast.Dict) else None
            found += [key.value] if inner is None else [f"{key.value}.{one}" for one in inner]
    return [key for key in found if _KEY.match(key)]


def _called(call: ast.Call) -> str:
    target = call.func
    return str(getattr(target, "attr", getattr(target, "id", "")))
