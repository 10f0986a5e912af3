"""What makes two sessions' numbers comparable, as digests."""

from __future__ import annotations

from typing import Any

from overnight.contracts.loop import LoopConfig, comparable
from overnight.contracts.wire import canonical, digest, dump


def config_digest(config: LoopConfig) -> str:
    """SHA-256 of all bindings."""
    return digest(canonical(dump(config)))


def track_digest(config: LoopConfig, frozen_digest: str) -> str:
    """SHA-256 of the bindings that results depend on, and of the frozen files' content."""
    return digest(canonical({"frozen": frozen_digest, "bindings": comparable(config)}))


def changed_track_keys(before: LoopConfig, after: LoopConfig) -> tuple[str, ...]:
    """The keys that differ and open a new comparison track, as `budget: 300.0 -> 60.0`."""
    old, new = comparable(before), comparable(after)
    return tuple(
        f"{key}: {_shown(key, old[key])} -> {_shown(key, new[key])}"
        for key in sorted(new)
        if old[key] != new[key]
    )


def _shown(key: str, value: Any) -> str:
    return "no container" if key == "image" and value is None else canonical(value)
