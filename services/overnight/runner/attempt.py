"""One attempt from snapshot to result: export, sandbox, parse, classify, collect, check."""

from __future__ import annotations

import errno
import os
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from overnight.contracts.errors import SandboxAwayError, SandboxUnavailableError, SnapshotError
from overnight.contracts.execution import Deadline, Execution, Executor, Sandbox, SandboxSpec
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.contracts.loop import CommandSource, JsonSource, Plausible
from overnight.contracts.status import Status
from overnight.faultpoints import Step, reach
from overnight.ledger.files import GUARD, SCORE, SessionFiles
from overnight.ledger.stamp import utc_label
from overnight.runner.checks import Checks, OnSandbox
from overnight.runner.parse import MetricParser, Parsed
from overnight.runner.specs import Bench, run_spec
from overnight.runner.verdict import Verdict, classify, ended_well
from overnight.runner.written import read_number
from overnight.snapshots.export import BaseCache
from overnight.snapshots.store import SnapshotStore

log = structlog.get_logger()

KEPT_TREES = 8  #: exported parents that a runner keeps
DISK = "disk"  #: reason: our disk is full or failing
AWAY = "away"  #: reason: what makes sandboxes is, and nothing was begun
WAITED_FOR = frozenset({DISK, AWAY})  #: reasons that pass: the same attempt is tried again
OUT_LOST = "out_lost"  #: flag: what lay in /out could not be kept
_TELLING = (Status.CRASH, Status.TIMEOUT)  #: whose last words a result carries
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


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


def run_attempt(bench: Bench, job: ExperimentJob, on_sandbox: OnSandbox) -> ExperimentResult:
    """Run *job* once. A candidate's failure is a value; so is ours, as status infra.

    on_sandbox: told of each sandbox before it starts, and of its deadline in seconds, so that
    another thread can kill it.
    Call from the thread that outlives the sandbox.
    """
    watch = Stopwatch()
    work = bench.folder / f"work-{job.id}-{job.attempt}"
    shutil.rmtree(work, ignore_errors=True)
    try:
        bench.files.make_folder(work)
        return _Attempt(bench, job, work, watch, on_sandbox).run()
    except _NotBegunError as error:
        return _infra(bench, job, AWAY, str(error), watch)
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
    """Is a full or failing disk behind it? Git and container engines say so in words alone."""
    words = str(error).lower()
    if any(os.strerror(number).lower() in words for number in _DISK_ERRORS):
        return True
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _DISK_ERRORS


class _NotBegunError(SandboxUnavailableError):
    """There was nobody to make a sandbox of: this attempt has not met its idea."""


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """The run itself, once its sandbox is gone."""

    execution: Execution
    parsed: Parsed
    verdict: Verdict | None  #: None: it ended well, and the metric's command has the last word
    out_kept: bool = True


@dataclass(frozen=True)
class _Attempt:
    """The steps of one attempt, in order."""

    bench: Bench
    job: ExperimentJob
    work: Path
    watch: Stopwatch
    on_sandbox: OnSandbox

    @property
    def _snapshot(self) -> Path:
        return self.work / "snapshot"

    @property
    def _left(self) -> Path:
        """What was taken from the run's working folder."""
        return self.work / "left"

    def run(self) -> ExperimentResult:
        """All of it."""
        self._export()
        spec = run_spec(self.bench, self.job, self.work, self._snapshot)
        ran = self._train(spec)
        checks = Checks(
            bench=self.bench,
            job=self.job,
            run=spec,
            snapshot=self._snapshot,
            left=self._left,
            on_sandbox=self.on_sandbox,
        )
        result = self._scored(ran, checks)
        result = self._guarded(result, checks)
        if result.status is not Status.SCORED:
            shutil.rmtree(self._out, ignore_errors=True)
        return result.model_copy(update={"timings": self.watch.seconds})

    def _export(self) -> None:
        trees = self.bench.folder / "trees"
        store = SnapshotStore(self.bench.files.root)
        BaseCache(trees).export(store, self.job.commit, self.job.tree_digest, self._snapshot)
        _forget_old_trees(trees)
        _keep_code(self.bench.files, self.job, self._snapshot)
        _link_reads(self.job, self._snapshot)
        if isinstance(self.job.source, JsonSource):
            _remove_stale(self._snapshot, self.job.source.file)
        self.watch.lap("export")
        reach(Step.RUNNER_EXPORTED)

    def _train(self, spec: SandboxSpec) -> _Ran:
        sandbox = _prepared(self.bench.executor, spec)
        try:
            reach(Step.RUNNER_PREPARED)
            self.on_sandbox(sandbox, self.job.wall_seconds)
            parser = MetricParser(self.job.metric, self.job.source, self.job.constraints)
            sandbox.start(self._snapshot)
            self.watch.lap("start")
            deadline = Deadline(
                wall_seconds=self.job.wall_seconds, cpu_seconds=self.job.cpu_seconds
            )
            execution = sandbox.wait(deadline, parser.feed)
            self.watch.lap("run")
            reach(Step.RUNNER_ENDED)
            ran = self._judged(sandbox, execution, parser.finish())
            self.watch.lap("collect")
            reach(Step.RUNNER_COLLECTED)
        finally:
            sandbox.destroy()
        self.watch.lap("destroy")
        reach(Step.RUNNER_DESTROYED)
        return ran

    def _judged(self, sandbox: Sandbox, execution: Execution, parsed: Parsed) -> _Ran:
        """With what it left, which goes with its sandbox."""
        job = self.job
        verdict: Verdict | None = None
        takes = ended_well(execution) and isinstance(job.source, JsonSource | CommandSource)
        if takes:
            sandbox.take(self._left)
        if takes and isinstance(job.source, JsonSource):
            said = read_number(self._left, job.source)
            parsed = replace(
                parsed, value=said.value, problem=said.problem, raw=said.raw, why=said.why
            )
        if not takes or isinstance(job.source, JsonSource):
            verdict = classify(execution, parsed, job, plausible=_plausible(job))
            if not takes and _asks_guard(job, verdict.status, verdict.metric):
                sandbox.take(self._left)
        kept = True
        if verdict is None or verdict.status is Status.SCORED:
            kept = self._collected(sandbox)
        return _Ran(execution=execution, parsed=parsed, verdict=verdict, out_kept=kept)

    def _scored(self, ran: _Ran, checks: Checks) -> ExperimentResult:
        """By the run, or by the metric's command after it."""
        source, verdict, parsed = self.job.source, ran.verdict, ran.parsed
        survivors = ran.execution.survivors
        if verdict is None:
            assert isinstance(source, CommandSource)  # it has the last word
            scored = checks.score(source)
            self.watch.lap(SCORE)
            verdict, survivors = scored.verdict, survivors + scored.survivors
            named = {claim.name for claim in verdict.claims}
            before = tuple(claim for claim in parsed.claims if claim.name not in named)
            verdict = replace(
                verdict,
                flags=(*parsed.flags, *verdict.flags),
                claims=(*before, *verdict.claims),
            )
            parsed = replace(
                scored.parsed,
                measures=parsed.measures | scored.parsed.measures,
                peak_vram_mb=parsed.peak_vram_mb,
            )
        result = _result(self.bench, self.job, ran.execution, parsed, verdict)
        lost = () if ran.out_kept else (OUT_LOST,)
        return result.model_copy(update={"survivors": survivors, "flags": (*result.flags, *lost)})

    def _guarded(self, result: ExperimentResult, checks: Checks) -> ExperimentResult:
        """The guard, where the metric may be kept."""
        command = self.job.guard
        if command is None or not _asks_guard(self.job, result.status, result.metric):
            return result
        said = checks.guard(command)
        self.watch.lap(GUARD)
        changes: dict[str, object] = {"survivors": result.survivors + said.survivors}
        if said.verdict is not None:
            changes |= {
                "status": said.verdict.status,
                "reason": said.verdict.reason,
                "detail": said.verdict.detail,
                "metric": None,
            }
        else:
            changes |= {"guard": said.passed, "detail": said.detail}
        return result.model_copy(update=changes)

    @property
    def _out(self) -> Path:
        return self.bench.files.iteration(self.job.id) / "out"

    def _collected(self, sandbox: Sandbox) -> bool:
        """What lies in /out; a disk that has no room for it costs no measured result."""
        shutil.rmtree(self._out, ignore_errors=True)
        try:
            self.bench.files.make_folder(self._out)
            sandbox.collect(self._out)
        except (OSError, SandboxUnavailableError) as error:
            log.error("out_not_collected", experiment_id=self.job.id, reason=str(error))
            shutil.rmtree(self._out, ignore_errors=True)
            return False
        return True


def _prepared(executor: Executor, spec: SandboxSpec) -> Sandbox:
    try:
        return executor.prepare(spec)
    except SandboxAwayError as error:
        raise _NotBegunError(error.executor, error.reason) from error


def _plausible(job: ExperimentJob) -> Plausible:
    return Plausible(min=job.plausible_min, max=job.plausible_max)


def _asks_guard(job: ExperimentJob, status: Status, metric: float | None) -> bool:
    """Is there a guard, and may this be kept? If not, nobody need ask it."""
    if job.guard is None or status is not Status.SCORED or metric is None:
        return False
    limit = job.guard_unless_worse_than
    return limit is None or (metric >= limit if job.maximize else metric <= limit)


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


def _remove_stale(snapshot: Path, path: str) -> None:
    """What an earlier run left in the tree is no result of this one."""
    place = snapshot / path
    above = [snapshot / parent for parent in Path(path).parents][:-1]
    if not any(folder.is_symlink() for folder in above) and not _is_folder(place):
        place.unlink(missing_ok=True)


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _keep_code(files: SessionFiles, job: ExperimentJob, snapshot: Path) -> None:
    """iter<id>/code_snapshot: the editable files as they ran."""
    code = files.iteration(job.id) / "code_snapshot"
    for path in job.editable_files:
        source = snapshot / path
        if source.is_file():
            target = code / path
            files.make_folder(target.parent)
            shutil.copyfile(source, target)


def _result(
    bench: Bench, job: ExperimentJob, execution: Execution, parsed: Parsed, verdict: Verdict
) -> ExperimentResult:
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
            "measures": parsed.measures,
            "log_tail": parsed.log_tail if verdict.status in _TELLING else "",
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
            "image": execution.image,
            "devices": bench.devices,
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
