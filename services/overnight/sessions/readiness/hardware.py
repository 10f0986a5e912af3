"""What this host computes with: NVIDIA GPUs by NVML, Apple's MLX, else processors."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from overnight.devices.inventory import MIB, take_inventory
from overnight.devices.nvml import nvml_module
from overnight.runner.hardware import hardware_class
from overnight.sessions.readiness.check import Check, ok, warn

_VERSION_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One device, named for good by its UUID: a card, or an instance of one in MIG mode."""

    name: str
    uuid: str
    vram_mb: int


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """As `doctor --json` shows it. None: there is none."""

    gpus: tuple[Gpu, ...]
    cuda: str | None  #: the newest version that the driver takes, e.g. 12.4
    driver: str | None
    mlx: str | None
    platform: str
    uv: str | None
    problems: tuple[str, ...] = ()  #: cards that are there and can't be used

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        plain = {**asdict(self), "gpus": [asdict(gpu) for gpu in self.gpus]}
        return {key: value for key, value in plain.items() if key != "problems"}

    @property
    def shown(self) -> str:
        """In a few words."""
        if self.gpus:
            names = {gpu.name for gpu in self.gpus}
            first = self.gpus[0]
            count = f"{len(self.gpus)} x " if len(self.gpus) > 1 else ""
            more = f", driver {self.driver}" if self.driver else ""
            kinds = first.name if len(names) == 1 else " and ".join(sorted(names))
            return f"{count}{kinds}, {first.vram_mb // 1024} GiB each{more}"
        if self.mlx:
            return f"Apple Silicon, MLX {self.mlx}"
        return f"no GPU; {hardware_class()}"


def find_hardware(
    environ: Mapping[str, str], nvml: Callable[[], Any] | None = None
) -> Hardware:  # fmt: skip
    """What is there now. *nvml*: gives the NVML module; raises ImportError where it is missing."""
    found = take_inventory(nvml or nvml_module)
    return Hardware(
        gpus=tuple(
            Gpu(name=gpu.name, uuid=gpu.uuid, vram_mb=gpu.memory_bytes // MIB) for gpu in found.gpus
        ),
        cuda=found.cuda,
        driver=found.driver,
        problems=found.problems if found.driver else (),
        mlx=_mlx(),
        platform=f"{platform.system()} {platform.machine()} {platform.release()}",
        uv=uv_version(environ),
    )


def check_device(hardware: Hardware) -> Check:
    """No GPU is no mistake, but whoever has one should know; a broken one hides no other."""
    if hardware.problems:
        return warn(
            "device",
            f"{hardware.shown}; {'; '.join(hardware.problems)}",
            "nvidia-smi says what it wants: mostly a reset, or a restart of the machine; the "
            "others work meanwhile",
        )
    if hardware.gpus or hardware.mlx:
        return ok("device", hardware.shown)
    return warn(
        "device",
        hardware.shown,
        "none for a training that needs no GPU; NVIDIA: install the driver (nvidia-smi must work); "
        "elsewhere: a community fork of the training script",
    )


def uv_version(environ: Mapping[str, str]) -> str | None:
    """The version of uv on the PATH; None when there is none."""
    program = shutil.which("uv", path=environ.get("PATH", os.defpath))
    if program is None:
        return None
    answer = said(program, "--version")
    return answer.removeprefix("uv ").split(" ")[0] if answer else None


def said(program: str, *words: str) -> str | None:
    """The first line that a program prints about itself; None when it fails. Changes nothing."""
    try:
        done = subprocess.run(
            [program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_VERSION_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return (
        (done.stdout.strip() or done.stderr.strip()).splitlines()[0][:200]
        if (done.stdout.strip() or done.stderr.strip())
        else ""
    )


def _mlx() -> str | None:
    if platform.system() != "Darwin" or importlib.util.find_spec("mlx") is None:
        return None
    try:
        return importlib.metadata.version("mlx")
    except importlib.metadata.PackageNotFoundError:
        return "present"
