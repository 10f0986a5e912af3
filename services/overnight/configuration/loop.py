"""Resolves a session's bindings: flag > OVERNIGHT_<KEY> > loop.run.yaml > track.yaml > default."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from overnight.configuration import image, paths
from overnight.configuration.keys import Layer, Leaf, Leaves, direction_by_name, leaves
from overnight.configuration.layers import LOOP_FILE, environment_layer, file_layer, flag_layer
from overnight.configuration.measures import check_places
from overnight.configuration.places import device_lock_dir, socket_dir, state_dir
from overnight.configuration.program_file import PROGRAM_FILE
from overnight.configuration.yaml_file import KeyPath, dotted, printable, shown
from overnight.contracts.errors import ConfigError, WireError
from overnight.contracts.loop import LoopConfig
from overnight.contracts.wire import canonical

DEFAULT = "default"

#: Set for every candidate or by the sandbox; a config that sets them would be ignored or lie.
_OURS_IN_ENV = frozenset({"HOME", "TMPDIR"})


@dataclass(frozen=True, kw_only=True)
class ResolvedLoop:
    """A session's bindings, checked against its repository."""

    config: LoopConfig
    origins: Mapping[
        str, str
    ]  #: dotted key -> "--budget", "OVERNIGHT_BUDGET", "loop.run.yaml:7", ...
    repo: Path  #: absolute
    session_root: Path  #: sandbox_root, absolute; another tag appends to its name

    def origin(self, key: str) -> str:
        """Where the value of the dotted *key* came from."""
        return self.origins.get(key, DEFAULT)


def resolve_loop(
    repo: Path,
    *,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    track: Path | None = None,
    loop_text: str | None = None,
) -> ResolvedLoop:
    """The bindings of *repo*. *flags*: dotted key -> value, None for a flag that was not given.

    *loop_text* stands in for the repository's loop.run.yaml, to check one before it is written.

    Raises:
        ConfigError: one line that names the file and line, variable or flag, and the fix.
    """
    try:
        return _resolve(repo, flags, environ, track, loop_text)
    except ConfigError as error:
        # Messages quote what the user wrote, wherever it came from: one line, whatever it holds.
        raise ConfigError(printable(str(error))) from error


def _resolve(
    repo: Path,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    track: Path | None,
    loop_text: str | None,
) -> ResolvedLoop:
    folder = Path(os.path.realpath(repo))
    if any("\ud800" <= letter <= "\udfff" for letter in str(folder)):
        raise ConfigError(f"{shown(str(folder))}: the name is not UTF-8: rename the folder")
    if not folder.is_dir():
        raise ConfigError(f"{repo} is not a folder")
    layers: list[Layer] = []
    if track is not None:
        layers.append(file_layer(track, track.name, is_track=True))
    loop_file = folder / LOOP_FILE
    if loop_text is not None:
        layers.append(file_layer(loop_text, LOOP_FILE))
    elif os.path.lexists(loop_file):
        layers.append(file_layer(loop_file, LOOP_FILE))
    layers += [environment_layer(environ), flag_layer(flags)]
    merged = _merge(leaves(layer) for layer in layers)
    _require(merged, folder)
    config = _validate(merged)
    return _check(config, merged, folder, environ)


def _merge(layers: Iterable[Leaves]) -> Leaves:
    merged: Leaves = {}
    for layer in layers:
        name = layer.get(("proposer", "name"))
        before = merged.get(("proposer", "name"))
        if name is not None and (before is None or before.value != name.value):
            # Another proposer: the options of the one before mean nothing to it.
            merged = {
                key: leaf for key, leaf in merged.items() if key[:2] != ("proposer", "options")
            }
        metric = layer.get(("metric", "name"))
        if metric is not None and merged.get(("metric", "name"), metric).value != metric.value:
            # Another metric: the direction of the one before is no evidence for it.
            merged = {key: leaf for key, leaf in merged.items() if key[0] != "metric"}
        merged.update(layer)
    return merged


def _require(merged: Leaves, repo: Path) -> None:
    """All keys without a default are there; a known measure's name gives its direction."""
    missing = [
        dotted(key)
        for key in (("metric", "name"), ("run_cmd",), ("editable_files",))
        if key not in merged
    ]
    if missing:
        keys = ", ".join("metric" if key == "metric.name" else key for key in missing)
        if not (repo / LOOP_FILE).exists():
            raise ConfigError(
                f"no {LOOP_FILE} in {repo}: run `overnight init` there ({keys} unset)"
            )
        raise ConfigError(f"{LOOP_FILE}: {keys} missing: add it, or run `overnight init` again")
    if ("metric", "direction") not in merged:
        name = merged[("metric", "name")]
        direction = direction_by_name(str(name.value))
        if direction is None:
            where = name.where.removesuffix(".name")
            raise ConfigError(f"{where}.direction is missing: write minimize or maximize")
        merged[("metric", "direction")] = Leaf(direction, f"the name {name.value}", name.where)


def _validate(merged: Leaves) -> LoopConfig:
    values: dict[str, Any] = {}
    for path, leaf in merged.items():
        here = values
        for part in path[:-1]:
            here = here.setdefault(str(part), {})
        here[str(path[-1])] = leaf.value
    try:
        # Through JSON: lists become tuples and names become enums, nothing else is converted.
        return LoopConfig.model_validate_json(canonical(values))
    except WireError as error:
        raise ConfigError(f"the bindings hold a value that is no plain data: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(_explain(first, values, merged)) from error


def _explain(error: ErrorDetails, values: dict[str, Any], merged: Leaves) -> str:
    """One line for the first thing that the contract does not accept."""
    path: KeyPath = ()
    here: Any = values
    for part in error["loc"]:
        # Names of a union's members stand in `loc` too; only real keys and indexes count.
        is_index = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if is_index or (isinstance(here, dict) and part in here):
            here = here[part]
        elif part == "[key]":
            break
        else:
            continue
        path = (*path, part)
    where = dotted(path) or "the bindings"
    for length in range(len(path), 0, -1):
        leaf = merged.get(path[:length])
        if leaf is not None:
            rest = dotted(path[length:])
            where = f"{leaf.where}.{rest}" if rest else leaf.where
            break
    return f"{where}: {_problem(error, here, path)}"


def _problem(error: ErrorDetails, value: Any, path: KeyPath) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if path == ("frozen_files",):
        return f"must be auto or a list of paths, not {shown(value)}"
    if path[-1:] == ("runners",):
        return f"must be auto or a whole number from 1 to 1024, not {shown(value)}"
    if path[-1:] == ("tie_epsilon",) and not kind.startswith("greater_than"):
        return f"must be auto or a number in units of the metric, not {shown(value)}"
    if path[-1:] == ("budget",) and isinstance(value, str):
        return f"must be a number without a unit, not {shown(value)}"
    if kind in ("literal_error", "enum"):
        return f"must be {context['expected']}, not {shown(value)}".replace("'", "")
    if kind == "value_error":
        return f"{shown(value)} {context['error']}"
    if kind.endswith("too_short") or kind.endswith("too_long"):
        return "is empty" if kind.endswith("too_short") else "is too long"
    if kind.startswith(("greater_than", "less_than")):
        return f"{shown(value)} is out of range: {error['msg'].lower()}"
    if kind == "string_pattern_mismatch":
        return f"{shown(value)} is not a valid name"
    expected = {
        "float": "a number",
        "int": "a whole number",
        "string": "text",
        "bool": "true or false",
        "tuple": "a list",
        "dict": "a mapping",
        "model": "a mapping",
    }.get(kind.split("_")[0])
    if expected is None:
        return f"{error['msg'].lower()}, not {shown(value)}"
    quotes = isinstance(value, bool | int | float) and expected == "text"
    hint = f' (write "{str(value).lower()}" in quotes)' if quotes else ""
    return f"must be {expected}, not {shown(value)}{hint}"


def _check(
    config: LoopConfig, merged: Leaves, repo: Path, environ: Mapping[str, str]
) -> ResolvedLoop:
    where = partial(_where, merged)
    editable = paths.repo_paths(repo, config.editable_files, where("editable_files"), folders=False)
    frozen = config.frozen_files
    if not isinstance(frozen, str):
        frozen = paths.repo_paths(repo, frozen, where("frozen_files"), folders=True)
        paths.check_frozen(editable, frozen, where("frozen_files"))
    paths.check_command_files(repo, config.run_cmd, where("run_cmd"))
    root = paths.session_root(repo, config.sandbox_root, environ, where("sandbox_root"))
    for path in editable:
        if (repo / path).is_relative_to(root) or path == LOOP_FILE:
            raise ConfigError(f"{where('editable_files')}: {path} is Overnight's own")
        if path == PROGRAM_FILE:
            raise ConfigError(
                f"{where('editable_files')}: {path} is what a person asks for: no proposal edits it"
            )
    private = {
        root: "the session's folder",
        socket_dir(environ): "the embedded services' sockets",
        state_dir(environ): "the embedded services' folder",
        device_lock_dir(environ): "the device locks",
    }
    reads = paths.read_paths(
        repo, config.reads, environ, where("reads"), private, may_come=config.prepare is not None
    )
    _check_env(config, merged)
    image.check(config, repo, where)
    python = config.python
    if python != "auto":
        expanded = Path(paths.expand(python, environ, where("python")))
        python = str(expanded if expanded.is_absolute() else repo / expanded)
        if not os.access(python, os.X_OK) or Path(python).is_dir():
            raise ConfigError(f"{where('python')}: {python} is no program that can be run")
    changed = config.model_copy(
        update={
            "editable_files": editable,
            "frozen_files": frozen,
            "reads": reads,
            "python": python,
        }
    )
    check_places(changed, repo, where)
    origins = {dotted(key): leaf.origin for key, leaf in merged.items()}
    return ResolvedLoop(config=changed, origins=origins, repo=repo, session_root=root)


def _where(merged: Leaves, key: str) -> str:
    leaf = merged.get(tuple(key.split(".")))
    return key if leaf is None else leaf.where


def _check_env(config: LoopConfig, merged: Leaves) -> None:
    for key, names in (("env", tuple(config.env)), ("pass_env", config.pass_env)):
        for name in names:
            if name in _OURS_IN_ENV or name.startswith("OVERNIGHT_"):
                leaf = merged.get((key, name)) or merged.get((key,))
                where = leaf.where if leaf is not None else key
                raise ConfigError(f"{where}: {name} is set by Overnight itself: remove it")
