"""Which way the metric is better. Never guessed; what contradicts itself is named and refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from overnight.configuration import direction_by_name
from overnight.sessions.inference.finding import Finding, UnknownBindingError
from overnight.sessions.inference.metric import about, lines_of
from overnight.sessions.inference.training import Training
from overnight.sessions.sources import Place, Prose, Repository, Script

_LOWER = re.compile(
    r"(?:lower|smaller)\s+(?:[`*\w]+\s+)?(?:is|=|the)\s*(?:always\s+)?better"
    r"|minimi[sz]|the lower,? the better|as (?:low|small) as possible",
    re.I,
)
_HIGHER = re.compile(
    r"(?:higher|larger|bigger|greater)\s+(?:[`*\w]+\s+)?(?:is|=|the)\s*(?:always\s+)?better|maximi[sz]"
    r"|the (?:higher|larger),? the better|as (?:high|large) as possible",
    re.I,
)
_HELD_OUT = frozenset({"val", "valid", "validation", "eval", "test", "dev"})
_BETTER = {"minimize": "lower", "maximize": "higher"}
CHOOSE = "say --direction minimize or maximize"


@dataclass(frozen=True)
class _Evidence:
    direction: str
    place: Place | None
    says: str  #: the evidence as shown where it decides
    claim: str  #: the same where it contradicts another


def find_direction(
    repo: Repository, training: Training, metric: str, given: Mapping[str, Any]
) -> Finding:
    """minimize or maximize.

    Raises:
        UnknownBindingError: nothing says it, or two things say the opposite; names both.
    """
    if given.get("metric.direction"):
        return Finding.given(given["metric.direction"])
    prose = [*_said(repo.prose, metric), *_said(lines_of(training.script), metric)]
    found = [*prose, *_kept(repo, training.script, metric), *_named(metric)]
    if not found:
        raise UnknownBindingError(
            "metric.direction",
            f"{metric}: is lower or higher better? Say --direction minimize or maximize",
        )
    if len({one.direction for one in prose}) > 1:
        places = ", ".join(str(one.place) for one in prose[:4])
        raise UnknownBindingError(
            "metric.direction",
            f"{metric}: the text says lower and higher ({places}): "
            "choose with --direction minimize or maximize",
        )
    other = next((one for one in found if one.direction != found[0].direction), None)
    if other is not None:
        raise UnknownBindingError(
            "metric.direction",
            f"{metric}: {found[0].claim}, but {other.claim}: correct the one that is wrong, or "
            f"{CHOOSE}",
        )
    return Finding(value=found[0].direction, evidence=found[0].says)


def _said(lines: Iterable[Prose], metric: str) -> list[_Evidence]:
    """What lines that name *metric* say about it."""
    result = []
    for line in lines:
        text = about(line.text, metric)
        lower, higher = _LOWER.search(text), _HIGHER.search(text)
        if bool(lower) != bool(higher):
            direction = "minimize" if lower else "maximize"
            says = f"{line.place} says so"
            claim = f"{line.place} says {_BETTER[direction]} is better"
            result.append(_Evidence(direction, line.place, says, claim))
    return result


def _kept(repo: Repository, script: Script, metric: str) -> list[_Evidence]:
    """What the code keeps when it compares this metric."""
    words = _key(metric)
    result = []
    scripts = [script, *(one for one in repo.scripts if script.imports(one))]
    for kept in (*(kept for one in scripts for kept in one.kept), *repo.settings):
        if kept.words and (kept.words == words or kept.words - _HELD_OUT == words - _HELD_OUT):
            better = _BETTER[kept.direction]
            text = f"{kept.place} keeps the {better} one"
            result.append(_Evidence(kept.direction, kept.place, text, text))
    return result


def _key(metric: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"[^a-z0-9]+", metric.lower()) if word)


def _named(metric: str) -> list[_Evidence]:
    direction = direction_by_name(metric)
    if direction is None:
        return []
    better = _BETTER[direction]
    return [
        _Evidence(
            direction, None, f"by its name: {better} is better",
            f"its name means {better} is better",
        )
    ]  # fmt: skip
