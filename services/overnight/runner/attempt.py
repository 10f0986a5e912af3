"""One attempt from snapshot to result: export, sandbox, parse, classify, collect, destroy."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import structlog

from overnight.contracts.errors import SandboxUnavailableError, SnapshotError
from overnight.contracts.execution import (
    Deadline,
    Execution,
    Executor,
    Limits,
    Sandbox,
    SandboxSpec,
)
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.contracts.loop import Plausible
from overnight.contracts.status import Status
from overnight.faultpoints import Step, reach
from overnight.ledger.files import SessionFiles
from overnight.ledger.stamp import utc_label
from overnight.runner.frozen import frozen_paths
from overnight.runner.parse import MetricParser, Parsed
from overnight.runner.verdict import classify
from overnight.snapshots.export import BaseCache
from overnight.snapshots.store import SnapshotStore

log = structlog.get_logger()

MEMORY_SHARE = 0.8  #: of the machine's memory, for a candidate without `memory_mb`
LEAST_DISK_BYTES = 256 * 1024**2  #: a full disk is the host's fault, and shows as such
LEAST_DISK_FILES = 10_000
KEPT_TREES = 8  #: exported parents that a runner keeps
DISK = "disk"  #: reason: our disk is full or failing; the same attempt may be tried again
OUT_LOST = "out_lost"  #: flag: what lay in /out could not be kept
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


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
    disk_bytes: int = 20 * 1024**3  #: all files of a candidate while it runs; see also `_disk`
    disk_files: int = 1_000_000


@dataclass
class Stopwatch:
    """Step -> seconds, for the row."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def lap(self, step: str) -> None:
        """All since the last lap was this step."""
        now = time.monotonic()
        self.seconds[step] = round(now - self._since, 6)
        self._since = now


def run_attempt(
    bench: Bench, job: ExperimentJob, on_sandbox: Callable[[Sandbox], None]
) -> ExperimentResult:
    """Run *job* once. A candidate's failure is a value; so is ours, as status infra.

    on_sandbox: told of the sandbox before it starts, so that another thread can kill it.
    Call from the thread that outlives the sandbox.
    """
    watch = Stopwatch()
    work = bench.folder / f"work-{job.id}-{job.attempt}"
    shutil.rmtree(work, ignore_errors=True)
    try:
        bench.files.make_folder(work)
        return _run(bench, job, work, watch, on_sandbox)
    except SnapshotError as error:
        reason = DISK if _disk_refused(error) else "snapshot"
        return _infra(bench, job, reason, str(error), watch)
    except SandboxUnavailableError as error:
        reason = DISK if _disk_refused(error) else "sandbox"
        return _infra(bench, job, reason, str(error), watch)
    except OSError as error:
        return _infra(bench, job, DISK, f"{error.strerror}: {error.filename}", watch)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _disk_refused(error: BaseException) -> bool:
    """Is a full or failing disk behind it? Git says so in words alone."""
    if any(os.strerror(number) in str(error) for number in _DISK_ERRORS):
        return True
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _DISK_ERRORS


def _run(
    bench: Bench,
    job: ExperimentJob,
    work: Path,
    watch: Stopwatch,
    on_sandbox: Callable[[Sandbox], None],
) -> ExperimentResult:
    snapshot = work / "snapshot"
    cache = BaseCache(bench.folder / "trees")
    cache.export(SnapshotStore(bench.files.root), job.commit, job.tree_digest, snapshot)
    _forget_old_trees(bench.folder / "trees")
    _keep_code(bench.files, job, snapshot)
    _link_reads(job, snapshot)
    watch.lap("export")
    reach(Step.RUNNER_EXPORTED)
    sandbox = bench.executor.prepare(_spec(bench, job, work, snapshot))
    try:
        reach(Step.RUNNER_PREPARED)
        on_sandbox(sandbox)
        parser = MetricParser(job.metric)
        sandbox.start(snapshot)
        watch.lap("start")
        deadline = Deadline(wall_seconds=job.wall_seconds, cpu_seconds=job.cpu_seconds)
        execution = sandbox.wait(deadline, parser.feed)
        watch.lap("run")
        reach(Step.RUNNER_ENDED)
        parsed = parser.finish()
        result = _result(bench, job, execution, parsed)
        if result.status is Status.SCORED and not _collected(bench, job, sandbox):
            result = result.model_copy(update={"flags": (*result.flags, OUT_LOST)})
        watch.lap("collect")
        reach(Step.RUNNER_COLLECTED)
    finally:
        sandbox.destroy()
    watch.lap("destroy")
    reach(Step.RUNNER_DESTROYED)
    return result.model_copy(update={"timings": watch.seconds})


def _collected(bench: Bench, job: ExperimentJob, sandbox: Sandbox) -> bool:
    """What the candidate left in /out; a disk that has no room for it costs no measured result."""
    out = bench.files.iteration(job.id) / "out"
    shutil.rmtree(out, ignore_errors=True)
    try:
        bench.files.make_folder(out)
        sandbox.collect(out)
    except (OSError, SandboxUnavailableError) as error:
        log.error("out_not_collected", experiment_id=job.id, reason=str(error))
        shutil.rmtree(out, ignore_errors=True)
        return False
    return True


def _forget_old_trees(folder: Path) -> None:
    """The newest few parents stay; one that is wanted again is simply exported again."""
    trees = sorted(folder.iterdir(), key=lambda t: t.stat().st_mtime) if folder.is_dir() else []
    for tree in trees[:-KEPT_TREES]:
        shutil.rmtree(tree, ignore_errors=True)


def _link_reads(job: ExperimentJob, snapshot: Path) -> None:
    """After the tree was checked: what is read in place stands where the script looks for it.

    The sandbox mounts a frozen link to one of the reads as that place, read-only.
    """
    for path, target in job.links.items():
        place = snapshot / path
        if not place.exists() and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)


def _keep_code(files: SessionFiles, job: ExperimentJob, snapshot: Path) -> None:
    """iter<id>/code_snapshot: the editable files as they ran."""
    code = files.iteration(job.id) / "code_snapshot"
    for path in job.editable_files:
        source = snapshot / path
        if source.is_file():
            target = code / path
            files.make_folder(target.parent)
            shutil.copyfile(source, target)


def _spec(bench: Bench, job: ExperimentJob, work: Path, snapshot: Path) -> SandboxSpec:
    passed = {name: bench.environ[name] for name in job.pass_env if name in bench.environ}
    memory = job.memory_mb * 1024**2 if job.memory_mb else _most_memory()
    log_path = bench.files.run_log(job.id, job.attempt)
    bench.files.make_folder(log_path.parent)
    return SandboxSpec(
        sandbox_id=f"{job.sid}-{job.id}-{job.attempt}",
        labels={
            "sid": job.sid,
            "runner": bench.runner,
            "device": bench.device,
            "experiment": str(job.id),
        },
        command=job.run_cmd,
        env={**passed, **job.env},
        frozen=_frozen(job, snapshot),
        reads=tuple(Path(path) for path in job.reads),
        interpreter=Path(job.python) if job.python else None,
        scratch=work / "sandbox",
        log_path=log_path,
        network=job.network,
        limits=replace(_disk(bench, work), memory_bytes=memory),
    )


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
    if job.frozen_files is None:
        return frozen_paths(snapshot, job.editable_files, None)
    return frozen_paths(snapshot, job.editable_files, (*job.frozen_files, *job.links))


def _result(
    bench: Bench, job: ExperimentJob, execution: Execution, parsed: Parsed
) -> ExperimentResult:
    plausible = Plausible(min=job.plausible_min, max=job.plausible_max)
    verdict = classify(execution, parsed, job, plausible=plausible)
    rss = execution.max_rss_bytes
    return ExperimentResult.model_validate(
        {
            "id": job.id,
            "attempt": job.attempt,
            "sender": bench.runner,
            "status": verdict.status,
            "reason": verdict.reason,
            "detail": verdict.detail,
            "metric": verdict.metric,
            "claims": verdict.claims,
            "flags": verdict.flags,
            "signature": verdict.signature,
            "runtime_s": execution.wall_seconds,
            "cpu_s": execution.cpu_seconds,
            "cpu_source": execution.cpu_source,
            "cpu_share": execution.cpu_share,
            "deadline_s": job.wall_seconds,
            "peak_vram_mb": parsed.peak_vram_mb,
            "max_rss_mb": None if rss is None else round(rss / 1024**2, 1),
            "exit_code": execution.exit_code,
            "signal": execution.signal,
            "isolation": execution.isolation,
            "survivors": execution.survivors,
            "kill_latency_s": execution.kill_latency_seconds,
            "hardware": bench.hardware,
            "runner": bench.runner,
            "tree_digest": job.tree_digest,
            "log_bytes": execution.log_bytes,
            "log_truncated": execution.log_truncated,
            "at": utc_label(),
        }
    )


def _infra(
    bench: Bench, job: ExperimentJob, reason: str, detail: str, watch: Stopwatch
) -> ExperimentResult:
    log.error("attempt_failed", experiment_id=job.id, attempt=job.attempt, reason=detail)
    return infra_result(bench.runner, job, reason, detail).model_copy(
        update={"timings": watch.seconds, "isolation": bench.executor.isolation}
    )


def infra_result(runner: str, job: ExperimentJob, reason: str, detail: str) -> ExperimentResult:
    """Our fault or the machine's; the next attempt follows."""
    return ExperimentResult.model_validate(
        {
            "id": job.id,
            "attempt": job.attempt,
            "sender": runner,
            "status": Status.INFRA,
            "reason": reason,
            "detail": " ".join(detail.split())[:2000],
            "runner": runner,
            "at": utc_label(),
        }
    )
