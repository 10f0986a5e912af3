"""What the executor `docker` needs of this host: engine, runc, GPU toolkit, image, spawner.

Old versions are warnings: a distribution mends weaknesses without a new number.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from overnight.configuration import ResolvedLoop, SpawnerSettings, load_settings
from overnight.contracts.errors import OvernightError
from overnight.contracts.loop import ImageBuild
from overnight.sessions.engine import EngineFacts, EngineUnreachableError, facts, image_id
from overnight.sessions.images import name_of
from overnight.sessions.readiness.check import Check, fail, ok, warn
from overnight.sessions.readiness.hardware import Hardware, said

#: Weaknesses through which a container's files can reach the host, mended in these versions.
RUNC_MENDED = ((1, 2, 8), (1, 3, 3), (1, 4, 0))
RUNC_WEAK = "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"
TOOLKIT_MENDED = (1, 17, 8)
TOOLKIT_WEAK = "CVE-2025-23266"
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_START = "start it (systemctl start docker), or name another by DOCKER_HOST"
_JOIN = "sudo usermod -aG docker $USER, then log in anew (whoever may use it is as good as root)"


@dataclass(frozen=True)
class Found:
    """The rows, and the image that a candidate gets."""

    rows: tuple[Check, ...]
    image: str | None = None  #: id; None: it is not there


def check_containers(loop: ResolvedLoop, hardware: Hardware, environ: Mapping[str, str]) -> Found:
    """All of the executor, the engine first: without one the rest is unknown."""
    try:
        engine = facts(environ)
    except EngineUnreachableError as error:
        said_, _, why = str(error).rpartition(": ")
        fix = why if why.startswith("pip ") else _JOIN if error.refused else _START
        row = fail("engine", said_ if fix is why else str(error), fix)
        return Found((row, check_spawner(environ)))
    image, its_row = _image(loop, environ)
    rows = [_engine(engine), check_runc(engine.runc), its_row]
    if hardware.gpus or loop.config.gpus > 1:
        rows.append(check_gpus(loop.config.gpus, hardware))
        rows.append(check_toolkit(_toolkit(environ), engine))
    return Found((*rows, check_spawner(environ)), image)


def _engine(engine: EngineFacts) -> Check:
    if not engine.seccomp:
        return fail("engine", f"Docker {engine.version}, built without seccomp", "another engine")
    return ok("engine", f"Docker {engine.version}, seccomp")


def check_runc(version: str | None) -> Check:
    """What starts the containers."""
    number = _numbers(version)
    if number is None:
        return warn("runc", "its version is not told", f"see that it is mended ({RUNC_WEAK})")
    of_its_line = [mended for mended in RUNC_MENDED if mended[:2] == number[:2]]
    if number >= (of_its_line[0] if of_its_line else RUNC_MENDED[0]):
        return ok("runc", str(version))
    return warn(
        "runc", f"{version} is older than 1.2.8 and 1.3.3 ({RUNC_WEAK})",
        "upgrade runc; your distribution may have mended this version: see its notes",
    )  # fmt: skip


def check_gpus(wanted: int, hardware: Hardware) -> Check:
    """As many devices as one experiment asks for."""
    there = len(hardware.gpus)
    if there < wanted:
        return fail("gpus", f"an experiment wants {wanted}, this host has {there}",
                    f"gpus: {there or 1} in loop.run.yaml")  # fmt: skip
    return ok("gpus", f"{wanted} of {there} for each experiment")


def check_toolkit(version: str | None, engine: EngineFacts) -> Check:
    """What puts a GPU into a container."""
    number = _numbers(version)
    if number is None:
        if engine.nvidia:
            return warn("toolkit", "NVIDIA's runtime is there, its version is not told",
                        f"see that it is at least 1.17.8 ({TOOLKIT_WEAK})")  # fmt: skip
        return fail(
            "toolkit", "no NVIDIA container toolkit: no container gets a GPU",
            "install nvidia-container-toolkit (at least 1.17.8), restart the engine",
        )  # fmt: skip
    if number < TOOLKIT_MENDED:
        return warn("toolkit", f"{version} is older than 1.17.8 ({TOOLKIT_WEAK})",
                    "upgrade nvidia-container-toolkit, restart the engine")  # fmt: skip
    return ok("toolkit", str(version))


def check_spawner(environ: Mapping[str, str], user: int | None = None) -> Check:
    """Who counts CPU, memory and survivors from outside, and kills."""
    if environ.get("OVERNIGHT_SPAWNER"):
        return ok("spawner", f"another one's, at {environ['OVERNIGHT_SPAWNER']}")
    if (os.geteuid() if user is None else user) == 0:
        return ok("spawner", "runs as root; each candidate is an unprivileged user of its own")
    return ok("spawner", "runs as you; candidates have your user id, behind a container's walls")


def _image(loop: ResolvedLoop, environ: Mapping[str, str]) -> tuple[str | None, Check]:
    image = loop.config.image
    try:
        if isinstance(image, ImageBuild):
            name, fix = name_of(loop), "overnight prepare"
        elif image is not None:
            name, fix = image, f"docker pull {image}, or correct `image:`"
        else:
            name, fix = load_settings(SpawnerSettings, environ).image, "make containers"
        found = image_id(environ, name)
    except OvernightError as error:
        return None, fail("image", str(error), "correct what this names")
    if found is None:
        return None, fail("image", f"{name} is not there", fix)
    return found, ok("image", f"{name} ({found.removeprefix('sha256:')[:12]})")


def _toolkit(environ: Mapping[str, str]) -> str | None:
    program = shutil.which("nvidia-ctk", path=environ.get("PATH", os.defpath))
    answer = said(program, "--version") if program else None
    match = _VERSION.search(answer or "")
    return match[0] if match else None


def _numbers(version: str | None) -> tuple[int, int, int] | None:
    match = _VERSION.match(version or "")
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
