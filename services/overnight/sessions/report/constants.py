"""The constants at the top level of the editable Python files: the configuration that ran. Pure."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping

from overnight.contracts.tunable import is_never_tuned

MAX_CHARS = 400_000
MAX_CONSTANTS = 60
#: Words of settings in most scripts. Proposers are plug-ins, so the search is not asked.
_TELLING = frozenset(
    {"lr", "rate", "decay", "wd", "momentum", "beta", "betas", "eps", "batch", "accumulation"}
    | {"layer", "layers", "depth", "head", "heads", "dim", "embd", "hidden", "width", "units"}
    | {"dropout", "clip", "warmup", "warmdown", "block", "seq", "context", "estimators", "leaf"}
    | {"leaves", "neighbors", "components", "activation", "norm", "optimizer"}
)


def constants(texts: Mapping[str, str]) -> dict[str, str]:
    """Name -> its literal as it is written: `LR` -> `3e-3`. Nothing for what can't be read."""
    found: dict[str, str] = {}
    for path, text in sorted(texts.items()):
        if path.endswith(".py") and len(text) <= MAX_CHARS:
            for name, literal in _of(text):
                found.setdefault(name, literal)
    return dict(list(found.items())[:MAX_CONSTANTS])


def compared(best: Mapping[str, str], baseline: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Name -> its text in the best and in the baseline, `-` where it is not there."""
    names = [*best, *(name for name in baseline if name not in best)]
    return {name: (best.get(name, "-"), baseline.get(name, "-")) for name in names}


def _of(text: str) -> list[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in somebody's code
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name) and _is_setting(target.id) and _is_literal(value):
            found.append((target.id, (ast.get_source_segment(text, value) or "")[:100]))
    return found


def _is_setting(name: str) -> bool:
    """In capitals, or a lower-case name that tells what it is for."""
    words = name.lower().rstrip("0123456789").split("_")
    return name.isupper() or (not is_never_tuned(name) and not _TELLING.isdisjoint(words))


def _is_literal(node: ast.expr) -> bool:
    """A number, a text, a boolean; also with a minus before it."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str)
