"""Reads what a repository says about itself: printed lines, constants, README commands.

Looks only; nothing of the repository is run or imported. What can't be read is passed over.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 1024 * 1024
MAX_FILES = 2000
MAX_DEPTH = 3
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "sandbox"})
_HOLE = "\x00"  #: stands for a printed value
_SUMMARY_LINE = re.compile(rf"\s*([A-Za-z_][A-Za-z0-9_./@-]{{0,63}})\s*:\s*{_HOLE}\s*\Z")
_PERCENT = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")
_SAMPLE_LINE = re.compile(
    r"\s*`*([A-Za-z_][\w./@-]{0,63}):\s+[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?`*\s*\Z"
)
_TOOLS = r"(?:uv run|python3?|torchrun|accelerate launch)"
_INLINE_COMMAND = re.compile(rf"(?:`\s*|^\s*[$>]\s+)({_TOOLS}\s+[^`#&|;<>]+)")
_BLOCK_COMMAND = re.compile(rf"^\s*({_TOOLS}\s+[^`#&|;<>]+)")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of a file of the repository."""

    file: str  #: relative
    line: int  #: from 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A `name: value` line that a script prints, or that a README shows."""

    name: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A module-level number."""

    name: str
    value: float
    place: Place


@dataclass(frozen=True, kw_only=True)
class Script:
    """One Python file and what can be read from it."""

    file: str
    printed: tuple[Printed, ...]
    constants: tuple[Constant, ...]
    text: str
    broken_at: int | None  #: the line of a syntax error


@dataclass(frozen=True, kw_only=True)
class Prose:
    """One line of a README or program.md."""

    text: str
    place: Place
    in_code: bool = False  #: inside a fenced or indented block


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that a README shows."""

    words: tuple[str, ...]
    place: Place

    @property
    def script(self) -> str | None:
        """The Python file that it runs."""
        return next((word for word in self.words[1:] if word.endswith(".py")), None)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """All that is read."""

    root: Path
    scripts: tuple[Script, ...]
    prose: tuple[Prose, ...]

    def script(self, file: str) -> Script | None:
        """The script at the relative path *file*."""
        return next((script for script in self.scripts if script.file == file), None)

    def commands(self) -> Iterator[Command]:
        """Every command that the prose shows, in order."""
        for line in self.prose:
            pattern = _BLOCK_COMMAND if line.in_code else _INLINE_COMMAND
            for match in [*_INLINE_COMMAND.finditer(line.text), *pattern.finditer(line.text)]:
                try:
                    words = tuple(shlex.split(match[1]))
                except ValueError:
                    continue
                if not any("$" in word for word in words):
                    yield Command(words=words, place=line.place)

    def samples(self) -> Iterator[Printed]:
        """Every `name: number` line that the prose shows as output."""
        for line in self.prose:
            match = _SAMPLE_LINE.match(line.text)
            if match:
                yield Printed(name=match[1], place=line.place)


def read_repository(root: Path) -> Repository:
    """Read *root*'s Python files, at most three folders deep, and its README and program.md."""
    scripts: list[Script] = []
    prose: list[Prose] = []
    for path in _files(root):
        file = path.relative_to(root).as_posix()
        if path.suffix == ".py":
            scripts.append(_script(file, _text(path)))
        else:
            prose += _prose(file, _text(path))
    return Repository(root=root, scripts=tuple(scripts), prose=tuple(prose))


def _files(root: Path) -> Iterator[Path]:
    seen = 0
    for folder, folders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < MAX_DEPTH
            and not name.startswith(".")
            and name not in _SKIPPED
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            path = Path(folder) / name
            is_prose = depth == 0 and (name.lower().startswith("readme") or name == "program.md")
            if (name.endswith(".py") or is_prose) and path.is_file() and not path.is_symlink():
                seen += 1
                if seen > MAX_FILES:
                    return
                yield path


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return ""
    return data.decode("utf-8", "replace") if len(data) <= MAX_FILE_BYTES else ""


def _prose(file: str, text: str) -> list[Prose]:
    lines: list[Prose] = []
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        in_code = fenced or line.startswith(("    ", "\t"))
        lines.append(Prose(text=line, place=Place(file=file, line=number), in_code=in_code))
    return lines


def _script(file: str, text: str) -> Script:
    printed: list[Printed] = []
    constants: list[Constant] = []
    broken_at = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, e.g. invalid escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        broken_at = getattr(error, "lineno", None) or 1
        tree = ast.Module(body=[], type_ignores=[])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = Place(file=file, line=node.lineno)
            printed += [Printed(name=name, place=place) for name in _printed_names(node)]
    for statement in tree.body:
        constants += _constants(file, statement)
    printed.sort(key=lambda one: one.place.line)  # a walk goes level by level
    return Script(
        file=file,
        printed=tuple(printed),
        constants=tuple(constants),
        text=text,
        broken_at=broken_at,
    )


def _printed_names(call: ast.Call) -> list[str]:
    """The names of the whole `name: value` lines that *call* writes."""
    target = call.func
    is_print = isinstance(target, ast.Name) and target.id == "print"
    is_write = isinstance(target, ast.Attribute) and target.attr == "write"
    if not (is_print or is_write) or not call.args:
        return []
    text = " ".join(_shape(argument) for argument in call.args)
    matches = (_SUMMARY_LINE.match(line) for line in text.split("\n"))
    return [match[1] for match in matches if match]


def _shape(node: ast.expr) -> str:
    """The text of a printed expression with a hole for each value."""
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


def _constants(file: str, statement: ast.stmt) -> list[Constant]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    else:
        return []
    number = _number(value)
    place = Place(file=file, line=statement.lineno)
    return [
        Constant(name=target.id, value=number, place=place)
        for target in targets
        if number is not None and isinstance(target, ast.Name)
    ]


def _number(node: ast.expr) -> float | None:
    """A plain number, or a product of plain numbers as in `5 * 60`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return None if isinstance(node.value, bool) else float(min(node.value, 1e15))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return None if left is None or right is None else left * right
    return None
