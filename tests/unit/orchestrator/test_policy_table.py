"""Every example of docs/policy.md, decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.orchestrator.story import Story

PAGE = Path(__file__).resolve().parents[3] / "docs" / "policy.md"
SIZE = 1000  #: lines of the incumbent
BOUND = {"constraints": [{"name": "params", "max": 10.0}]}

#: What stands under *other*: bindings of the session, then fields of baseline and candidate.
OTHER: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "": ({}, {}, {}),
    "tie_epsilon: 0.01": ({"policy": {"simplicity": {"tie_epsilon": 0.01}}}, {}, {}),
    "maximize": ({"metric": {"name": "auc", "direction": "maximize"}}, {}, {}),
    "constraint broken": (BOUND, {"measures": {"params": 5.0}}, {"measures": {"params": 11.0}}),
    "constraint not printed": (BOUND, {"measures": {"params": 5.0}}, {}),
    "guard failed": ({"guard": ["true"]}, {"guard": "passed"}, {"guard": "failed"}),
    "25 GB of 24": (
        {"policy": {"limits": {"vram_gb": 24.0}}},
        {"peak_vram_mb": 23_000.0},
        {"peak_vram_mb": 25_600.0},
    ),
    "20 GB after 10": ({}, {"peak_vram_mb": 10_240.0}, {"peak_vram_mb": 20_480.0}),
    "12 GB after 10": ({}, {"peak_vram_mb": 10_240.0}, {"peak_vram_mb": 12_288.0}),
    "9 places": ({}, {}, {"places": 9}),
}


def _examples() -> list[list[str]]:
    text = PAGE.read_text("utf-8").split("## Examples")[1]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


@pytest.mark.parametrize("row", _examples(), ids=" ".join)
def test_the_page_says_what_is_decided(row: list[str]) -> None:
    baseline, best, metric, code, other, expected = row
    config, first, fields = OTHER[other]
    story = Story(**config)
    story.experiment(metric=float(baseline), code_lines=SIZE, **first)
    if best != baseline:
        story.experiment(metric=float(best), code_lines=SIZE, **first)

    decision = story.experiment(metric=float(metric), code_lines=SIZE + int(code), **fields)

    said = decision.verdict.value + (f":{decision.reason}" if decision.reason else "")
    assert " + ".join([said, *decision.flags]) == expected


def test_no_example_went_missing() -> None:
    assert len(_examples()) >= 30
