"""What one experiment is granted: seconds, or the epochs or steps that the command names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from overnight.sessions.inference.finding import Finding
from overnight.sessions.inference.training import Training
from overnight.sessions.sources import Constant, Repository, Script

DEFAULT_SECONDS = 300.0
SHORT_SECONDS, GRACE_SECONDS = 30.0, 15.0
TIME, EPOCHS, STEPS = "time", "epochs", "steps"

_SECONDS_NAME = re.compile(
    r"(?:TIME_(?:BUDGET|LIMIT)|(?:TRAIN|TRAINING|MAX|WALL)_(?:TIME|SECONDS|MINUTES))(?:_\w+)?\Z"
    r"|BUDGET(?:_SECONDS|_MINUTES)?\Z"
)
_PROSE = re.compile(r"(\d+(?:\.\d+)?)[ -]?(seconds?|secs?|s|minutes?|mins?|hours?)\b", re.I)
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIME_OPTION = re.compile(r"--(?:(?:max|train|time)[_-])?(?:time|seconds|minutes)(?:[_-]\w+)?\Z")
_EPOCH_OPTION = re.compile(r"--(?:num[_-])?(?:train[_-])?(?:max[_-])?epochs\Z")
_STEP_OPTION = re.compile(r"--(?:num[_-])?(?:max[_-])?(?:train[_-])?(?:steps|iters|iterations)\Z")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much, and of what."""

    amount: Finding
    gate: Finding


def find_budget(repo: Repository, training: Training, given: Mapping[str, Any]) -> Budget:
    """The budget that the run has already, else the default."""
    found = _found(repo, training)
    gate = Finding.given(given["gate"]) if given.get("gate") else found.gate
    if given.get("budget") is not None:
        return Budget(amount=Finding.given(given["budget"]), gate=gate)
    if given.get("gate") and given["gate"] != found.gate.value:
        amount = Finding(value=DEFAULT_SECONDS, evidence="the default, nothing says otherwise")
        return Budget(amount=amount, gate=gate)
    return Budget(amount=found.amount, gate=gate)


def find_grace(budget: Budget) -> Finding | None:
    """Time for imports and evaluation where the budget is so short that they would eat it: the
    deadline counts from the start of the process, a script's own clock from its first step.

    Where epochs or steps are counted nobody knows yet how long they take: the baseline tells, and
    it runs alone, but candidates beside each other.
    """
    amount = budget.amount.value
    if budget.gate.value in (EPOCHS, STEPS):
        return Finding(
            value=GRACE_SECONDS, evidence="seconds on top; the baseline is timed when it runs alone"
        )
    if budget.gate.value != TIME or not isinstance(amount, int | float) or amount >= SHORT_SECONDS:
        return None
    return Finding(
        value=GRACE_SECONDS, evidence="seconds; imports are no part of so short a budget"
    )


def _found(repo: Repository, training: Training) -> Budget:
    for constant in _constants(repo, training.script):
        if _SECONDS_NAME.match(constant.name) and constant.value > 0:
            seconds = constant.value * (60.0 if "MINUTES" in constant.name else 1.0)
            return _seconds(seconds, f"seconds; {constant.place} {constant.name}")
    by_option = _by_option(training)
    if by_option is not None:
        return by_option
    for line in repo.prose:
        match = _PROSE.search(line.text) if "budget" in line.text.lower() else None
        if match and float(match[1]) > 0:
            seconds = float(match[1]) * _UNIT_SECONDS[match[2][0].lower()]
            return _seconds(seconds, f"seconds; {line.place} says so")
    return Budget(
        amount=Finding(
            value=DEFAULT_SECONDS,
            evidence="seconds; the default. Better: what one run takes",
        ),
        gate=Finding(value=TIME, evidence="what the budget counts"),
    )


def _by_option(training: Training) -> Budget | None:
    """`--epochs 3` in the command: no candidate can change it."""
    for name, value in _given_options(training.words):
        if _TIME_OPTION.match(name):
            factor = 60.0 if "minutes" in name else 1.0
            return _seconds(value * factor, f"seconds; {name} in the command")
        for pattern, gate in ((_EPOCH_OPTION, EPOCHS), (_STEP_OPTION, STEPS)):
            if pattern.match(name):
                return Budget(
                    amount=Finding(value=value, evidence=f"{gate}; {name} in the command"),
                    gate=Finding(value=gate, evidence=f"{name}: killed at twice the baseline"),
                )
    return None


def _given_options(words: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            continue
        text = value if equals else (words[at + 1] if at + 1 < len(words) else "")
        try:
            number = float(text)
        except ValueError:
            continue
        if number > 0:
            yield name, number


def _seconds(value: float, evidence: str) -> Budget:
    return Budget(
        amount=Finding(value=value, evidence=evidence),
        gate=Finding(value=TIME, evidence="what the budget counts"),
    )


def _constants(repo: Repository, script: Script) -> list[Constant]:
    """Of the script itself, then of what it imports."""
    others = [one for one in repo.scripts if one is not script and script.imports(one)]
    return [constant for one in (script, *others) for constant in one.constants]
