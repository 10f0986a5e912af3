"""Code that says which way is better: `if val < best: best = val`, mode="min", max(best, x)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from overnight.sessions.sources.facts import Kept, Place

_BEST = frozenset(
    {"best", "min", "max", "minimum", "maximum", "lowest", "highest", "top", "record"}
)
_NOISE = frozenset({"self", "current", "curr", "cur", "new", "last", "so", "far", "this", "value"})
_MODES = {"min": "minimize", "max": "maximize", "minimize": "minimize", "maximize": "maximize"}

_MONITOR = re.compile(
    r"""\s*(?:monitor|optimized_metric)\s*:\s*["']?([A-Za-z_][\w./@-]{0,63})["']?"""
)
_MODE = re.compile(r"""\s*mode\s*:\s*["']?(min|max)["']?\s*(?:#.*)?$""")


def kept_by(node: ast.AST, file: str) -> Iterator[Kept]:
    """What *node* itself says."""
    if isinstance(node, ast.If):
        yield from _branch(node, file)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield from _assignment(node, file)
    elif isinstance(node, ast.Call):
        yield from _setting(node, file)


def _branch(node: ast.If, file: str) -> Iterator[Kept]:
    """`if new < best: best = new`. Only where the branch takes it: `if new > best: patience += 1`
    says the opposite."""
    for test in _comparisons(node.test):
        found = _direction(test)
        if found is None:
            continue
        words, lower, best = found
        taken = any(_assigns(statement, best) for statement in node.body)
        kept_else = any(_assigns(statement, best) for statement in node.orelse)
        if taken != kept_else:
            yield _kept(words, lower == taken, file, node.lineno)


def _assignment(node: ast.Assign, file: str) -> Iterator[Kept]:
    """`is_best = new > best`, `best = min(best, new)`."""
    target = _words(node.targets[0])
    if not target & _BEST:
        return
    value = node.value
    if isinstance(value, ast.Compare):
        found = _direction(value)
        if found is not None:
            yield _kept(found[0], found[1], file, node.lineno)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        names = [_words(argument) for argument in value.args]
        if value.func.id in ("min", "max") and len(names) == 2 and target in names:
            words = frozenset().union(*names) - _BEST - _NOISE
            yield _kept(words, value.func.id == "min", file, node.lineno)


def _setting(node: ast.Call, file: str) -> Iterator[Kept]:
    """`ModelCheckpoint(monitor="val_loss", mode="min")`, `greater_is_better=True`."""
    given = {word.arg: word.value for word in node.keywords if word.arg}
    name = _text(given.get("monitor")) or _text(given.get("metric_for_best_model"))
    if name is None:
        return
    mode = _MODES.get(_text(given.get("mode")) or "")
    greater = given.get("greater_is_better")
    if isinstance(greater, ast.Constant) and isinstance(greater.value, bool):
        mode = "maximize" if greater.value else "minimize"
    if mode is not None:
        place = Place(file=file, line=node.lineno)
        yield Kept(words=_split(name), direction=mode, place=place, name=name)


def kept_by_settings(text: str, file: str) -> Iterator[Kept]:
    """`monitor: "val/acc"` with a `mode: "max"` near it, in a YAML file."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        monitor = _MONITOR.match(line)
        if not monitor:
            continue
        near = lines[max(0, at - 6) : at + 7]
        modes = {match[1] for one in near for match in [_MODE.match(one)] if match}
        if len(modes) == 1:
            place = Place(file=file, line=at + 1)
            direction = _MODES[modes.pop()]
            yield Kept(words=_split(monitor[1]), direction=direction, place=place, name=monitor[1])


def _comparisons(test: ast.expr) -> Iterator[ast.Compare]:
    if isinstance(test, ast.Compare):
        yield test
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _comparisons(value)


def _direction(test: ast.Compare) -> tuple[frozenset[str], bool, frozenset[str]] | None:
    """(words compared, is the lower one taken, words of the best so far)."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    left, right = _words(test.left), _words(test.comparators[0])
    if bool(left & _BEST) == bool(right & _BEST):
        return None
    lower = isinstance(test.ops[0], ast.Lt | ast.LtE)
    new, best = (left, right) if right & _BEST else (right, left)
    if best is left:
        lower = not lower
    words = (new | best) - _BEST - _NOISE
    return words, lower, best


def _assigns(statement: ast.stmt, best: frozenset[str]) -> bool:
    for node in ast.walk(statement):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            if any(_words(part) == best for part in parts):
                return True
    return False


def _kept(words: frozenset[str], lower: bool, file: str, line: int) -> Kept:
    direction = "minimize" if lower else "maximize"
    return Kept(words=words, direction=direction, place=Place(file=file, line=line))


def _words(node: ast.expr) -> frozenset[str]:
    """The words of the names in a short expression: losses["val"] -> {losses, val}."""
    found: list[str] = []
    while True:
        if isinstance(node, ast.Subscript):
            key = node.slice
            found.append(key.value if isinstance(key, ast.Constant) and
                         isinstance(key.value, str) else "")  # fmt: skip
            node = node.value
        elif isinstance(node, ast.Attribute):
            found.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value  # loss.item()
        else:
            break
    if isinstance(node, ast.Name):
        found.append(node.id)
    return frozenset().union(*(_split(name) for name in found if name))


def _split(name: str) -> frozenset[str]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return frozenset(_single(word) for word in words if word)


def _single(word: str) -> str:
    return {"losses": "loss", "accuracies": "accuracy", "scores": "score", "accs": "acc"}.get(
        word, word
    )


def _text(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None
