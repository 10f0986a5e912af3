"""Reads one small YAML mapping strictly: no tags, anchors, doubled keys or surprises.

Scalars follow YAML 1.2's core schema, so `on`, `1:30` and `2026-01-01` stay text and `1e-3` is a
number. Every problem is a ConfigError of one line that names the file and the line or key.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.events import AliasEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from overnight.contracts.errors import ConfigError

MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
_SHOWN = 60  #: characters of a user's text that an error message quotes

KeyPath = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9]{1,18}\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Document:
    """A mapping and the line (from 1) on which each of its keys stands."""

    name: str  #: how messages call it
    values: dict[str, Any]
    lines: dict[KeyPath, int]


def load_yaml(source: Path | str, what: str) -> dict[str, Any]:
    """The mapping in *source*, a file's path or a text. An empty text is an empty mapping.

    Raises:
        ConfigError: not readable, over 64 KiB, not UTF-8, not YAML, not a plain mapping.
    """
    return load_document(source, what).values


def load_document(source: Path | str, what: str) -> Document:
    """As `load_yaml`, with the lines kept for messages that name a key."""
    text = _read(source, what) if isinstance(source, Path) else source
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ConfigError(f"{what}: larger than {MAX_BYTES // 1024} KiB")
    root = _compose(text.removeprefix("\ufeff"), what)
    if root is None:
        return Document(name=what, values={}, lines={})
    if not isinstance(root, MappingNode):
        raise ConfigError(f"{what}:1: must hold `key: value` lines, not a {_kind(root)}")
    lines: dict[KeyPath, int] = {}
    return Document(name=what, values=_mapping(root, (), lines, what), lines=lines)


def scalar(text: str) -> Any:
    """What a plain YAML scalar means: null, a truth value, a number or the text itself.

    Raises:
        ConfigError: a number too large to be one.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ConfigError(f"the number {shown(text)} is out of range")
        return value
    return text


def shown(value: object) -> str:
    """A user's value, short and on one line, for a message."""
    text = "null" if value is None else repr(value)
    if isinstance(value, bool):
        text = text.lower()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def printable(text: str) -> str:
    """*text* on one line, with what a terminal could obey replaced."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _read(path: Path, what: str) -> str:
    try:
        # Not blocking: a named pipe in the place of the file must not hang us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{what}: {path} is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{what}: can't read {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{what}: larger than {MAX_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{what}:{line}: not UTF-8: save it as UTF-8") from error


class _Loader(yaml.SafeLoader):
    """Composes nodes only; refuses aliases, anchors and tags before anything is built."""

    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _RefusedError(line, "anchors and aliases (& and *) are not allowed")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _RefusedError(line, f"tags are not allowed: {shown(str(tag))}")
        if self.depth >= MAX_DEPTH:
            raise _RefusedError(line, f"nested deeper than {MAX_DEPTH}")
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        # Keep how a scalar was written: only a plain one can be anything but text.
        if kind is ScalarNode:
            return "plain" if implicit[0] else "text"
        return ""


class _RefusedError(Exception):
    """A construct that we refuse, and its line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def _compose(text: str, what: str) -> Node | None:
    try:
        loader = _Loader(text)
        try:
            node: Node | None = loader.get_single_node()
        finally:
            loader.dispose()
        return node
    except _RefusedError as error:
        raise ConfigError(f"{what}:{error.line}: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        problem = " ".join((error.problem or error.context or "unreadable").split())
        raise ConfigError(f"{what}:{line}: not YAML: {_short(problem)}") from error
    except yaml.YAMLError as error:  # the reader's: a character that YAML does not allow
        position = getattr(error, "position", 0)
        line = text.count("\n", 0, position if isinstance(position, int) else 0) + 1
        raise ConfigError(f"{what}:{line}: holds a character that YAML does not allow") from error
    except (ValueError, IndexError, RecursionError, OverflowError) as error:
        # PyYAML lets a few of these through, e.g. for an escape beyond Unicode.
        raise ConfigError(f"{what}: not YAML: {_short(str(error))}") from error


def _construct(node: Node, path: KeyPath, lines: dict[KeyPath, int], what: str) -> Any:
    if isinstance(node, MappingNode):
        return _mapping(node, path, lines, what)
    if isinstance(node, SequenceNode):
        result = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            result.append(_construct(item, (*path, index), lines, what))
        return result
    line = node.start_mark.line + 1
    text = str(node.value)
    if _UNPRINTABLE.search(text):
        raise ConfigError(f"{what}:{line}: {dotted(path) or 'a key'}: holds a control character")
    if node.tag != "plain":
        return text
    try:
        return scalar(text)
    except ConfigError as error:
        raise ConfigError(f"{what}:{line}: {dotted(path)}: {error}") from error


def _mapping(
    node: MappingNode, path: KeyPath, lines: dict[KeyPath, int], what: str
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key: Hashable = (
            _construct(key_node, path, lines, what) if isinstance(key_node, ScalarNode) else None
        )
        if not isinstance(key, str) or not key:
            raise ConfigError(f"{what}:{line}: a key must be text, not {_shown_key(key_node)}")
        if key == "<<":
            raise ConfigError(f"{what}:{line}: merging with << is not allowed")
        here = (*path, key)
        if key in result:
            raise ConfigError(
                f"{what}:{line}: {dotted(here)} stands twice (first on line {lines[here]})"
            )
        lines[here] = line
        result[key] = _construct(value_node, here, lines, what)
    return result


def dotted(path: KeyPath) -> str:
    """A key path as a person writes it."""
    return _short(".".join(str(part) for part in path))


def _shown_key(node: Node) -> str:
    return shown(node.value) if isinstance(node, ScalarNode) else f"a {_kind(node)}"


def _kind(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "mapping"
    return "list" if isinstance(node, SequenceNode) else "single value"


def _short(text: str) -> str:
    clean = printable(text)
    return clean if len(clean) <= 2 * _SHOWN else f"{clean[: 2 * _SHOWN - 3]}..."
