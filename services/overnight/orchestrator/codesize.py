"""How much code a candidate is, however it is laid out. Pure.

Reformatting, comments, docstrings and blank lines change nothing, nor does joining statements by
`;` or into one dense expression: what is counted is what the parser finds, not where lines end.
It says nothing about whether the code is good, or reached at all.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

PARTS = 20  #: expressions that one line of a statement may hold; more are another line
TEXT_PART = 2  #: characters of a string constant that weigh as much as one expression
CHARACTERS = 40  #: without spaces, of a line in a file that is not Python

_PYTHON = frozenset({".py", ".pyi"})
_HASH = frozenset(
    {".yaml", ".yml", ".toml", ".sh", ".bash", ".jl", ".r", ".cfg", ".ini", ".conf", ".rb", ".pl"}
)
_SLASHES = frozenset(
    {
        ".c",
        ".cc",
        ".cpp",
        ".cu",
        ".cuh",
        ".h",
        ".hpp",
        ".js",
        ".ts",
        ".rs",
        ".go",
        ".java",
        ".swift",
    }
)
_HASH_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_SLASH_COMMENT = re.compile(r"^[ \t]*//[^\n]*$|/\*.*?\*/", re.MULTILINE | re.DOTALL)


def code_lines(files: Mapping[str, str]) -> int:
    """The size of all *files* (path -> text), in lines of ordinary length."""
    return sum(_lines_of(path, text) for path, text in files.items())


def _lines_of(path: str, text: str) -> int:
    kind = PurePosixPath(path).suffix.lower()
    if kind in _PYTHON:
        tree = _parsed(text)
        if tree is not None:
            return sum(_weight(node) for node in ast.walk(tree) if isinstance(node, ast.stmt))
    return _text_lines(kind, text)


def _parsed(text: str) -> ast.Module | None:
    """None: it is not Python as this interpreter knows it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its escapes: not ours to complain about
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _weight(statement: ast.stmt) -> int:
    """Lines that one statement takes, without the statements inside it."""
    if isinstance(statement, ast.Pass):
        return 0
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return 0  # a docstring, or a text that serves as a comment
    parts, branches = 0, 0
    for node in _own(statement):
        branches += isinstance(node, ast.ExceptHandler | ast.match_case)
        parts += isinstance(node, ast.expr)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            parts += len(node.value) // TEXT_PART
    return 1 + branches + max(0, parts - 1) // PARTS


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    pending = list(ast.iter_child_nodes(statement))
    while pending:
        node = pending.pop()
        if not isinstance(node, ast.stmt):
            yield node
            pending.extend(ast.iter_child_nodes(node))


def _text_lines(kind: str, text: str) -> int:
    if kind in _HASH or kind in _PYTHON:
        text = _HASH_COMMENT.sub("", text)
    elif kind in _SLASHES:
        text = _SLASH_COMMENT.sub("", text)
    characters = len("".join(text.split()))
    return -(-characters // CHARACTERS)
