"""The whole body of the engine's create request, as a value: no flag is missing, none is free."""

from __future__ import annotations

import dataclasses
from typing import Any

from overnight.contracts.execution import Limits
from overnight.contracts.spawning import Bounds, Profile
from overnight.executors.bubblewrap import Freeze
from overnight.spawner import gate
from overnight.spawner.flags import Plan, container

GIB = 1024**3
LIMITS = Limits(memory_bytes=4 * GIB, pids=512, tmp_bytes=2 * GIB, disk_files=1000)
PROFILE = Profile(
    command=("python", "train.py"),
    env={"SEED": "1"},
    reads=("/data/x",),
    at_home=((".cache/hub/x", "/data/x"),),
)
PLAN = Plan(
    profile=PROFILE,
    bounds=Bounds.of(LIMITS),
    image="sha256:abc",
    image_env={"PATH": "/opt/bin", "SECRET": "of the image"},
    user=61112,
    work="/r/work",
    out="/r/out",
    masks={"/run": "/r/closed"},
    line="/r/line",
    passwd="/r/passwd",
    group="/r/group",
    frozen=(
        Freeze("prepare.py", "/r/work/prepare.py", False),
        Freeze("data", "/r/work/data", True),
    ),
    labels={"spawner": "own", "sandbox": "s1", "id": "s-1-1", "sid": "s"},
    devices=(),
    seccomp="{}",
)


def bound(source: str, target: str, *, read_only: bool = True) -> dict[str, Any]:
    return {
        "Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }  # fmt: skip


BODY = {
    "Image": "sha256:abc",
    "Entrypoint": [],
    "Cmd": [
        "/usr/bin/env", "-i", "/bin/sh", "-c", gate.SCRIPT, "gate", "/usr/bin/env", "-i",
        "LANG=C.UTF-8", "SEED=1", "HOME=/tmp/home", "TMPDIR=/tmp/tmp", "PATH=/opt/bin",
        "OVERNIGHT_OUT=/out", "python", "train.py",
    ],
    "Env": [],
    "User": "61112:61112",
    "WorkingDir": "/w",
    "Labels": {
        "overnight.spawner": "own", "overnight.sandbox": "s1", "overnight.id": "s-1-1",
        "overnight.sid": "s",
    },
    "StopSignal": "SIGKILL",
    "Hostname": "sbx",
    "HostConfig": {
        "NetworkMode": "none",
        "ExtraHosts": ["sbx:127.0.0.1"],
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", "seccomp={}"],
        "Privileged": False,
        "IpcMode": "private",
        "PidsLimit": 515,
        "Memory": 4 * GIB,
        "MemorySwap": 4 * GIB,
        "Tmpfs": {
            "/tmp": f"rw,exec,nosuid,nodev,size={2 * GIB},mode=1777,nr_inodes=1000",
            "/tmp/home": f"rw,exec,nosuid,nodev,size={2 * GIB},mode=1777,nr_inodes=1000",
            "/dev/shm": f"rw,noexec,nosuid,nodev,size={2 * GIB},mode=1777,nr_inodes=1000",
            "/tmp/home/.cache": f"rw,exec,nosuid,nodev,size={2 * GIB},mode=1777,nr_inodes=1000",
            "/tmp/home/.cache/hub": f"rw,exec,nosuid,nodev,size={2 * GIB},mode=1777,nr_inodes=1000",
        },
        "Mounts": [
            bound("/r/work", "/w", read_only=False),
            bound("/r/out", "/out", read_only=False),
            bound("/r/line", "/.overnight"),
            bound("/r/work/prepare.py", "/w/prepare.py"),
            bound("/r/work/data", "/w/data", read_only=False),
            bound("/r/closed", "/run"),
            bound("/r/passwd", "/etc/passwd"),
            bound("/r/group", "/etc/group"),
            bound("/data/x", "/data/x"),
            bound("/data/x", "/tmp/home/.cache/hub/x"),
        ],
        "Ulimits": [
            {"Name": "nofile", "Soft": 4096, "Hard": 4096},
            {"Name": "fsize", "Soft": 4 * GIB, "Hard": 4 * GIB},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "DeviceRequests": [],
    },
}  # fmt: skip


def test_the_whole_create_request_is_this_one() -> None:
    assert container(PLAN) == BODY


def test_a_gpu_is_named_by_its_uuid_and_told_to_the_command_and_the_hook_alone() -> None:
    uuid = "GPU-1fb0d5a4-2d0b-4b8e-9b7c-3a1f0c9a7d11"
    body = container(dataclasses.replace(PLAN, devices=(uuid,)))

    (request,) = body["HostConfig"].pop("DeviceRequests")
    told = [f"CUDA_VISIBLE_DEVICES={uuid}", f"NVIDIA_VISIBLE_DEVICES={uuid}"]
    assert request == {
        "Driver": "nvidia", "Count": 0, "DeviceIDs": [uuid], "Capabilities": [["gpu"]],
        "Options": {},
    }  # fmt: skip
    assert body.pop("Env") == told
    assert [word for word in body.pop("Cmd") if word not in BODY["Cmd"]] == told
    host = {k: v for k, v in BODY["HostConfig"].items() if k != "DeviceRequests"}  # type: ignore[attr-defined]
    assert body == {k: v for k, v in BODY.items() if k not in ("Cmd", "Env")} | {"HostConfig": host}


def test_the_hosts_network_takes_away_the_own_name_and_nothing_else() -> None:
    profile = PROFILE.model_copy(update={"network": "host"})
    body = container(dataclasses.replace(PLAN, profile=profile))

    assert "Hostname" not in body
    host: dict[str, Any] = {**BODY["HostConfig"]}  # type: ignore[dict-item]
    assert body["HostConfig"] == {**host, "NetworkMode": "host", "ExtraHosts": []}


def test_without_a_memory_limit_there_is_none_of_swap_either() -> None:
    bounds = Bounds.of(dataclasses.replace(LIMITS, memory_bytes=None))
    host = container(dataclasses.replace(PLAN, bounds=bounds))["HostConfig"]

    assert (host["Memory"], host["MemorySwap"]) == (0, 0)
