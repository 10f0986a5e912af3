"""loop.run.yaml as a value: every binding of a session, resolved and checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from overnight.contracts.status import Direction, Gate
from overnight.contracts.wire import Wire

MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_./@-]{0,63}$")]


def _relative(path: str) -> str:
    parts = path.split("/")
    if not path or len(path) > 400 or path.startswith("/") or ".." in parts or "" in parts[:-1]:
        raise ValueError("must be a relative path inside the repository")
    if any(ord(char) < 32 or ord(char) == 127 for char in path) or "\\" in path:
        raise ValueError("must not hold control characters or backslashes")
    return path


RelativePath = Annotated[str, AfterValidator(_relative)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class MetricSpec(Wire):
    """The one number that is optimised and where it is read."""

    name: MetricName
    direction: Direction = Direction.MINIMIZE
    source: Literal["stdout_line"] = "stdout_line"
    target: float | None = None

    def better(self, value: float, than: float) -> bool:
        """Is *value* strictly better than *than*?"""
        return value < than if self.direction is Direction.MINIMIZE else value > than


class Plausible(Wire):
    """Bounds of a track outside which a metric is held for a person."""

    min: float | None = None
    max: float | None = None


class Confirm(Wire):
    """Re-runs before a keep. runs: 0 = the seed's exact rule, strictly better is kept."""

    runs: Annotated[int, Field(ge=0, le=16)] = 0
    max_share: Annotated[float, Field(ge=0, le=1)] = 0.25


class SessionLimits(Wire):
    """When a session stops by itself. None: never."""

    experiments: Annotated[int, Field(ge=0)] | None = None  #: candidates in total, not the baseline
    hours: Annotated[float, Field(gt=0)] | None = None  #: wall clock of one run


class Policy(Wire):
    """What is kept, and when the loop stops by itself."""

    autonomy: Literal["never_stop"] = "never_stop"
    prefetch: Annotated[int, Field(ge=0, le=64)] = 1
    confirm: Confirm = Confirm()
    limits: SessionLimits = SessionLimits()


class ProposerSpec(Wire):
    """Which proposer, and its own options."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] = "search"
    options: dict[str, Any] = {}


class Pool(Wire):
    """One kind of hardware and how candidates run on it."""

    executor: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] = "process"
    runners: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    usd_per_hour: float | None = None


class LoopConfig(Wire):
    """One session's bindings. Built by `configuration`, stored whole in `session_opened`."""

    metric: MetricSpec
    run_cmd: Annotated[tuple[str, ...], Field(min_length=1, max_length=256)]
    editable_files: Annotated[tuple[RelativePath, ...], Field(min_length=1, max_length=64)]
    frozen_files: Literal["auto"] | tuple[RelativePath, ...] = "auto"
    iter_strategy: Literal["branches", "snapshots"] = "snapshots"
    sandbox_root: str = "./sandbox"
    gate: Gate = Gate.TIME
    budget: Annotated[float, Field(gt=0, le=1e7)] = 300.0  #: seconds, CPU-seconds, epochs or steps
    kill_factor: Annotated[float, Field(ge=1, le=100)] = 2.0
    startup_grace: Annotated[float, Field(ge=0, le=86400)] = 0.0  #: seconds
    eval_grace: Annotated[float, Field(ge=0, le=86400)] = 0.0  #: seconds
    deadline_seconds: Annotated[float, Field(gt=0, le=1e7)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    python: str = "auto"
    env: dict[EnvName, str] = {}
    pass_env: tuple[EnvName, ...] = ()
    reads: tuple[str, ...] = ()
    network: Literal["none", "host"] = "none"
    memory_mb: Annotated[int, Field(ge=64)] | None = None  #: whole sandbox, where cgroups allow
    plausible: Plausible = Plausible()
    policy: Policy = Policy()
    proposer: ProposerSpec = ProposerSpec()
    pools: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")], Pool] = {
        "default": Pool()
    }


#: Keys that another run of the same session may change; all others open a new comparison track.
RESUMABLE = frozenset({"proposer", "pools", "sandbox_root", "python"})


def comparable(config: LoopConfig) -> dict[str, Any]:
    """The part of a configuration that must stay the same within one session."""
    plain = config.model_dump(mode="json", exclude=set(RESUMABLE))
    for key in ("limits", "autonomy", "prefetch"):
        plain["policy"].pop(key, None)
    return plain
