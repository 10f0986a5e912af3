"""How a contract travels: one strict JSON string, the same bytes for the same value.

Versions: what travels or lies on a disk by itself has a field `v`; what is part of such a thing
shares it. The same version is read strictly. Any other is a VersionError before anything else is
said of it: it is set aside whole, never guessed at, never dropped. `v` goes up with any change
after which the older release could not read what the newer one writes. What has no `v` is of the
version that reads it: nothing that we wrote lacks one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from overnight.contracts.errors import VersionError, WireError

MAX_MESSAGE_BYTES = 4 * 1024 * 1024  #: a job, row or message longer than this is refused unread
MAX_DEPTH = 64

_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


class Wire(BaseModel):
    """Base of all that travels or is configured: strict, frozen, no unknown field, no NaN."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


M = TypeVar("M", bound=Wire)


def canonical(value: Json) -> str:
    """The one JSON text of *value*: sorted keys, no spaces, ASCII. Raises WireError for NaN."""
    try:
        return _CANONICAL.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"not a JSON value: {error}") from error


def digest(text: str) -> str:
    """SHA-256 of *text* as UTF-8, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def loads(text: str, what: str = "message") -> Json:
    """Parse strictly: no NaN or infinity, no doubled key, bounded size and depth.

    Raises:
        WireError: one line that says what is wrong with *what*.
    """
    if len(text) > MAX_MESSAGE_BYTES:
        raise WireError(f"{what} is longer than {MAX_MESSAGE_BYTES} bytes")
    try:
        value: Json = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_doubles
        )
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what} is not strict JSON: {error}") from error
    bound_depth(value, what)
    return value


def encode(model: Wire) -> str:
    """The canonical text of a contract."""
    return canonical(dump(model))


def dump(model: Wire) -> dict[str, Any]:
    """The plain JSON value of a contract, enums as strings, tuples as lists."""
    return model.model_dump(mode="json")


def decode(cls: type[M], text: str) -> M:
    """Read one contract back.

    Raises:
        VersionError: an older or a newer version wrote it.
        WireError: not strict JSON, a wrong kind, a missing or unknown field.
    """
    return build(cls, loads(text, cls.__name__))


def build(cls: type[M], value: Json) -> M:
    """A contract from a plain JSON value. Raises VersionError, or WireError naming the field."""
    check_version_of(cls, value)
    try:
        return cls.model_validate_json(canonical(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "value"
        raise WireError(f"{cls.__name__}.{where}: {first['msg']}") from error


def check_version_of(cls: type[Wire], value: Json) -> None:
    """As `check_version`, for a contract; those without a version pass."""
    field = cls.model_fields.get("v")
    if field is not None:
        check_version(cls.__name__, value, field.default)


def check_version(what: str, value: Json, known: int) -> None:
    """Is *value*, a *what*, of the version that this release knows? Raises VersionError.

    Raises WireError for a version that is no whole number.
    """
    written = value.get("v", known) if isinstance(value, dict) else known
    if type(written) is not int:
        raise WireError(f"{what}.v: {str(written)[:20]} is no version")
    if written != known:
        raise VersionError(what, written, known)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {key[:40]!r} stands twice")
            seen.add(key)
    return result


def bound_depth(value: Json, what: str) -> None:
    """Raises WireError when *value* is nested deeper than MAX_DEPTH."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise WireError(f"{what} is nested deeper than {MAX_DEPTH}")
