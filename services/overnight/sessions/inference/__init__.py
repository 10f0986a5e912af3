"""Infers a repository's bindings, each with the place that is evidence for it.

Nothing is guessed without evidence; what is missing or contradicts itself is a UsageError that
names the flag to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overnight.configuration import split_command
from overnight.contracts.errors import UsageError
from overnight.sessions.inference.budget import find_budget, find_grace
from overnight.sessions.inference.constraints import find_constraints
from overnight.sessions.inference.direction import find_direction
from overnight.sessions.inference.edits import find_editable
from overnight.sessions.inference.environment import find_interpreter, find_prepare
from overnight.sessions.inference.finding import Finding, UnknownBindingError
from overnight.sessions.inference.metric import STDOUT_LINE, find_metric
from overnight.sessions.inference.reads import find_reads
from overnight.sessions.inference.training import Training, find_training
from overnight.sessions.sources import Repository, read_repository

__all__ = ["Finding", "Inferred", "UnknownBindingError", "infer", "prepare_command"]

#: Bindings in the order in which they are proposed and written.
ORDER = (
    "metric.name", "metric.direction", "metric.source", "constraints", "run_cmd", "python", "env",
    "editable_files", "gate", "budget", "startup_grace", "reads", "pass_env", "prepare",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """All bindings that `init` writes."""

    bindings: Mapping[str, Finding]  #: dotted key -> finding; only those that say something
    more: Mapping[str, Any] = field(default_factory=dict)  #: what the user gave beside these
    frozen: tuple[str, ...] = ()  #: files that matter and stay as they are, for the eye
    kind: str = ""  #: what the repository looks like, in words
    warnings: tuple[str, ...] = ()  #: one line each

    @property
    def metric(self) -> Finding:
        """Its name."""
        return self.bindings["metric.name"]

    @property
    def source(self) -> Finding:
        """Where the metric is read."""
        return self.bindings["metric.source"]

    @property
    def direction(self) -> Finding:
        """minimize or maximize."""
        return self.bindings["metric.direction"]

    @property
    def run_cmd(self) -> Finding:
        """The command, as words."""
        return self.bindings["run_cmd"]

    @property
    def editable_files(self) -> Finding:
        """Relative paths."""
        return self.bindings["editable_files"]

    @property
    def budget(self) -> Finding:
        """As the gate counts."""
        return self.bindings["budget"]

    @property
    def reads(self) -> Finding:
        """Places shown read-only."""
        return self.bindings["reads"]

    def findings(self) -> dict[str, Finding]:
        """By key, in the order in which they are written."""
        return {key: self.bindings[key] for key in ORDER if key in self.bindings}


def infer(root: Path, given: Mapping[str, Any], environ: Mapping[str, str]) -> Inferred:
    """The bindings of the repository at *root*. *given*: dotted key -> value, wins over evidence.

    Raises:
        UnknownBindingError: nothing, or too much, speaks for a binding; names the flag.
        UsageError: what was given can't be; the training script has a syntax error.
    """
    given = _normal(given)
    repo = read_repository(root)
    training = find_training(repo, given)
    script = training.script
    if script.broken_at is not None:
        raise UsageError(f"{script.file}:{script.broken_at}: syntax error: mend it first")
    metric = find_metric(repo, training, given)
    name = str(metric.name.value)
    budget = find_budget(repo, training, given)
    interpreter = find_interpreter(repo, training, given, environ)
    prepare = find_prepare(repo, given, script)
    reads = find_reads(repo, given, environ, prepare)
    found: dict[str, Finding | None] = {
        "metric.name": metric.name,
        "metric.direction": find_direction(repo, training, name, given),
        "metric.source": metric.source,
        "constraints": find_constraints(repo, training, name, given),
        "run_cmd": Finding(value=list(training.words), evidence=training.evidence),
        "python": interpreter.binding,
        "env": _env(training),
        "editable_files": find_editable(repo, training, metric, given),
        "gate": budget.gate,
        "budget": budget.amount,
        "startup_grace": find_grace(budget),
        "reads": reads.places,
        "pass_env": reads.pass_env,
        "prepare": prepare,
    }
    bindings = {key: value for key, value in found.items() if value is not None}
    editable = set(bindings["editable_files"].value)
    return Inferred(
        bindings=bindings,
        more={key: value for key, value in given.items() if key not in ORDER},
        frozen=tuple(n for n in _WELL_KNOWN if n in repo.files and n not in editable),
        kind=_kind(repo, metric.source.value),
        warnings=() if interpreter.warning is None else (interpreter.warning,),
    )


_WELL_KNOWN = ("prepare.py", "program.md", "pyproject.toml", "uv.lock", "requirements.txt")


def prepare_command(root: Path) -> tuple[str, ...] | None:
    """The command that prepares the data of *root*, by what its files say."""
    found = find_prepare(read_repository(root), {})
    return tuple(found.value) if found is not None else None


def _normal(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without flags that were not given; commands and lists as lists."""
    result = {key: value for key, value in given.items() if value is not None}
    for key in ("run_cmd", "prepare"):
        if isinstance(result.get(key), str):
            result[key] = split_command(result[key])
    for key in ("editable_files", "reads"):
        if isinstance(result.get(key), str):
            result[key] = [result[key]]
    return result


def _env(training: Training) -> Finding | None:
    if not training.env:
        return None
    return Finding(value=dict(training.env), evidence=str(training.env_place))


def _kind(repo: Repository, source: Any) -> str:
    """What it looks like, where that is plain to see."""
    if {"train.py", "prepare.py", "program.md"} <= repo.files:
        names = [n for n in ("train.py", "prepare.py", "program.md", "uv.lock") if n in repo.files]
        return f"looks like autoresearch ({', '.join(names)})"
    if isinstance(source, Mapping) and str(source.get("json", "")).endswith("all_results.json"):
        return "looks like a Hugging Face Trainer script"
    if source != STDOUT_LINE and any("torchrun" in line.text for line in repo.shell):
        return "looks like a speedrun (torchrun in a shell script)"
    return ""
