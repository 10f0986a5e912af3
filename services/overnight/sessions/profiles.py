"""What a session's experiments run is registered before anything asks for it.

Where a runner may not write that itself, as in compose: it can then ask for nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from overnight.contracts.execution import Executor, SandboxSpec
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.loop import CommandSource
from overnight.ledger.files import GUARD, SCORE, SessionFiles
from overnight.orchestrator.jobs import in_every_job, launch_of
from overnight.plugins import EXECUTORS, load
from overnight.runner.specs import Bench, check_spec, run_spec
from overnight.sessions.opening import Opened
from overnight.sessions.services import needs_spawner


def register_profiles(opened: Opened, folder: Path, environ: Mapping[str, str]) -> int:
    """Write the profiles of all that its experiments run into *folder*; how many.

    None of them where the executor has no spawner.
    environ: what a runner will have; `pass_env` takes from it.

    Raises:
        SandboxUnavailableError: *folder* can't be written, or candidates may not see a place that
            `reads` names.
    """
    name = opened.config.pools["default"].executor
    if not needs_spawner(name):
        return 0
    executor = load(EXECUTORS, name)({"profiles": folder, "protected": [str(opened.files.root)]})
    with tempfile.TemporaryDirectory(prefix="overnight-open-") as empty:
        specs = list(_specs(opened, executor, Path(empty), environ))
    return len({executor.register(spec) for spec in specs})


def _specs(
    opened: Opened, executor: Executor, empty: Path, environ: Mapping[str, str]
) -> Iterator[SandboxSpec]:
    """As a runner makes them; what differs from one experiment to the next is no part of them."""
    fields = in_every_job(opened.config, launch_of(opened.opening, opened.config))
    job = ExperimentJob(
        sid=opened.sid, tag=opened.tag, id=1, attempt=1, commit="0" * 40, tree_digest="0" * 64,
        wall_seconds=1.0, cpu_seconds=None, **fields | {"gpus": 0, "frozen_files": None},
    )  # fmt: skip
    bench = Bench(
        files=SessionFiles(empty), folder=empty, executor=executor, runner="r0", hardware="",
        environ=environ,
    )  # fmt: skip
    run = run_spec(bench, job, empty, empty)
    yield run
    if isinstance(job.source, CommandSource):
        yield check_spec(bench, job, run, SCORE, job.source.command)
    if job.guard is not None:
        yield check_spec(bench, job, run, GUARD, job.guard)
