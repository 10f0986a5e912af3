"""Loads executors and proposers by entry-point name, built-in ones by the same door."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from overnight.contracts.errors import ConfigError

EXECUTORS = "overnight.executors"
PROPOSERS = "overnight.proposers"


def available(group: str) -> tuple[str, ...]:
    """The names that *group* offers, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def load(group: str, name: str) -> Callable[..., Any]:
    """The factory that *group* offers as *name*.

    Raises:
        ConfigError: no such name (lists those that exist), offered twice, or not loadable.
    """
    noun = group.rsplit(".", 1)[-1].removesuffix("s")
    points = {point.value: point for point in entry_points(group=group, name=name)}
    if not points:
        names = ", ".join(available(group))
        hint = f"there are: {names}" if names else "none is installed (pip install -e . once)"
        raise ConfigError(f"no {noun} named {name!r}; {hint}")
    if len(points) > 1:
        owners = ", ".join(sorted(_owner(point) for point in points.values()))
        raise ConfigError(f"{noun} {name!r} is offered more than once, by {owners}: remove one")
    (point,) = points.values()
    try:
        factory = point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{noun} {name!r} of {_owner(point)} can't be loaded ({point.value}): {reason}"
        ) from error
    if not callable(factory):
        raise ConfigError(f"{noun} {name!r} of {_owner(point)} is no factory: {point.value}")
    result: Callable[..., Any] = factory
    return result


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
