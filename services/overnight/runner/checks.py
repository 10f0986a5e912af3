"""Frozen commands after a run that ended well: the metric's own, and the guard.

Each gets a fresh sandbox with the candidate's tree, laid out again from the store, and beside it
what the run left in its working folder. So nothing that the run did to a file of the tree counts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from overnight.contracts.execution import Deadline, Execution, Sandbox, SandboxSpec
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.loop import CommandSource, Plausible
from overnight.contracts.status import Status
from overnight.contracts.untrusted import one_line
from overnight.ledger.files import GUARD, SCORE
from overnight.runner.parse import MetricParser, Parsed
from overnight.runner.specs import Bench, check_spec
from overnight.runner.verdict import DETAIL_CHARACTERS, Verdict, classify, ended_well

#: What a run leaves under such a name would steer the frozen command instead of being its input:
#: a json.py beside a script is imported for the library's own, a pytest.ini chooses the tests.
CODE_SUFFIXES = (".py", ".pyc", ".pyd", ".so", ".pth", ".sh", ".ini", ".cfg", ".toml")


OnSandbox = Callable[[Sandbox, float], None]  #: what starts next, and its deadline in seconds


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What the metric's command said."""

    verdict: Verdict
    parsed: Parsed
    survivors: int


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """What the guard said."""

    passed: Literal["passed", "failed"] | None
    detail: str = ""  #: why it failed, one safe line
    verdict: Verdict | None = None  #: in place of the run's: it was ended by us, or by our fault
    survivors: int = 0


@dataclass(kw_only=True)
class Checks:
    """Of one attempt. *snapshot* is this attempt's own and takes what the run left."""

    bench: Bench
    job: ExperimentJob
    run: SandboxSpec  #: of the run that they follow
    snapshot: Path
    left: Path  #: what was taken from the run's working folder
    on_sandbox: OnSandbox
    _laid_out: bool = False

    def score(self, command: CommandSource) -> Scored:
        """Run the metric's command; its failure is the candidate's."""
        parser = MetricParser(self.job.metric, "stdout_line", self.job.constraints)
        execution = self._execute(SCORE, command.command, parser)
        parsed = parser.finish()
        plausible = Plausible(min=self.job.plausible_min, max=self.job.plausible_max)
        verdict = classify(execution, parsed, self._as_check(), plausible=plausible, phase="eval")
        if verdict.status in (Status.CRASH, Status.TIMEOUT):
            verdict = _named("metric's command", verdict)
        return Scored(verdict=verdict, parsed=parsed, survivors=execution.survivors)

    def guard(self, command: tuple[str, ...]) -> Guarded:
        """Run the guard: exit code 0 is a pass, whatever it prints."""
        parser = MetricParser(self.job.metric)
        execution = self._execute(GUARD, command, parser)
        survivors = execution.survivors
        if ended_well(execution):
            return Guarded(passed="passed", survivors=survivors)
        verdict = classify(execution, parser.finish(), self._as_check(), phase="eval")
        if verdict.status in (Status.CANCELLED, Status.INFRA):
            return Guarded(passed=None, verdict=verdict, survivors=survivors)
        detail = one_line(f"guard: {verdict.detail}", DETAIL_CHARACTERS)
        return Guarded(passed="failed", detail=detail, survivors=survivors)

    def _execute(self, name: str, command: tuple[str, ...], parser: MetricParser) -> Execution:
        self._lay_out()
        spec = check_spec(self.bench, self.job, self.run, name, command)
        sandbox = self.bench.executor.prepare(spec)
        try:
            self.on_sandbox(sandbox, self.job.check_seconds)
            sandbox.start(self.snapshot)
            return sandbox.wait(Deadline(wall_seconds=self.job.check_seconds), parser.feed)
        finally:
            sandbox.destroy()

    def _as_check(self) -> ExperimentJob:
        """The job with a check's deadline and network, for the words of its verdict."""
        limits = {"wall_seconds": self.job.check_seconds, "cpu_seconds": None, "gate": "time"}
        return self.job.model_copy(update={**limits, "network": "none"})

    def _lay_out(self) -> None:
        if not self._laid_out:
            put_beside(self.left, self.snapshot, self.job.editable_files)
            self._laid_out = True


def put_beside(left: Path, tree: Path, editable: tuple[str, ...]) -> None:
    """Move the files of *left* into *tree*, but for code and for what candidates may edit.

    Both folders are ours alone. What was frozen is not among the files, so that a file of the tree
    that gives way to one of *left* is one that the run was free to change.
    """
    for folder, _, names in os.walk(left):
        for name in names:
            source = Path(folder, name)
            path = source.relative_to(left)
            if str(path) in editable or _steers(path) or _through_link(tree, path):
                continue
            target = tree / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(source, target)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # a file where the tree has a folder, or the other way round


def _steers(path: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    return hidden or path.suffix.lower() in CODE_SUFFIXES or path.name == "Makefile"


def _through_link(tree: Path, path: Path) -> bool:
    places = [tree / parent for parent in (path, *path.parents)][:-1]
    return any(place.is_symlink() for place in places) or (tree / path).is_dir()


def _named(what: str, verdict: Verdict) -> Verdict:
    signature = verdict.signature
    return replace(
        verdict,
        detail=one_line(f"{what}: {verdict.detail}", DETAIL_CHARACTERS),
        signature=None if signature is None else f"score:{signature}"[:300],
    )
