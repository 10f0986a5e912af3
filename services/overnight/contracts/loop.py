"""loop.run.yaml as a value: every binding of a session, resolved and checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

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


Pattern = Annotated[str, Field(min_length=1, max_length=500)]  #: re, with exactly one group
Argv = Annotated[tuple[str, ...], Field(min_length=1, max_length=256)]


class RegexSource(Wire):
    """Found by a pattern in the output's lines; its one group is the number."""

    regex: Pattern
    take: Literal["last", "min", "max", "only"] = "last"  #: of several matches


class JsonSource(Wire):
    """A number in a JSON file that the run writes in its working folder."""

    model_config = ConfigDict(serialize_by_alias=True)

    file: RelativePath = Field(alias="json")
    key: Annotated[str, Field(min_length=1, max_length=200)]  #: dots lead into objects


class CommandSource(Wire):
    """Printed as `NAME: NUMBER` by a frozen command that is started after the run."""

    command: Argv


Source = Literal["stdout_line"] | RegexSource | JsonSource | CommandSource


class MetricSpec(Wire):
    """The one number that is optimised and where it is read."""

    name: MetricName
    direction: Direction = Direction.MINIMIZE
    source: Source = "stdout_line"
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


class Constraint(Wire):
    """A printed number that a candidate must keep within bounds to be kept."""

    name: MetricName
    min: float | None = None
    max: float | None = None
    regex: Pattern | None = None  #: how it is found; None: as a line `NAME: NUMBER`


class Research(Wire):
    """What a person set out to learn. No proposer ever changes it."""

    question: Annotated[str, Field(max_length=2000)] | None = None
    starting_hypothesis: Annotated[str, Field(max_length=2000)] | None = None  #: experiment 2


class Simplicity(Wire):
    """What added code has to be worth."""

    per_line: Annotated[float, Field(ge=0, le=1)] = 0.00005  #: gain a net added line must bring,
    #: relative to |baseline|
    tie_epsilon: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"  #: in units of the metric


Positive = Annotated[float, Field(gt=0)]


class PerExperiment(Wire):
    """What one experiment may cost at most. None: anything."""

    gpu_hours: Positive | None = None
    usd: Positive | None = None


class SessionLimits(Wire):
    """When a session stops by itself. None: never."""

    experiments: Annotated[int, Field(ge=0)] | None = None  #: candidates in total, not the baseline
    hours: Positive | None = None  #: wall clock of one run
    gpu_hours: Positive | None = None  #: device-hours of all attempts together
    usd: Positive | None = None  #: the same, priced by the pool's usd_per_hour
    vram_gb: Positive | None = None  #: a candidate that needs more is discarded
    per_experiment: PerExperiment = PerExperiment()


class Policy(Wire):
    """What is kept, and when the loop stops by itself."""

    autonomy: Literal["never_stop", "ask"] = "never_stop"
    ask_after_degradations: Annotated[int, Field(ge=1, le=1000)] = 3
    approval: Literal["none", "hypothesis"] = "none"  #: who lets an idea run
    approve_timeout: Positive | None = None  #: seconds; None: wait for ever
    approve_then: Literal["skip", "run"] = "skip"  #: after the timeout
    prefetch: Annotated[int, Field(ge=0, le=64)] = 1
    repair_tries: Annotated[int, Field(ge=0, le=10)] = 2  #: of a crashed idea
    simplicity: Simplicity = Simplicity()
    confirm: Confirm = Confirm()
    limits: SessionLimits = SessionLimits()
    require_program: bool = False  #: no run without a program.md


class ProposerSpec(Wire):
    """Which proposer, and its own options."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] = "search"
    options: dict[str, Any] = {}


class Pool(Wire):
    """One kind of hardware and how candidates run on it."""

    executor: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] = "process"
    runners: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    usd_per_hour: float | None = None


#: Executors whose sandboxes are made from an image; all others use what the host has.
CONTAINERS = frozenset({"docker", "kubernetes"})
#: A reference as engines take it: NAME, NAME:TAG, NAME@sha256:..., or an image's id.
ImageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$")]


class ImageBuild(Wire):
    """An image that is built from the user's own Dockerfile."""

    build: str  #: the folder with the Dockerfile, relative to the repository; "." is all of it


class LoopConfig(Wire):
    """One session's bindings. Built by `configuration`, stored whole in `session_opened`."""

    metric: MetricSpec
    constraints: Annotated[tuple[Constraint, ...], Field(max_length=16)] = ()
    guard: Argv | None = None  #: command that must pass before a keep
    research: Research = Research()
    run_cmd: Argv
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
    prepare: Argv | None = None  #: run once, trusted, with network, by `overnight prepare`
    image: ImageName | ImageBuild | None = None  #: of the container; None: the product's own
    gpus: Annotated[int, Field(ge=0, le=64)] = 1  #: GPUs an experiment; 0: it wants none
    memory_mb: Annotated[int, Field(ge=64)] | None = None  #: whole sandbox, where cgroups allow
    min_free_gb: Annotated[float, Field(ge=0)] | None = None  #: less free disk pauses the session
    plausible: Plausible = Plausible()
    policy: Policy = Policy()
    proposer: ProposerSpec = ProposerSpec()
    pools: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")], Pool] = {
        "default": Pool()
    }

    @property
    def devices_each(self) -> int:
        """What an hour of a runner's slot counts, in device-hours."""
        return max(1, self.gpus)

    @property
    def in_container(self) -> bool:
        """Does a candidate get the programs of an image, and not the host's?"""
        return self.pools["default"].executor in CONTAINERS


OWN_IMAGE = "Overnight's own"  #: where a container has no `image`

#: Keys that another run of the same session may change; all others open a new comparison track.
RESUMABLE = frozenset({"proposer", "pools", "sandbox_root", "python", "prepare", "min_free_gb"})
#: The same within `policy`.
RESUMABLE_POLICY = frozenset(
    {"limits", "autonomy", "ask_after_degradations", "prefetch", "repair_tries", "require_program"}
    | {"approval", "approve_timeout", "approve_then"}
)


def comparable(config: LoopConfig) -> dict[str, Any]:
    """The part of a configuration that must stay the same within one session."""
    plain = config.model_dump(mode="json", exclude=set(RESUMABLE))
    if config.in_container and config.image is None:
        # The executor may change, what a candidate is run by may not.
        plain["image"] = OWN_IMAGE
    for key in RESUMABLE_POLICY:
        plain["policy"].pop(key, None)
    return plain
