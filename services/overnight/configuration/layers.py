"""The sources of a loop's values, lowest first: track.yaml, loop.run.yaml, OVERNIGHT_*, flags."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overnight.configuration.keys import SECTIONS, Layer
from overnight.configuration.yaml_file import KeyPath, load_document, scalar
from overnight.contracts.errors import ConfigError

LOOP_FILE = "loop.run.yaml"
PREFIX = "OVERNIGHT_"

#: OVERNIGHT_* names that are no keys of the loop: folders, service settings, what candidates see.
RESERVED = ("STATE", "DEVICE_LOCKS", "CONFIG", "FAULT", "LOG", "REDIS")
SERVICES = ("ORCHESTRATOR", "RUNNER", "RECORDER", "SUPERVISOR", "DEVICES")

#: Keys whose text is never read as a number or a truth value.
_TEXT_KEYS = frozenset(
    {"run_cmd", "entrypoint", "sandbox_root", "python", "editable_files", "frozen_files"}
    | {"reads", "pass_env", "image"}
)


def file_layer(source: Path | str, label: str, *, is_track: bool = False) -> Layer:
    """A YAML file's (or text's) values. Raises ConfigError naming the file and line."""
    document = load_document(source, label)
    names = {key: f"{label}:{line}" for key, line in document.lines.items()}
    return Layer(
        label=label, values=document.values, names=names, names_keys=False, is_track=is_track
    )


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The keys that OVERNIGHT_<KEY> sets, dots as `__`. An empty value sets nothing.

    Raises:
        ConfigError: a name that is nearly a key's, or a value that is not YAML.
    """
    values: dict[str, Any] = {}
    names: dict[KeyPath, str] = {}
    for name in sorted(environ):
        path = _key_path(name)
        if path is None or (not environ[name] and path[0] != "env"):
            continue
        _put(values, path, _env_value(name, path, environ[name]), name)
        names[path] = name
    return Layer(label="the environment", values=values, names=names, names_keys=True)


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """What the command line sets: dotted key -> value. None means the flag was not given."""
    values: dict[str, Any] = {}
    names: dict[KeyPath, str] = {}
    for key in sorted(flags):
        if flags[key] is None:
            continue
        path: KeyPath = tuple(key.split("."))
        value = flags[key]
        _put(values, path, list(value) if isinstance(value, tuple) else value, key)
        last = path[-2] if path[-1] == "name" and len(path) > 1 else path[-1]
        names[path] = "--" + str(last).replace("_", "-")
    return Layer(label="the command line", values=values, names=names, names_keys=True)


def _key_path(name: str) -> KeyPath | None:
    if not name.startswith(PREFIX):
        return None
    parts = name.removeprefix(PREFIX).split("__")
    head = parts[0].lower()
    if head in SECTIONS[()]:
        if head == "env":
            return ("env", *parts[1:])  # a variable's name keeps its case
        return tuple(part.lower() for part in (head, *parts[1:]))
    if parts[0].split("_")[0] in SERVICES or parts[0].startswith(RESERVED):
        return None
    close = difflib.get_close_matches(head, sorted(SECTIONS[()]), n=1, cutoff=0.8)
    if close:
        rest = "".join(f"__{part}" for part in parts[1:])
        raise ConfigError(
            f"{name} is not a known key: did you mean {PREFIX}{close[0].upper()}{rest}?"
        )
    return None  # not ours to judge


def _env_value(name: str, path: KeyPath, text: str) -> Any:
    if path[0] == "env" and len(path) > 1:
        return text
    if text.startswith(("[", "{")):
        return load_document(f"value: {text}", name).values["value"]
    if path[0] in _TEXT_KEYS:
        return text
    try:
        return scalar(text.strip())
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _put(values: dict[str, Any], path: KeyPath, value: Any, name: str) -> None:
    here = values
    for part in path[:-1]:
        inner = here.setdefault(str(part), {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{name} contradicts the shorter form of the same key: keep one")
        here = inner
    last = str(path[-1])
    if last in here:
        raise ConfigError(f"{name} contradicts the longer form of the same key: keep one")
    here[last] = value
