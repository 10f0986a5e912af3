"""The keys that say what is measured: `metric.source`, `constraints`, `guard`."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from overnight.configuration import paths
from overnight.configuration.command import split_command
from overnight.configuration.interpreter import without_uv
from overnight.configuration.yaml_file import shown
from overnight.contracts.errors import ConfigError, UsageError
from overnight.contracts.loop import CommandSource, JsonSource, LoopConfig, RegexSource
from overnight.contracts.untrusted import one_line
from overnight.contracts.wire import Wire, canonical

Where = Callable[[str], str]

STDOUT_LINE = "stdout_line"
_FORMS = "stdout_line, {regex: '...'}, {json: FILE, key: KEY} or {command: [...]}"
_KEYS = {
    "regex": frozenset({"regex", "take"}),
    "json": frozenset({"json", "key"}),
    "command": frozenset({"command"}),
}
_MODELS: dict[str, type[Wire]] = {
    "regex": RegexSource,
    "json": JsonSource,
    "command": CommandSource,
}
_PARTS = re.compile(r"[\s&|;()<>'\"`]+")  #: of a shell's line
_TAKES = ("last", "min", "max", "only")
_CONSTRAINT_KEYS = frozenset({"name", "min", "max", "regex"})


def metric_source(value: Any, where: str) -> Any:
    """`metric.source` in its long form. Raises ConfigError in one line that starts with *where*."""
    if value is None or value == STDOUT_LINE:
        return STDOUT_LINE
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be {_FORMS}, not {shown(value)}")
    if "gym" in value:
        raise ConfigError(f"{where}: {{gym: ...}} is not in this version; there are {_FORMS}")
    kinds = [kind for kind in _KEYS if kind in value]
    if len(kinds) > 1:
        raise ConfigError(f"{where} has {kinds[0]} and {kinds[1]}: keep one")
    if not kinds:
        raise ConfigError(f"{where} must be {_FORMS}")
    kind = kinds[0]
    _check_keys(value, _KEYS[kind], where)
    if kind == "regex":
        check_pattern(value["regex"], f"{where}.regex")
        if value.get("take", "last") not in _TAKES:
            takes = ", ".join(_TAKES)
            raise ConfigError(f"{where}.take must be one of {takes}, not {shown(value['take'])}")
    elif kind == "json":
        _check_json(value, where)
    else:
        value = {"command": _checked(command(value["command"], f"{where}.command"), where)}
    _check_by(_MODELS[kind], value, where)
    return dict(value)


def _check_keys(value: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for key in value:
        if key not in known:
            there = ", ".join(sorted(known))
            raise ConfigError(
                f"{where}.{one_line(str(key), 40)} is not a known key here (there are: {there})"
            )


def _check_json(value: Mapping[str, Any], where: str) -> None:
    for key in ("json", "key"):
        if not isinstance(value.get(key), str) or not value[key]:
            found, form = shown(value.get(key)), "write {json: results.json, key: eval.loss}"
            raise ConfigError(f"{where}.{key} must be text, not {found}: {form}")


def _check_by(model: type[Wire], value: Mapping[str, Any], where: str) -> None:
    """By the contract itself: of a union it could not say which member was meant."""
    try:
        model.model_validate_json(canonical(dict(value)))
    except ValidationError as error:
        first = error.errors()[0]
        name, why = str(first["loc"][0]), first["msg"].split(", ", 1)[-1]
        if first["type"].endswith("too_long"):
            raise ConfigError(f"{where}.{name} is too long") from error
        raise ConfigError(f"{where}.{name}: {shown(value.get(name))} {why}") from error


def _checked(argv: Any, where: str) -> list[str]:
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        raise ConfigError(f"{where}.command must be a list of words, not {shown(argv)}")
    if not argv or not argv[0]:
        raise ConfigError(f"{where}.command is empty")
    return argv


def check_pattern(pattern: Any, where: str) -> None:
    """A regular expression with exactly one group, the number. Raises ConfigError."""
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"{where} must be a regular expression, not {shown(pattern)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on what a later Python may read otherwise
            groups = re.compile(pattern).groups
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        why = one_line(str(error) or "nested too deep", 120)
        raise ConfigError(f"{where}: {shown(pattern)} is no regular expression: {why}") from error
    if groups != 1:
        fix = (
            "put the number into one: 'loss: ([0-9.eE+-]+)'"
            if groups == 0
            else "write (?:...) for all but the number's"
        )
        raise ConfigError(f"{where}: {shown(pattern)} has {groups} groups, not one: {fix}")


def command(value: Any, where: str) -> Any:
    """A command as a list; a text is split like a shell would. Raises ConfigError."""
    if not isinstance(value, str):
        return value
    try:
        return list(split_command(value))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def constraints(value: Any, where: str) -> Any:
    """`constraints`, each with a name and a bound. Raises ConfigError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError(f"{where} must be a list: [{{name: peak_vram_mb, max: 79000}}]")
    names: set[str] = set()
    for number, one in enumerate(value):
        here = f"{where}[{number}]"
        if not isinstance(one, Mapping):
            raise ConfigError(f"{here} must be a mapping with a name and min or max")
        _check_keys(one, _CONSTRAINT_KEYS, here)
        if "name" not in one:
            raise ConfigError(f"{here}.name is missing: what is printed as `NAME: NUMBER`")
        if one["name"] in names:
            raise ConfigError(f"{here}: {shown(one['name'])} stands twice: give it min and max")
        names.add(str(one["name"]))
        _check_bounds(one, here)
        if one.get("regex") is not None:
            check_pattern(one["regex"], f"{here}.regex")
    return value


def _check_bounds(one: Mapping[str, Any], where: str) -> None:
    bounds = {key: one[key] for key in ("min", "max") if one.get(key) is not None}
    for key, value in bounds.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise ConfigError(f"{where}.{key} must be a number, not {shown(value)}")
    if not bounds:
        raise ConfigError(f"{where} bounds nothing: add min or max")
    if "min" in bounds and "max" in bounds and bounds["min"] > bounds["max"]:
        raise ConfigError(f"{where}: min {bounds['min']} is above max {bounds['max']}")


def check_places(config: LoopConfig, repo: Path, where: Where) -> None:
    """Candidates can write the metric's file, and no frozen command is theirs to edit.

    Raises:
        ConfigError: one line that names the key.
    """
    source = config.metric.source
    if isinstance(source, JsonSource):
        _check_written(config, source, repo, f"{where('metric.source')}.json")
    if isinstance(source, CommandSource):
        _check_frozen(config, source.command, repo, f"{where('metric.source')}.command")
    if config.guard is not None:
        _check_frozen(config, config.guard, repo, where("guard"))


def _check_written(config: LoopConfig, source: JsonSource, repo: Path, where: str) -> None:
    if source.file in config.editable_files:
        raise ConfigError(f"{where}: {source.file} is editable: a proposal could write the number")
    for above in [Path(source.file), *Path(source.file).parents][:-1]:
        if (repo / above).is_symlink():
            raise ConfigError(f"{where}: {above} is a link: only what lies in the tree is taken")
        if not isinstance(config.frozen_files, str) and str(above) in config.frozen_files:
            raise ConfigError(f"{where}: {above} is frozen, so that no run can write {source.file}")
    if (repo / source.file).is_dir():
        raise ConfigError(f"{where}: {source.file} is a folder")
    for read in config.reads:
        if (repo / source.file).is_relative_to(read):
            raise ConfigError(f"{where}: `reads` shows {read}, so that no run can write there")


def _check_frozen(config: LoopConfig, argv: tuple[str, ...], repo: Path, where: str) -> None:
    try:
        argv = without_uv(argv, where)
    except UsageError as error:
        raise ConfigError(str(error)) from error
    paths.check_command_files(repo, argv, where)
    modules = [word for option, word in pairwise(argv) if option == "-m"]
    named = {str(Path(part)) for word in argv for part in (word, *_PARTS.split(word)) if part}
    for module in modules:
        file = module.replace(".", "/")
        named |= {f"{file}.py", f"{file}/__main__.py", f"src/{file}.py"}
    for path in config.editable_files:
        if path in named:
            raise ConfigError(
                f"{where}: {path} is editable, so that a candidate could change what judges it"
            )
