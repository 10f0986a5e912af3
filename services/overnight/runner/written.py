"""The metric in a JSON file that the run wrote: taken from the dead sandbox, read strictly."""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

from overnight.contracts.loop import JsonSource
from overnight.contracts.untrusted import one_line
from overnight.runner.values import (
    NO_METRIC,
    NONFINITE,
    RAW_CHARACTERS,
    UNPARSABLE,
    Found,
)

MAX_BYTES = 16 * 1024**2
SHOWN_KEYS = 8
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _TwiceError(ValueError):
    """A key stands twice in one object."""


def read_number(folder: Path, source: JsonSource) -> Found:
    """The number at *source*'s key in its file below *folder*, which candidates filled."""
    try:
        text = _bytes_of(folder / source.file)
    except FileNotFoundError:
        return Found(
            problem=NO_METRIC,
            why=f"the run wrote no {source.file} (a regular file in its working folder)",
        )
    except OSError as error:
        return Found(problem=NO_METRIC, why=f"{source.file}: {error.strerror}")
    if text is None:
        return Found(problem=NO_METRIC, why=f"{source.file} is over {MAX_BYTES // 1024**2} MiB")
    try:
        values = json.loads(
            text.decode("utf-8-sig"),
            parse_int=float,  # any length, as a float like the rest
            object_pairs_hook=_object,
        )
    except _TwiceError as error:
        return Found(problem=UNPARSABLE, why=f"{source.file}: {error}")
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        return Found(problem=UNPARSABLE, why=f"{source.file} is no JSON: {one_line(why, 120)}")
    return _at(values, source)


def _bytes_of(path: Path) -> bytes | None:
    """None: too many."""
    descriptor = os.open(path, _OPEN)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError
        text = file.read(MAX_BYTES + 1)
    return None if len(text) > MAX_BYTES else text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        often = Counter(name for name, _ in pairs)
        twice, _ = often.most_common(1)[0]
        raise _TwiceError(f"the key {one_line(twice, RAW_CHARACTERS)} stands twice in one object")
    return values


def _at(values: object, source: JsonSource) -> Found:
    """The key as a whole first: names may hold dots themselves."""
    if isinstance(values, dict) and source.key in values:
        return _number(values[source.key], source)
    here = values
    for part in source.key.split("."):
        if not isinstance(here, dict) or part not in here:
            return Found(problem=NO_METRIC, why=_lacks(here, part, source))
        here = here[part]
    return _number(here, source)


def _lacks(here: object, part: str, source: JsonSource) -> str:
    if not isinstance(here, dict):
        return f"{source.file}: what holds {one_line(part, RAW_CHARACTERS)} is no object"
    names = [one_line(str(name), 40) for name in list(here)[:SHOWN_KEYS]]
    more = ", ..." if len(here) > SHOWN_KEYS else ""
    there = f"there are: {', '.join(names)}{more}" if names else "it is empty"
    return f"{source.file} has no {source.key} ({there})"


def _number(value: object, source: JsonSource) -> Found:
    if isinstance(value, float):
        raw = one_line(repr(value), RAW_CHARACTERS)
        if math.isfinite(value):
            return Found(value=value, raw=raw)
        why = f"{source.file}: {source.key} is {raw}, which is not finite"
        return Found(problem=NONFINITE, raw=raw, why=why)
    kind = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    shown = kind.get(type(value), "null")
    raw = one_line(value, RAW_CHARACTERS) if isinstance(value, str) else shown
    why = f"{source.file}: {source.key} is {shown}, not a number"
    return Found(problem=UNPARSABLE, raw=raw, why=why)
