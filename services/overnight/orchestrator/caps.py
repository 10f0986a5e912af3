"""The cost limits of a session as seconds of a runner's slot. Pure.

A device-hour is an hour of a slot times the devices that it gives an experiment.
"""

from __future__ import annotations

from dataclasses import dataclass

from overnight.contracts.loop import LoopConfig

HOUR = 3600.0


@dataclass(frozen=True)
class Cap:
    """A limit on device time, as somebody wrote it."""

    key: str  #: as it stands in loop.run.yaml
    seconds: float  #: of a slot
    usd_per_hour: float | None  #: of a limit in money
    devices: int = 1  #: of a slot

    def told(self, seconds: float) -> str:
        """That much time of a slot as this limit counts it: `0.25 h`, or `1.20` in usd."""
        hours = seconds / HOUR * self.devices
        return f"{hours:.3g} h" if self.usd_per_hour is None else f"{hours * self.usd_per_hour:.2f}"


def price(config: LoopConfig) -> float | None:
    """What a device-hour costs in usd; None: nobody said."""
    return config.pools["default"].usd_per_hour


def session_caps(config: LoopConfig) -> list[Cap]:
    """On all attempts together."""
    limits = config.policy.limits
    return _caps(config, "policy.limits", limits.gpu_hours, limits.usd)


def experiment_caps(config: LoopConfig) -> list[Cap]:
    """On one experiment."""
    limits = config.policy.limits.per_experiment
    return _caps(config, "policy.limits.per_experiment", limits.gpu_hours, limits.usd)


def tightest(caps: list[Cap]) -> Cap | None:
    """The one that is reached first; None: there is none."""
    return min(caps, key=lambda found: found.seconds, default=None)


def _caps(
    config: LoopConfig, section: str, gpu_hours: float | None, usd: float | None
) -> list[Cap]:
    caps = []
    usd_per_hour, each = price(config), config.devices_each
    if gpu_hours is not None:
        caps.append(Cap(f"{section}.gpu_hours", gpu_hours * HOUR / each, None, each))
    if usd is not None and usd_per_hour:
        seconds = usd / usd_per_hour * HOUR / each
        caps.append(Cap(f"{section}.usd", seconds, usd_per_hour, each))
    return caps
