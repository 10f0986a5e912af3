"""docs/features.md: each row of the loop has a command and a test that exist, and its state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from overnight.cli.app import build

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "features.md").read_text("utf-8")
_ROW = re.compile(r"^\| ([LS]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)
ROWS = {row[0]: row[1:] for row in _ROW.findall(TEXT)}
_STATE = re.compile(r"works|partly: .{10,}|later: .{10,}")


def _verbs() -> set[str]:
    """`run`, `program new` and so on."""
    group = typer.main.get_command(build())
    names: set[str] = set()
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        names |= {f"{name} {inner}" for inner in below} if below else {name}
    return names


VERBS = _verbs()


def test_every_command_of_the_walk_is_a_verb() -> None:
    page = (ROOT / "docs" / "your-repository.md").read_text("utf-8")
    calls = re.findall(r"^\$ overnight (\w+)(?: (\w+))?", page, re.M)

    assert len(calls) > 8
    assert [c for c in calls if c[0] not in VERBS and " ".join(c) not in VERBS] == []


def test_every_row_of_the_loop_and_of_the_services_is_there_once() -> None:
    wanted = [f"L{number}" for number in range(1, 34)] + [f"S{number}" for number in range(1, 10)]

    assert [row[0] for row in _ROW.findall(TEXT)] == wanted


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_shown_by_a_command_that_exists(row: str) -> None:
    _, shown, _, state = ROWS[row]
    calls = [call for call in re.findall(r"`([^`]+)`", shown) if call.startswith("overnight ")]
    verbs = [" ".join(call.split()[1:3]) for call in calls]

    assert calls or "later" in state
    assert [verb for verb in verbs if verb not in VERBS and verb.split()[0] not in VERBS] == []


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_a_test_that_exists_and_an_honest_state(row: str) -> None:
    _, _, tests, state = ROWS[row]
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", tests)

    assert named or "later" in state
    for path, name in named:
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}::{name}"
    assert _STATE.fullmatch(state.strip()), state
