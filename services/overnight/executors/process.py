"""The executor `process`: candidates as processes of this host, in namespaces where it has them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import structlog

from overnight.contracts.errors import ConfigError, SandboxUnavailableError
from overnight.contracts.execution import Limits, Sandbox, SandboxSpec, Swept
from overnight.devices.granting import device_nodes, is_gpu
from overnight.devices.inventory import take_inventory
from overnight.executors import binds, bubblewrap, cgroups, fallback, namespaces, records, tree
from overnight.executors.belongings import HostBelongings
from overnight.executors.cage import Cage
from overnight.executors.interpreters import Interpreters
from overnight.executors.janitor import Janitor
from overnight.executors.lifeguard import Lifeguard
from overnight.executors.sandbox import SupervisedSandbox
from overnight.faultpoints import Step, reach

NAME = "process"
OPTIONS = ("isolation", "lock_dir", "protected", "cgroup_root")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PYTHONS = ("python", "python3")  #: as first word of a command they mean the session's interpreter

log = structlog.get_logger()


@dataclass(frozen=True)
class Walls:
    """What this host's namespaces are like, found by a trial."""

    tools: bubblewrap.Tools
    host: bubblewrap.Host
    disable_userns: bool


class ProcessExecutor:
    """Options: isolation (auto or none), lock_dir (host-wide, one for all runners of a user),

    protected (places that no candidate may be shown), cgroup_root.
    """

    name = NAME

    def __init__(self, options: dict[str, object] | None = None) -> None:
        chosen = dict(options or {})
        self._lock_dir = records.open_folder(_path(chosen, "lock_dir", _default_lock_dir()))
        self._cgroup_root = _path(chosen, "cgroup_root", cgroups.ROOT)
        self._protected = _places(chosen)
        self._interpreters = Interpreters()
        wanted = chosen.get("isolation", "auto")
        if wanted not in ("auto", "none"):
            raise ConfigError(f"executor option isolation: {wanted!r} is not auto or none")
        unknown = sorted(set(chosen) - set(OPTIONS))
        if unknown:
            raise ConfigError(f"executor option {unknown[0]}: unknown, there are {OPTIONS}")
        self._guard = Lifeguard()
        self._wanted = wanted

    @cached_property
    def _walls(self) -> Walls | None:
        """Looked for when they are first needed: who only tidies up needs none."""
        return None if self._wanted == "none" else _find_walls(self._lock_dir, self._guard)

    @property
    def isolation(self) -> str:
        """What this host's sandboxes give."""
        return "none" if self._walls is None else "namespaces"

    def prepare(self, spec: SandboxSpec) -> Sandbox:
        """Check what it may see, and reserve its folders and user."""
        # What may be refused, before anything is reserved: nobody would give that back.
        reads, nodes, command = self._reads(spec), _nodes(spec.devices), _command(spec)
        own = cgroups.own()
        record = records.write(self._lock_dir, spec.labels, spec.scratch, own)
        slot: records.UserSlot | None = None
        try:
            reach(Step.RUNNER_RECORDED)
            if self._walls is not None and os.geteuid() == 0:
                slot = records.claim_user(self._lock_dir)
            place = tree.Place(spec.scratch, None if slot is None else slot.uid, record.token)
            try:
                place.make()
            except OSError as error:
                raise SandboxUnavailableError(NAME, f"{spec.scratch}: {error.strerror}") from error
        except BaseException:
            record.remove()
            if slot is not None:
                slot.release()
            raise
        build = self._builder(replace(spec, command=command), place, reads, nodes, record)
        return SupervisedSandbox(spec, HostBelongings(spec, record, slot, place), build())

    def reconcile(self, labels: Mapping[str, str]) -> Swept:
        """End what dead runners left behind under *labels*; {}: all that is left of any."""
        return Janitor(self._lock_dir, self._cgroup_root).sweep(labels)

    def _reads(self, spec: SandboxSpec) -> tuple[str, ...]:
        wanted = [str(path) for path in spec.reads]
        if spec.interpreter is not None:
            wanted += self._interpreters.places(spec.interpreter)
        if self._walls is None:
            return ()
        protected = (str(spec.scratch), str(spec.log_path), str(self._lock_dir), *self._protected)
        return binds.visible(wanted, self._walls.host.trees, protected)

    def _builder(
        self,
        spec: SandboxSpec,
        place: tree.Place,
        reads: tuple[str, ...],
        nodes: tuple[str, ...],
        record: records.Record,
    ) -> Callable[[], Cage]:
        walls = self._walls
        if walls is None:
            return lambda: fallback.BareCage(
                fallback.Bare(
                    command=spec.command,
                    env=_environment(spec, str(place.home), str(place.temporary), str(place.out)),
                    work=place.work,
                    limits=spec.limits,
                    token=record.token,
                    at_home=binds.below_home(spec.reads),
                )
            )  # fmt: skip
        layout = bubblewrap.Layout(
            host=walls.host,
            uid=place.owner,
            disable_userns=walls.disable_userns,
            reads=reads,
            work=str(place.work),
            out=str(place.out),
            frozen=(),
            env=_environment(spec, bubblewrap.HOME, bubblewrap.TEMPORARY, bubblewrap.OUT),
            network=spec.network,
            tmp_bytes=spec.limits.tmp_bytes,
            at_home=binds.below_home(spec.reads),
            nodes=nodes,
        )  # fmt: skip
        plan = namespaces.Plan(
            tools=walls.tools, layout=layout, frozen=spec.frozen, command=spec.command,
            limits=spec.limits, token=record.token, cgroup_root=self._cgroup_root,
            cgroup_own=record.cgroup_own,
            guard=self._guard,
        )  # fmt: skip
        return lambda: namespaces.NamespaceCage(plan)


def _nodes(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Device files of the granted GPUs. Not run on a GPU.

    Raises:
        SandboxUnavailableError: one of them is not here any more.
    """
    wanted = [device for device in devices if is_gpu(device)]
    if not wanted:
        return ()
    here = {gpu.uuid: gpu for gpu in take_inventory().gpus}
    missing = [uuid for uuid in wanted if uuid not in here]
    if missing:
        raise SandboxUnavailableError(NAME, f"{missing[0]}: NVML lists no such device any more")
    return device_nodes(here[uuid] for uuid in wanted)


def _find_walls(lock_dir: Path, guard: Lifeguard) -> Walls | None:
    """Try a sandbox for real: no list of kernels and settings could tell as surely."""
    as_root = os.geteuid() == 0
    tools = bubblewrap.find_tools(as_root) if sys.platform == "linux" else None
    if tools is None:
        log.warning("isolation_none", reason="bubblewrap, timeout or setpriv is not installed")
        return None
    host = bubblewrap.look()
    why: str | None = None
    for disable_userns in (False,) if as_root else (True, False):
        with tempfile.TemporaryDirectory(prefix=f"probe-{os.getpid()}-", dir=lock_dir) as folder:
            layout = bubblewrap.Layout(
                host=host, uid=records.FIRST_UID if as_root else None,
                disable_userns=disable_userns, reads=(), work=folder, out=folder, frozen=(),
                env={}, network="none", tmp_bytes=1024**2,
            )  # fmt: skip
            plan = namespaces.Plan(
                tools=tools, layout=layout, frozen=(), command=("true",), limits=Limits(),
                token=f"probe-{os.getpid()}", cgroup_root=Path("/nonexistent"), cgroup_own="",
                guard=guard,
            )  # fmt: skip
            why = namespaces.probe(plan)
        if why is None:
            return Walls(tools, host, disable_userns)
    log.warning("isolation_none", reason=why)
    return None


def _command(spec: SandboxSpec) -> tuple[str, ...]:
    if not spec.command:
        raise SandboxUnavailableError(NAME, "the command is empty")
    if spec.interpreter is not None and spec.command[0] in PYTHONS:
        return (str(spec.interpreter), *spec.command[1:])
    return spec.command


def _environment(spec: SandboxSpec, home: str, temporary: str, out: str) -> dict[str, str]:
    path = SYSTEM_PATH
    if spec.interpreter is not None:
        path = f"{spec.interpreter.parent}:{path}"
    ours = {"HOME": home, "TMPDIR": temporary, "PATH": path, "OVERNIGHT_OUT": out}
    return {"LANG": "C.UTF-8", **spec.env, **ours}


def _default_lock_dir() -> Path:
    # Not TMPDIR: user ids are the host's, so that all runners must meet at the same locks.
    shared = Path("/tmp")  # noqa: S108 - only the parent of a private folder
    parent = shared if shared.is_dir() else Path(tempfile.gettempdir())
    return parent / f"overnight-locks-{os.geteuid()}"


def _path(options: Mapping[str, object], name: str, default: Path) -> Path:
    value = options.get(name, default)
    if not isinstance(value, str | Path) or not Path(value).is_absolute():
        raise ConfigError(f"executor option {name}: must be an absolute path")
    return Path(value)


def _places(options: Mapping[str, object]) -> tuple[str, ...]:
    value = options.get("protected", ())
    if not isinstance(value, list | tuple) or not all(isinstance(v, str | Path) for v in value):
        raise ConfigError("executor option protected: must be a list of paths")
    return tuple(str(place) for place in value)
