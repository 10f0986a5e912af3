"""Infers a repository's bindings, each with the place that is evidence for it.

Plain cases only: one training script that prints its metric. Nothing is guessed without
evidence; what is missing or ambiguous is a UsageError that names the flag to give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.configuration import direction_by_name, split_command
from overnight.contracts.errors import UsageError
from overnight.sessions.sources import (
    Command,
    Constant,
    Place,
    Printed,
    Prose,
    Repository,
    Script,
    read_repository,
)

DEFAULT_BUDGET_SECONDS = 300.0

#: Words of names that are printed beside a metric but are none.
_NO_METRIC = frozenset(
    {"seconds", "secs", "time", "mb", "gb", "vram", "memory", "mem", "params", "param", "steps"}
    | {"step", "epoch", "epochs", "tokens", "lr", "mfu", "depth", "seed", "batch", "device"}
    | {"percent", "size", "flops", "iter", "iters", "grad", "norm", "samples", "m"}
)
_HELD_OUT = frozenset({"val", "valid", "validation", "eval", "test", "dev", "heldout"})
_HELD_OUT_NAME = re.compile(r"(?<![\w.])(?:val|valid|validation|eval|test|dev)_[a-z0-9_]+(?!\w)")
_TRAINING = frozenset({"train", "training", "smooth", "running", "best"})
_BUDGET_NAMES = re.compile(
    r"(?:TIME_(?:BUDGET|LIMIT)|(?:TRAIN|TRAINING|MAX|WALL)_(?:TIME|SECONDS|MINUTES))(?:_\w+)?\Z"
    r"|BUDGET(?:_SECONDS|_MINUTES)?\Z"
)
_BUDGET_PROSE = re.compile(r"(\d+(?:\.\d+)?)[ -]?(seconds?|secs?|s|minutes?|mins?|hours?)\b", re.I)
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LOWER = re.compile(r"lower\s+(?:is|=|the)\s*better|minimi[sz]", re.I)
_HIGHER = re.compile(r"higher\s+(?:is|=|the)\s*better|maximi[sz]", re.I)
_INFERRED = frozenset(
    {"metric.name", "metric.direction", "run_cmd", "editable_files", "budget", "reads"}
)
_CACHE = re.compile(r"""~/\.cache/([\w.-]+)|["']\.cache["'],\s*["']([\w.-]+)["']""")
_HUB = re.compile(
    r"^\s*(?:from|import)\s+(?:huggingface_hub|transformers|datasets|kernels)\b", re.M
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One binding, and what it rests on."""

    value: Any
    evidence: str  #: one line, with file:line where there is one

    @staticmethod
    def given(value: Any) -> Finding:
        """A binding that the user gave."""
        return Finding(value=value, evidence="given")


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """All bindings that `init` writes."""

    metric: Finding
    direction: Finding
    run_cmd: Finding
    editable_files: Finding
    budget: Finding
    reads: Finding
    more: Mapping[str, Any]  #: what the user gave beside these, by dotted key
    warnings: tuple[str, ...]  #: one line each

    def findings(self) -> dict[str, Finding]:
        """By key, in the order in which they are written."""
        return {
            "metric.name": self.metric,
            "metric.direction": self.direction,
            "run_cmd": self.run_cmd,
            "editable_files": self.editable_files,
            "budget": self.budget,
            "reads": self.reads,
        }


def infer(root: Path, given: Mapping[str, Any], environ: Mapping[str, str]) -> Inferred:
    """The bindings of the repository at *root*. *given*: dotted key -> value, wins over evidence.

    Raises:
        UsageError: no training script, no or several metrics, no direction; names the flag.
    """
    given = _normal(given)
    repo = read_repository(root)
    script, chosen_by, command = _training_script(repo, given)
    if script.broken_at is not None:
        raise UsageError(f"{script.file}:{script.broken_at}: syntax error: mend it first")
    metric = _metric(repo, script, given)
    return Inferred(
        metric=metric,
        direction=_direction(repo, script, str(metric.value), given),
        run_cmd=_run_cmd(script, chosen_by, command, given),
        editable_files=_editable(script, given),
        budget=_budget(repo, script, given),
        reads=_reads(repo, given, environ),
        more={key: value for key, value in given.items() if key not in _INFERRED},
        warnings=_warnings(root),
    )


def _normal(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without flags that were not given; the command and the lists as lists."""
    result = {key: value for key, value in given.items() if value is not None}
    if isinstance(result.get("run_cmd"), str):
        result["run_cmd"] = split_command(result["run_cmd"])
    for key in ("editable_files", "reads"):
        if isinstance(result.get(key), str):
            result[key] = [result[key]]
    return result


def _training_script(
    repo: Repository, given: Mapping[str, Any]
) -> tuple[Script, str, Command | None]:
    """The script that trains, why it is that one, and the README's command for it."""
    runs = [command for command in repo.commands() if command.script is not None]

    def shown(file: str) -> Command | None:
        found = [command for command in runs if _file(command) == file]
        return min(found, key=lambda command: len(command.words), default=None)

    words = given.get("run_cmd")
    if words:
        named = [word.removeprefix("./") for word in words if word.endswith(".py")]
        script = repo.script(named[0]) if named else None
        if script is None and named:
            raise UsageError(f"--run-cmd: {named[0]} does not exist in {repo.root}")
        if script is not None:
            return script, "given", None
    script = repo.script("train.py")
    if script is not None:
        return script, "train.py by its name", shown("train.py")
    for command in runs:
        script = repo.script(_file(command))
        if script is not None and "train" in Path(script.file).name:
            return script, str(command.place), command
    top = [one for one in repo.scripts if "/" not in one.file and one.printed]
    if len(top) == 1:
        return top[0], "the only script that prints results", shown(top[0].file)
    raise UsageError(
        f"no training script found in {repo.root}: name it with --run-cmd 'python FILE.py'"
    )


def _file(command: Command) -> str:
    return (command.script or "").removeprefix("./")


def _run_cmd(
    script: Script, chosen_by: str, command: Command | None, given: Mapping[str, Any]
) -> Finding:
    if given.get("run_cmd"):
        return Finding.given(list(given["run_cmd"]))
    if command is None:
        return Finding(value=["python", script.file], evidence=chosen_by)
    words = list(command.words)
    if words[:2] == ["uv", "run"]:
        # Nothing is resolved at run time: `python` is the project's .venv where there is one.
        words = words[2:] if words[2:3] == ["python"] else ["python", *words[2:]]
    elif words[0] == "python3":
        words[0] = "python"
    return Finding(value=words, evidence=f"{command.place}: {' '.join(command.words)}")


def _metric(repo: Repository, script: Script, given: Mapping[str, Any]) -> Finding:
    name = given.get("metric.name")
    if name:
        place = next((one.place for one in script.printed if one.name == name), None)
        evidence = f"given; {place} prints it" if place is not None else "given"
        return Finding(value=name, evidence=evidence)
    local = [one for one in script.printed if _may_be_metric(one.name)]
    others = [
        one for other in repo.scripts for one in other.printed
        if other is not script and _may_be_metric(one.name) and _imports(script, other)
    ]  # fmt: skip
    shown = [one for one in repo.samples() if _may_be_metric(one.name)]
    named = _named(repo.prose) or _named(_lines(script))
    for candidates, verb in (
        (local, "prints it"),
        (others, "prints it"),
        (shown, "shows it"),
        (named, "names it (no script prints it as plain text: check)"),
    ):
        best = _best(candidates)
        if len(best) > 1:
            best = _mentioned(repo, best) or best
        if len(best) > 1:
            names = ", ".join(f"{one.name} ({one.place})" for one in best)
            raise UsageError(f"several metrics are printed: {names}: choose with --metric NAME")
        if best:
            return Finding(value=best[0].name, evidence=f"{best[0].place} {verb}")
    raise UsageError(
        f"no metric found: {script.file} must print a line `NAME: NUMBER`, "
        "e.g. print(f'val_loss: {loss:.6f}'); or name it with --metric NAME"
    )


def _named(lines: Iterable[Prose]) -> list[Printed]:
    """Held-out measures that *lines* name, such as val_bpb."""
    return [
        Printed(name=match[0], place=line.place)
        for line in lines
        for match in _HELD_OUT_NAME.finditer(line.text)
        if direction_by_name(match[0]) is not None and _may_be_metric(match[0])
    ]


def _best(candidates: Iterable[Printed]) -> list[Printed]:
    """The candidates of the highest rank, each name once, where it is printed last."""
    last = {one.name: one for one in candidates}
    if not last:
        return []
    top = min(_rank(name) for name in last)
    return [one for name, one in last.items() if _rank(name) == top]


def _rank(name: str) -> tuple[int, int]:
    words = _words(name)
    held_out = 2 if words & _TRAINING else 0 if words & _HELD_OUT else 1
    return held_out, 0 if direction_by_name(name) is not None else 1


def _may_be_metric(name: str) -> bool:
    return not _words(name) & _NO_METRIC


def _words(name: str) -> set[str]:
    return set(re.split(r"[_/.@-]", name.lower()))


def _imports(script: Script, other: Script) -> bool:
    module = Path(other.file).with_suffix("").as_posix().replace("/", ".")
    return re.search(rf"^\s*(?:from|import)\s+{re.escape(module)}\b", script.text, re.M) is not None


def _mentioned(repo: Repository, candidates: list[Printed]) -> list[Printed]:
    """The one candidate that the prose names, if it is one only."""
    found = [one for one in candidates if any(_names(line.text, one.name) for line in repo.prose)]
    return found if len(found) == 1 else []


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text) is not None


def _direction(repo: Repository, script: Script, metric: str, given: Mapping[str, Any]) -> Finding:
    if given.get("metric.direction"):
        return Finding.given(given["metric.direction"])
    said = [*_said(repo.prose, metric), *_said(_lines(script), metric)]
    values = {value for value, _ in said}
    if len(values) == 1:
        value, line = said[0]
        return Finding(value=value, evidence=f"{line.place} says so")
    if len(values) > 1:
        places = ", ".join(str(line.place) for _, line in said[:4])
        raise UsageError(
            f"{metric}: the text says lower and higher ({places}): "
            "choose with --direction minimize or maximize"
        )
    by_name = direction_by_name(metric)
    if by_name is None:
        raise UsageError(
            f"{metric}: is lower or higher better? Say --direction minimize or maximize"
        )
    better = "lower" if by_name == "minimize" else "higher"
    return Finding(value=by_name, evidence=f"by its name: {better} is better")


def _said(lines: Iterable[Prose], metric: str) -> list[tuple[str, Prose]]:
    """What lines that name *metric* say about its direction."""
    result = []
    for line in lines:
        if not _names(line.text, metric):
            continue
        lower, higher = _LOWER.search(line.text), _HIGHER.search(line.text)
        if bool(lower) != bool(higher):
            result.append(("minimize" if lower else "maximize", line))
    return result


def _lines(script: Script) -> list[Prose]:
    return [
        Prose(text=text, place=Place(file=script.file, line=number))
        for number, text in enumerate(script.text.splitlines(), 1)
    ]


def _editable(script: Script, given: Mapping[str, Any]) -> Finding:
    if given.get("editable_files"):
        return Finding.given(list(given["editable_files"]))
    return Finding(value=[script.file], evidence="the training script; all else stays frozen")


def _budget(repo: Repository, script: Script, given: Mapping[str, Any]) -> Finding:
    if given.get("budget") is not None:
        return Finding.given(given["budget"])
    for one in _in_order(repo, script):
        if _BUDGET_NAMES.match(one.name) and one.value > 0:
            seconds = one.value * (60.0 if "MINUTES" in one.name else 1.0)
            return Finding(value=seconds, evidence=f"seconds; {one.place} {one.name}")
    for line in repo.prose:
        match = _BUDGET_PROSE.search(line.text) if "budget" in line.text.lower() else None
        if match and float(match[1]) > 0:
            seconds = float(match[1]) * _UNIT_SECONDS[match[2][0].lower()]
            return Finding(value=seconds, evidence=f"seconds; {line.place} says so")
    return Finding(
        value=DEFAULT_BUDGET_SECONDS, evidence="seconds; the default, nothing says otherwise"
    )


def _in_order(repo: Repository, script: Script) -> list[Constant]:
    """Constants of the script itself, then of what it imports."""
    others = [one for one in repo.scripts if one is not script and _imports(script, one)]
    return [constant for one in (script, *others) for constant in one.constants]


def _reads(repo: Repository, given: Mapping[str, Any], environ: Mapping[str, str]) -> Finding:
    if given.get("reads"):
        return Finding.given(list(given["reads"]))
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    found: dict[str, str] = {}
    for script in repo.scripts:
        for match in _CACHE.finditer(script.text):
            name = match[1] or match[2]
            line = script.text.count("\n", 0, match.start()) + 1
            if home is not None and (home / ".cache" / name).is_dir():
                found.setdefault(f"~/.cache/{name}", f"{script.file}:{line}")
        hub = _HUB.search(script.text)
        if hub:
            line = script.text.count("\n", 0, hub.end()) + 1
            if environ.get("HF_HOME") and Path(environ["HF_HOME"]).is_dir():
                found.setdefault(environ["HF_HOME"], f"HF_HOME, {script.file}:{line}")
            elif home is not None and (home / ".cache/huggingface").is_dir():
                found.setdefault("~/.cache/huggingface", f"{script.file}:{line}")
    evidence = ", ".join(found.values()) if found else "nothing outside the repository is named"
    return Finding(value=list(found), evidence=evidence)


def _warnings(root: Path) -> tuple[str, ...]:
    if (root / "uv.lock").exists() and not (root / ".venv").exists():
        return ("uv.lock but no .venv: run `uv sync` first, candidates have no network",)
    return ()
