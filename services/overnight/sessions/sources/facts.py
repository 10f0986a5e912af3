"""What can be read from a repository, as values: printed lines, constants, commands, prose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Programs that README files start a training with.
_TOOLS = (
    r"(?:uv run|python3?|torchrun|accelerate launch|deepspeed|poetry run|pdm run"
    r"|bash|sh|\./[\w./-]+\.sh)"
)
_BEFORE = r"(?:(?:cd\s+[\w./-]+\s*&&\s*)?(?:[A-Z_][A-Z0-9_]*=[^\s`]*\s+)*)"
_INLINE_COMMAND = re.compile(rf"(?:`\s*|^\s*[$>%]\s+)({_BEFORE}{_TOOLS}(?:\s+[^`#&|;<>]+)?)")
_BLOCK_COMMAND = re.compile(rf"^\s*({_BEFORE}{_TOOLS}(?:\s+[^`#&|;<>]+)?)")
_CHANGE_FOLDER = re.compile(r"^\s*[$>%]?\s*cd\s+([\w./-]+)\s*$")
_SAMPLE_LINE = re.compile(
    r"\s*`*([A-Za-z_][\w./@-]{0,63}):\s+[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?`*\s*\Z"
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of a file of the repository."""

    file: str  #: relative
    line: int  #: from 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A number that a script prints under a name, or that a README shows."""

    name: str
    place: Place
    regex: str | None = None  #: how it is found in a line; None: the line is `name: value`
    repeated: str | None = None  #: the loop's variable, where a loop prints it again and again
    in_table: bool = False  #: logged to a framework, which shows it in its tables


@dataclass(frozen=True, kw_only=True)
class Written:
    """A number that a script writes into a JSON file."""

    name: str  #: its key
    file: str
    place: Place
    folder: str = ""  #: below the working folder, where the command says no other
    option: str | None = None  #: the command's option that names the folder


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Code that keeps the lower or the higher of two values."""

    words: frozenset[str]  #: of the names compared, e.g. {val, loss}
    direction: str  #: minimize or maximize
    place: Place
    name: str | None = None  #: of a metric that a setting monitors


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A module-level number, or the default of a command-line option."""

    name: str
    value: float
    place: Place


@dataclass(frozen=True, kw_only=True)
class Text:
    """A string that stands in the code."""

    value: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Script:
    """One Python file and what can be read from it."""

    file: str
    printed: tuple[Printed, ...] = ()
    written: tuple[Written, ...] = ()
    kept: tuple[Kept, ...] = ()
    constants: tuple[Constant, ...] = ()
    texts: tuple[Text, ...] = ()
    text: str = ""
    broken_at: int | None = None  #: the line of a syntax error

    def imports(self, other: Script) -> bool:
        """Does it import *other*, by any part of its dotted name?"""
        parts = Path(other.file).with_suffix("").parts
        parts = parts[1:] if parts[0] == "src" else parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not parts:
            return False
        package, module = r"\.".join(map(re.escape, parts[:-1])), re.escape(parts[-1])
        whole = rf"{package}\.{module}" if package else module
        relative = rf"\.{module}\b|\.\s+import\s+[\w, ]*\b{module}\b"
        pattern = rf"^\s*(?:(?:from|import)\s+{whole}\b"
        if package:
            pattern += rf"|from\s+{package}\s+import\s+[\w, (]*\b{module}\b|from\s+(?:{relative})"
        return re.search(pattern + ")", self.text, re.M) is not None


@dataclass(frozen=True, kw_only=True)
class Prose:
    """One line of a README, a program.md or a docstring."""

    text: str
    place: Place
    in_code: bool = False  #: inside a fenced or indented block


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that a README, a shell script or pyproject.toml shows."""

    words: tuple[str, ...]
    place: Place
    folder: str = ""  #: where it is meant to be started, relative
    env: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """As it stands there."""
        return " ".join(self.words)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """All that is read."""

    root: Path
    scripts: tuple[Script, ...]
    prose: tuple[Prose, ...]
    shell: tuple[Prose, ...] = ()  #: lines of *.sh at the top
    entries: dict[str, tuple[str, Place]] = field(default_factory=dict)
    #: pyproject's [project.scripts]: name -> (module:function, where)
    settings: tuple[Kept, ...] = ()  #: `monitor:` and `mode:` in YAML files
    files: frozenset[str] = frozenset()  #: names of all files seen, Python or not

    def script(self, file: str) -> Script | None:
        """The script at the relative path *file*."""
        return next((script for script in self.scripts if script.file == file), None)

    def module(self, name: str) -> Script | None:
        """The script that `python -m name` runs."""
        path = name.replace(".", "/")
        tails = (f"{path}.py", f"{path}/__main__.py")
        found = (self.script(f"{top}{tail}") for top in ("", "src/") for tail in tails)
        return next((script for script in found if script is not None), None)

    def commands(self) -> Iterator[Command]:
        """Every command that the prose shows, in order; then those of shell scripts."""
        yield from _commands(self.prose)
        yield from _commands(self.shell)

    def samples(self) -> Iterator[Printed]:
        """Every `name: number` line that the prose shows as output."""
        for line in self.prose:
            match = _SAMPLE_LINE.match(line.text)
            if match:
                yield Printed(name=match[1], place=line.place)


def _commands(lines: tuple[Prose, ...]) -> Iterator[Command]:
    folder = ""
    for line in _joined(lines):
        if not line.in_code:
            folder = ""
        if line.text.lstrip().startswith(("```", "~~~")):
            continue
        moved = _CHANGE_FOLDER.match(line.text)
        if moved and line.in_code:
            folder = moved[1].strip("/")
            continue
        pattern = _BLOCK_COMMAND if line.in_code else _INLINE_COMMAND
        for match in [*_INLINE_COMMAND.finditer(line.text), *pattern.finditer(line.text)]:
            command = _command(match[1], line.place, folder)
            if command is not None:
                yield command


def _joined(lines: tuple[Prose, ...]) -> Iterator[Prose]:
    """Lines of code blocks that end with a backslash, put together with those that follow."""
    held: Prose | None = None
    for line in lines:
        text = line.text if held is None else f"{held.text} {line.text.strip()}"
        first = line if held is None else held
        held = None
        if line.in_code and text.rstrip().endswith("\\"):
            held = Prose(text=text.rstrip().removesuffix("\\"), place=first.place, in_code=True)
            continue
        yield Prose(text=text, place=first.place, in_code=line.in_code)
    if held is not None:
        yield held


def _command(text: str, place: Place, folder: str) -> Command | None:
    moved = re.match(r"cd\s+([\w./-]+)\s*&&\s*", text)
    if moved:
        folder, text = moved[1].strip("/"), text[moved.end() :]
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    env = []
    while words and re.match(r"[A-Z_][A-Z0-9_]*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        env.append((name, value))
    if len(words) == 1 and not words[0].endswith(".sh"):
        return None  # the name of a program in a sentence
    if not words or any("$" in word for word in words) or (folder and ".." in folder):
        return None
    folder = "" if folder == "." else folder.removeprefix("./")
    return Command(words=tuple(words), place=place, folder=folder, env=tuple(env))
