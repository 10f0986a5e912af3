"""What a sandbox is made from: the job, this runner's bench, and what the host has left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.execution import Executor, Limits, SandboxSpec
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.loop import CommandSource, JsonSource
from overnight.devices.granting import visible_env
from overnight.ledger.files import SessionFiles
from overnight.runner.frozen import frozen_paths

MEMORY_SHARE = 0.8  #: of the machine's memory, for a candidate without `memory_mb`
LEAST_DISK_BYTES = 256 * 1024**2  #: a full disk is the host's fault, and shows as such
LEAST_DISK_FILES = 10_000


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where a runner works: its session, its private folder, its executor, what it stamps."""

    files: SessionFiles
    folder: Path
    executor: Executor
    runner: str
    hardware: str
    environ: Mapping[str, str]
    device: str = "cpu:0"
    devices: tuple[str, ...] = ()  #: UUIDs of the GPUs that a candidate gets
    disk_bytes: int = 20 * 1024**3  #: all files of a candidate while it runs; see also `_disk`
    disk_files: int = 1_000_000


def run_spec(bench: Bench, job: ExperimentJob, work: Path, snapshot: Path) -> SandboxSpec:
    """Of the run itself.

    Raises:
        SandboxUnavailableError: it needs more devices than this runner holds.
    """
    if job.gpus > max(1, len(bench.devices)):
        raise SandboxUnavailableError(
            "runner", f"an experiment of {job.gpus} GPUs, this runner holds {len(bench.devices)}"
        )
    log_path = bench.files.run_log(job.id, job.attempt)
    bench.files.make_folder(log_path.parent)
    passed = {name: bench.environ[name] for name in job.pass_env if name in bench.environ}
    memory = job.memory_mb * 1024**2 if job.memory_mb else _most_memory()
    return SandboxSpec(
        sandbox_id=f"{job.sid}-{job.id}-{job.attempt}",
        labels={
            "sid": job.sid,
            "runner": bench.runner,
            "device": bench.device,
            "experiment": str(job.id),
        },
        command=job.run_cmd,
        env={**passed, **job.env, **visible_env(bench.devices)},
        frozen=_frozen(job, snapshot),
        reads=tuple(Path(path) for path in job.reads),
        interpreter=Path(job.python) if job.python else None,
        scratch=work / "sandbox",
        log_path=log_path,
        network=job.network,
        keep=_keep(job),
        devices=bench.devices,
        image=job.image,
        limits=replace(_disk(bench, work), memory_bytes=memory),
    )


def check_spec(
    bench: Bench, job: ExperimentJob, run: SandboxSpec, name: str, command: tuple[str, ...]
) -> SandboxSpec:
    """Of a frozen command after the run: the same walls, and never a network."""
    return replace(
        run,
        sandbox_id=f"{run.sandbox_id}-{name}",
        command=command,
        scratch=run.scratch.with_name(f"sandbox-{name}"),
        log_path=bench.files.check_log(job.id, name),
        network="none",
        keep=(),
    )


def _keep(job: ExperimentJob) -> tuple[str, ...]:
    if job.guard is not None or isinstance(job.source, CommandSource):
        return (".",)
    return (job.source.file,) if isinstance(job.source, JsonSource) else ()


def _disk(bench: Bench, folder: Path) -> Limits:
    """At most half of what is free now, so that no candidate takes the disk from all others."""
    status = os.statvfs(folder)
    free_bytes, free_files = status.f_bavail * status.f_frsize, status.f_favail
    space = min(bench.disk_bytes, max(LEAST_DISK_BYTES, free_bytes // 2))
    # Some file systems make inodes as they are needed, and say 0.
    files = bench.disk_files if not status.f_files else min(bench.disk_files, free_files // 2)
    return Limits(disk_bytes=space, disk_files=max(LEAST_DISK_FILES, files))


def _most_memory() -> int:
    """Without a limit of its own a candidate may fill the machine, but not take it down."""
    return int(psutil.virtual_memory().total * MEMORY_SHARE)


def _frozen(job: ExperimentJob, snapshot: Path) -> tuple[str, ...]:
    """The file that the metric is read from can be written, or no run could put it there."""
    written = (job.source.file,) if isinstance(job.source, JsonSource) else ()
    if job.frozen_files is None:
        return frozen_paths(snapshot, (*job.editable_files, *written), None)
    return frozen_paths(snapshot, job.editable_files, (*job.frozen_files, *job.links))
