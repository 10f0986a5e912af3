"""Which files candidates may change: what a README or program.md says, else the training script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from overnight.sessions.inference.finding import Finding
from overnight.sessions.inference.metric import Metric
from overnight.sessions.inference.training import Training
from overnight.sessions.sources import Prose, Repository

_EDITS = re.compile(
    r"\b(?:edit|edits|edited|modify|modifies|editable|change|iterate on|tune)\b", re.I
)
_NOT = re.compile(
    r"\b(?:not|never|don't|do not|n't|read[- ]only|frozen|fixed|without|no need|cannot)\b", re.I
)
_FILE = re.compile(r"[`*\"']{1,3}([\w./-]+\.[A-Za-z]{1,5})[`*\"']{1,3}")
THIN_LINES = 40  #: of a script that only starts another one
_SCORES = re.compile(r"scor|eval|grade|judge|bench|test")


def find_editable(
    repo: Repository, training: Training, metric: Metric, given: Mapping[str, Any]
) -> Finding:
    """One or a few files."""
    if given.get("editable_files"):
        return Finding.given(list(given["editable_files"]))
    said = _said(repo, _belonging(repo, training))
    if said is not None:
        return said
    file = _with_the_work(repo, training, metric)
    prompt = _prompt(repo, training) if _SCORES.search(file.rpartition("/")[2]) else None
    if prompt is not None:
        return prompt
    return Finding(value=[file], evidence="the training script; all else stays frozen")


def _with_the_work(repo: Repository, training: Training, metric: Metric) -> str:
    """The training script; behind a thin one (`__main__.py`) the module that says the result."""
    script = training.script
    if script.printed or script.constants or script.text.count("\n") > THIN_LINES:
        return script.file
    behind = [
        one for one in repo.scripts
        if script.imports(one) and any(p.name == metric.name.value for p in one.printed)
        and not _SCORES.search(one.file.rpartition("/")[2])
    ]  # fmt: skip
    return behind[0].file if len(behind) == 1 else script.file


def _belonging(repo: Repository, training: Training) -> set[str]:
    """Files that the run is made of: the script, what it imports, and what these name."""
    found, pending = {training.script.file}, [training.script]
    while pending:
        script = pending.pop()
        for other in repo.scripts:
            if other.file not in found and script.imports(other):
                found.add(other.file)
                pending.append(other)
        found.update(text.value.removeprefix("./") for text in script.texts)
    return found


def _said(repo: Repository, belonging: set[str]) -> Finding | None:
    """Files that a sentence says are the ones to edit."""
    found: dict[str, str] = {}
    denied: set[str] = set()
    for line in repo.prose:
        if line.in_code or not _EDITS.search(line.text):
            continue
        for part in re.split(r"(?<=[.;!])\s|\bbut\b", line.text):
            names = [name for name in _FILE.findall(part) if name in repo.files & belonging]
            if _NOT.search(part):
                denied.update(names)
            elif _EDITS.search(part):
                for name in names:
                    found.setdefault(name, _shown(line))
    kept = {name: place for name, place in found.items() if name not in denied}
    code = {n: p for n, p in kept.items() if not n.lower().startswith(("readme", "program.md"))}
    if not code or len(code) > 3:
        return None
    return Finding(value=list(code), evidence=", ".join(dict.fromkeys(code.values())))


def _shown(line: Prose) -> str:
    return f"{line.place} says so; all else stays frozen"


def _prompt(repo: Repository, training: Training) -> Finding | None:
    """A script that only scores something else: the file that it reads."""
    for text in training.script.texts:
        name = text.value.removeprefix("./")
        if name in repo.files and re.search(r"prompt|instruction|template|config", name, re.I):
            return Finding(
                value=[name], evidence=f"{text.place} reads it; the scoring stays frozen"
            )
    return None
