"""What a runner and the spawner say to each other: one JSON frame a request, one an answer.

A runner names what it wants; it can't describe it. The command, its environment and the mounts of a
container come from a profile that is registered by its digest, trees and results travel as open
folders, so that no path of one side is ever opened by the other.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from overnight.contracts import wire
from overnight.contracts.execution import Limits
from overnight.contracts.experiment import Digest
from overnight.contracts.loop import EnvName
from overnight.contracts.wire import Wire

SandboxId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$")]
DeviceId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$")]
HostPath = Annotated[str, Field(pattern=r"^/", max_length=4096)]
Bytes = Annotated[int, Field(ge=1, le=2**50)]


class Profile(Wire):
    """What runs, and what it may see. Registered by its digest before anyone asks for it."""

    v: Literal[1] = 1
    command: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    env: dict[EnvName, str] = {}
    reads: tuple[HostPath, ...] = ()  #: seen read-only at the same place
    at_home: tuple[tuple[str, HostPath], ...] = ()  #: (place below HOME, what is seen there)
    interpreter: HostPath | None = None  #: None: the image's own Python
    network: Literal["none", "host"] = "none"
    image: Annotated[str, Field(max_length=300)] | None = None  #: None: the spawner's own
    keep: tuple[str, ...] = ()  #: what `take` may take of the working directory

    @property
    def digest(self) -> str:
        """Its name."""
        return wire.digest(wire.encode(self))


class Bounds(Wire):
    """`execution.Limits` on the wire: numbers alone."""

    memory_bytes: Bytes | None
    pids: Annotated[int, Field(ge=1, le=2**22)]
    tmp_bytes: Bytes
    file_bytes: Bytes
    disk_bytes: Bytes | None
    disk_files: Annotated[int, Field(ge=1)] | None
    out_bytes: Annotated[int, Field(ge=0, le=2**50)]
    open_files: Annotated[int, Field(ge=16, le=2**20)]

    @classmethod
    def of(cls, limits: Limits) -> Bounds:
        """The ones that are kept from outside; the log is kept by the runner."""
        return cls(**{name: getattr(limits, name) for name in cls.model_fields})


class Prepare(Wire):
    """A sandbox, and this connection is its life from now on."""

    verb: Literal["prepare"] = "prepare"
    protocol: Literal[1] = 1
    sandbox_id: SandboxId
    labels: Annotated[dict[Label, Label], Field(max_length=16)]
    profile: Digest
    limits: Bounds
    devices: Annotated[tuple[DeviceId, ...], Field(max_length=64)] = ()


class Launch(Wire):
    """Bring the command to its gate. Comes with the open tree and the list of what is frozen."""

    verb: Literal["launch"] = "launch"
    snapshot: Digest  #: of the tree as it must arrive (`trees.digest`)


class Open(Wire):
    """Let the command run; its own timer ends it at the latest after so many seconds."""

    verb: Literal["open"] = "open"
    timer_seconds: Annotated[float, Field(gt=0, le=1e8)]


class Look(Wire):
    """What does it use?"""

    verb: Literal["look"] = "look"


class Kill(Wire):
    """SIGKILL everything inside."""

    verb: Literal["kill"] = "kill"


class Ask(Wire):
    """How did it end?"""

    verb: Literal["ending"] = "ending"


class Collect(Wire):
    """Fill the open folder that comes with it. `out`: of /out. `keep`: of the working directory."""

    verb: Literal["collect"] = "collect"
    what: Literal["out", "keep"]


class Close(Wire):
    """Remove every trace."""

    verb: Literal["close"] = "close"


class Reconcile(Wire):
    """End and remove what dead runners left under these labels; {}: all."""

    verb: Literal["reconcile"] = "reconcile"
    labels: Annotated[dict[Label, Label], Field(max_length=16)] = {}


class Greet(Wire):
    """Who are you?"""

    verb: Literal["greet"] = "greet"
    protocol: Literal[1] = 1


Request = Prepare | Launch | Open | Look | Kill | Ask | Collect | Close | Reconcile | Greet
REQUESTS: dict[str, type[Wire]] = {
    cls.model_fields["verb"].default: cls
    for cls in (Prepare, Launch, Open, Look, Kill, Ask, Collect, Close, Reconcile, Greet)
}


class Greeting(Wire):
    """The spawner of itself."""

    engine: str  #: name and version
    profiles: str  #: folder where profiles are registered
    image: str  #: what runs where a profile names none


class Usage(Wire):
    """Of a running sandbox."""

    cpu_seconds: float
    resident_bytes: int
    over: str = ""  #: its files took more than they may: it was killed


class Ended(Wire):
    """Of a sandbox that is empty."""

    exit_code: int | None
    signal: int | None
    oom: bool
    survivors: int
    own_seconds: float | None  #: from the gate to the end, on the spawner's clock
    cpu_seconds: float
    over: str = ""


class Lost(Wire):
    """It ended as nobody expected: the run says nothing of the idea."""

    lost: str  #: why, one line
    stood_still: bool = False  #: somebody paused it: its time says nothing either
    survivors: int
    cpu_seconds: float


class File(Wire):
    """One file that was taken."""

    path: str
    size_bytes: int


class Taken(Wire):
    """All that was taken."""

    files: tuple[File, ...]


class Gone(Wire):
    """Is every trace removed?"""

    gone: bool


class Remains(Wire):
    """One that could not be ended."""

    labels: dict[str, str]
    reason: str


class Tidied(Wire):
    """`execution.Swept` on the wire."""

    ended: int
    held: int
    stuck: tuple[Remains, ...] = ()


class Launched(Wire):
    """It stands at its gate. Comes with stdout, stderr, and what is readable at the end."""

    image: str  #: id
    cpu_source: str  #: cgroup or proc


class Done(Wire):
    """Nothing to say."""


class Refused(Wire):
    """It can't be done."""

    refused: Annotated[str, Field(max_length=2000)]  #: one line with the fix
    away: bool = False  #: the engine or the image is: it may be back when it is asked for again
