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

from overnight.runner.hardware import hardware_class
from overnight.sessions.readiness.check import Check, ok, warn

_MIB = 1024**2
_VERSION_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One device, named for good by its UUID."""

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

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "gpus": [asdict(gpu) for gpu in self.gpus]}

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


def find_hardware(environ: Mapping[str, str], nvml: Callable[[], Any] | None = None) -> Hardware:
    """What is there now. *nvml*: gives the NVML module; raises ImportError where it is missing."""
    gpus, driver, cuda = _nvidia(nvml or _nvml)
    return Hardware(
        gpus=gpus,
        cuda=cuda,
        driver=driver,
        mlx=_mlx(),
        platform=f"{platform.system()} {platform.machine()} {platform.release()}",
        uv=uv_version(environ),
    )


def check_device(hardware: Hardware) -> Check:
    """No GPU is no mistake, but whoever has one should know."""
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


def _nvml() -> Any:
    import pynvml

    return pynvml


def _nvidia(load: Callable[[], Any]) -> tuple[tuple[Gpu, ...], str | None, str | None]:
    """(devices, driver, CUDA). Without the module or the driver: none."""
    try:
        nvml = load()
    except ImportError:
        return (), None, None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return (), None, None
    try:
        return _devices(nvml), _text(nvml.nvmlSystemGetDriverVersion()), _cuda(nvml)
    except nvml.NVMLError:
        return (), None, None
    finally:
        nvml.nvmlShutdown()


def _devices(nvml: Any) -> tuple[Gpu, ...]:
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            found.append(
                Gpu(
                    name=_text(nvml.nvmlDeviceGetName(handle)),
                    uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                    vram_mb=int(memory.total) // _MIB,
                )
            )
        except nvml.NVMLError:
            continue  # lost or not ours to see; the others are
    return tuple(found)


def _cuda(nvml: Any) -> str | None:
    try:
        version = int(nvml.nvmlSystemGetCudaDriverVersion())
    except nvml.NVMLError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _mlx() -> str | None:
    if platform.system() != "Darwin" or importlib.util.find_spec("mlx") is None:
        return None
    try:
        return importlib.metadata.version("mlx")
    except importlib.metadata.PackageNotFoundError:
        return "present"
