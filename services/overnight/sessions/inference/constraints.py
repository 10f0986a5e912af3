"""Bounds that a README states for another number that the run prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from overnight.sessions.inference.finding import Finding
from overnight.sessions.inference.metric import printed_names
from overnight.sessions.inference.training import Training
from overnight.sessions.sources import Printed, Prose, Repository

_NUMBER = r"([-+]?\d+(?:[.,]\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)\s*(%|[kKMG]i?B\b)?"
_AT_MOST = (
    r"(?:<=?|≤|below|under|at most|no (?:more|higher|larger) than|not exceed"
    r"|not be (?:more|higher|larger) than|up to)"
)
_AT_LEAST = (
    r"(?:>=?|≥|above|at least|no (?:less|lower) than"
    r"|not (?:be |fall |drop )?(?:less than|below))"
)
_MODAL = r"(?:(?:must|has to|should|needs to|may|can|shall|is to)\s+)?"
_IS = r"(?:(?:be|stay|stays|remain|remains|is|keep|kept)\s+)?"
_BETWEEN = rf"[`*\"']*\s*{_MODAL}{_IS}"


def find_constraints(
    repo: Repository, training: Training, metric: str, given: Mapping[str, Any]
) -> Finding | None:
    """What loop.run.yaml takes as constraints, or None when nothing states one."""
    if given.get("constraints"):
        return Finding.given(given["constraints"])
    found: list[dict[str, Any]] = []
    places: list[str] = []
    for name, printed in printed_names(repo, training).items():
        if name == metric:
            continue
        for line in repo.prose:
            bound = _bound(line, name)
            if bound is not None:
                found.append({"name": name, **bound, **_source(printed)})
                places.append(str(line.place))
                break
    if not found:
        return None
    return Finding(value=found, evidence=f"{', '.join(places)} says so")


def _source(printed: Printed) -> dict[str, str]:
    return {} if printed.regex is None else {"regex": printed.regex}


def _bound(line: Prose, name: str) -> dict[str, float] | None:
    """max or min, where *line* states one for *name*."""
    if line.in_code:
        return None
    spelled = r"[ _-]".join(re.escape(part) for part in name.split("_"))
    for key, words in (("min", _AT_LEAST), ("max", _AT_MOST)):
        match = re.search(rf"(?<!\w){spelled}{_BETWEEN}{words}\s*[`*]*{_NUMBER}", line.text, re.I)
        if match and match[2] is None:
            return {key: float(match[1].replace(",", ""))}
    return None
