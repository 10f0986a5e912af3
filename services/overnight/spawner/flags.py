"""Everything that a container is made with. Pure.

Nothing here comes from a request but numbers and granted devices, the rest from a profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overnight.contracts.spawning import Bounds, Profile
from overnight.devices.granting import device_request, visible_env
from overnight.executors.bubblewrap import Freeze
from overnight.spawner import gate

HOSTNAME = "sbx"
OWN_PROCESSES = 3  #: the gate, its lifeline and its timer are not the candidate's
LABEL = "overnight."  #: of containers; the spawner's own come first, a runner's follow


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One container, as a value."""

    profile: Profile
    bounds: Bounds
    image: str  #: id
    image_env: Mapping[str, str]
    user: int  #: uid and gid
    work: str
    out: str
    masks: Mapping[str, str]  #: place in the image -> what covers it
    line: str  #: the folder with its pipes
    passwd: str
    group: str
    frozen: tuple[Freeze, ...]
    labels: Mapping[str, str]
    devices: Sequence[str]
    seccomp: str


def container(plan: Plan) -> dict[str, Any]:
    """Body of the engine's create request."""
    profile = plan.profile
    more_env = visible_env(plan.devices)
    isolated = profile.network == "none"
    body: dict[str, Any] = {
        "Image": plan.image,
        "Entrypoint": [],
        "Cmd": gate.argv(profile, plan.image_env, more_env),
        "Env": [f"{name}={value}" for name, value in more_env.items()],  # for the GPU's hook
        "User": f"{plan.user}:{plan.user}",
        "WorkingDir": gate.WORK,
        "Labels": {f"{LABEL}{name}": value for name, value in plan.labels.items()},
        "StopSignal": "SIGKILL",
        "HostConfig": _host(plan, more_env),
    }
    if isolated:
        body["Hostname"] = HOSTNAME
    return body


def _host(plan: Plan, more_env: Mapping[str, str]) -> dict[str, Any]:
    bounds, isolated = plan.bounds, plan.profile.network == "none"
    request = device_request(plan.devices)
    return {
        "NetworkMode": plan.profile.network,
        "ExtraHosts": [f"{HOSTNAME}:127.0.0.1"] if isolated else [],
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={plan.seccomp}"],
        "Privileged": False,
        "IpcMode": "private",
        "PidsLimit": bounds.pids + OWN_PROCESSES,
        "Memory": bounds.memory_bytes or 0,
        "MemorySwap": bounds.memory_bytes or 0,
        "Tmpfs": _temporary(plan),
        "Mounts": list(_mounts(plan)),
        "Ulimits": [
            {"Name": "nofile", "Soft": bounds.open_files, "Hard": bounds.open_files},
            {"Name": "fsize", "Soft": bounds.file_bytes, "Hard": bounds.file_bytes},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        # What the command prints goes through pipes of ours to a bounded log: a flood fills no disk
        # and costs the engine nothing.
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "DeviceRequests": [request] if request is not None else [],
    }


def _temporary(plan: Plan) -> dict[str, str]:
    """Bounded in bytes and in files: both are the kernel's memory.

    Triton and Inductor load what they compiled from /tmp, so it is not noexec.
    """
    bounds = plan.bounds
    size = f"nosuid,nodev,size={bounds.tmp_bytes},mode=1777"
    if bounds.disk_files is not None:
        size += f",nr_inodes={bounds.disk_files}"
    options = f"rw,exec,{size}"
    places = {
        "/tmp": options,  # noqa: S108 - in the sandbox
        gate.HOME: options,
        "/dev/shm": f"rw,noexec,{size}",  # noqa: S108
    }
    for name, _ in plan.profile.at_home:
        # What is made for a mount point is root's; a candidate writes beside it all the same.
        for above in _above(name):
            places[f"{gate.HOME}/{above}"] = options
    return places


def _mounts(plan: Plan) -> list[dict[str, Any]]:
    mounts = [_bind(plan.work, gate.WORK), _bind(plan.out, gate.OUT)]
    mounts.append(_bind(plan.line, gate.LINE, read_only=True))
    for freeze in plan.frozen:
        place = f"{gate.WORK}/{freeze.path}"
        mounts.append(_bind(freeze.source, place, read_only=not freeze.writable))
    mounts += [_bind(cover, place, read_only=True) for place, cover in plan.masks.items()]
    mounts.append(_bind(plan.passwd, "/etc/passwd", read_only=True))
    mounts.append(_bind(plan.group, "/etc/group", read_only=True))
    mounts += [_bind(place, place, read_only=True) for place in plan.profile.reads]
    for name, place in plan.profile.at_home:
        mounts.append(_bind(place, f"{gate.HOME}/{name}", read_only=True))
    return mounts


def _bind(source: str, target: str, *, read_only: bool = False) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
