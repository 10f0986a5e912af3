"""What makes two sessions' numbers comparable, as digests."""

from __future__ import annotations

from overnight.contracts.loop import RESUMABLE, LoopConfig
from overnight.contracts.wire import canonical, digest, dump


def config_digest(config: LoopConfig) -> str:
    """SHA-256 of all bindings."""
    return digest(canonical(dump(config)))


def track_digest(config: LoopConfig, frozen_digest: str) -> str:
    """SHA-256 of the bindings that results depend on, and of the frozen files' content."""
    values = {key: value for key, value in dump(config).items() if key not in RESUMABLE}
    return digest(canonical({"frozen": frozen_digest, "bindings": values}))


def changed_track_keys(before: LoopConfig, after: LoopConfig) -> tuple[str, ...]:
    """The keys that differ and open a new comparison track, as `budget: 300.0 -> 60.0`."""
    old, new = dump(before), dump(after)
    return tuple(
        f"{key}: {canonical(old[key])} -> {canonical(new[key])}"
        for key in sorted(new)
        if key not in RESUMABLE and old[key] != new[key]
    )
