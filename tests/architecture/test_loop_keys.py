"""docs/loop-run-yaml.md and LoopConfig are one list: each key, its default, whether it is fixed."""

from __future__ import annotations

import json
import re
import types
import typing
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel

from overnight.configuration import keys, resolve_loop
from overnight.contracts.loop import RESUMABLE, RESUMABLE_POLICY, LoopConfig

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loop-run-yaml.md"
_ROW = re.compile(r"^\| `([\w.\[\]]+)` \| (none|`[^`]*`) \| (yes|no) \| (.+) \|$", re.M)
_RESERVED = re.compile(r"^\| `([\w.]+)` \| `([^`]*)` \|$", re.M)
TEXT = PAGE.read_text("utf-8")
TOLD = {key: (default, fixed) for key, default, fixed, _ in _ROW.findall(TEXT)}
REQUIRED = object()
#: A mapping of names that a user makes up, and the one that this version knows.
NAMED = {"pools": "pools.default"}


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Models directly in an annotation; the members of a union of sources are no keys."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (types.UnionType, typing.Union, Literal):
        return []
    return [model for part in typing.get_args(annotation) for model in _models(part)]


def _keys(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> default."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        inner = _models(field.annotation)
        default = REQUIRED if field.is_required() else field.default
        several = typing.get_origin(field.annotation) in (tuple, dict)
        if not inner or several:
            found[key] = default
        if inner:
            (below,) = inner
            nested = NAMED.get(key, f"{key}[]" if several else key)
            found |= _keys(below, f"{nested}.")
    return {key: value for key, value in found.items() if key not in NAMED}


KEYS = _keys(LoopConfig)


def test_every_key_is_told_and_every_told_key_exists() -> None:
    assert set(TOLD) == set(KEYS)
    assert len(TOLD) == len(_ROW.findall(TEXT)), "a key stands twice"


@pytest.mark.parametrize("key", KEYS)
def test_the_default_is_the_told_one(key: str) -> None:
    told, default = TOLD[key][0], KEYS[key]
    if default is REQUIRED:
        assert told == "none"
        return
    value = LoopConfig.model_fields[key].default if "." not in key else default
    plain = json.loads(json.dumps(value, default=lambda model: model.model_dump(mode="json")))

    assert yaml.safe_load(told.strip("`")) == plain


@pytest.mark.parametrize("key", KEYS)
def test_what_is_fixed_is_what_comparison_rests_on(key: str) -> None:
    top, _, below = key.partition(".")
    free = top in RESUMABLE or (top == "policy" and below.partition(".")[0] in RESUMABLE_POLICY)

    assert TOLD[key][1] == ("no" if free else "yes")


def test_reserved_names_are_the_unbuilt_ones() -> None:
    told = {key: yaml.safe_load(value) for key, value in _RESERVED.findall(TEXT)}
    unbuilt = {".".join(map(str, path)): values[0] for path, values in keys.UNBUILT.items()}

    assert told == unbuilt


def test_the_examples_load(tmp_path: Path) -> None:
    for name in ("train.py", "model.py"):
        (tmp_path / name).write_text("LR = 1\n")
    (tmp_path / "cache").mkdir()
    examples = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.M | re.S)

    assert len(examples) == 2
    for text in examples:
        text = text.replace("~/.cache/autoresearch", "cache")
        resolve_loop(tmp_path, flags={}, environ={}, loop_text=text)
