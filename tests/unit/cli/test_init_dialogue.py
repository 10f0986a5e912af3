"""init with a person: an answer that can't be is asked for again, and those before it stand."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from overnight.cli.bindings import init
from overnight.configuration import resolve_loop

SCRIPT = "LR = 0.1\nprint(f'val_loss: {LR}')\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setattr("overnight.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    return tmp_path


def answered(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[str]]) -> list[str]:
    """Answers by what the row begins with; Enter where none is left. Gives the rows asked."""
    asked: list[str] = []

    def prompt(text: str, *, default: str, **_: object) -> str:
        asked.append(text.split()[0])
        left = answers.get(asked[-1], [])
        return left.pop(0) if left else default

    def confirm(text: str, **_: object) -> bool:
        return text.startswith("Write")

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr(typer, "confirm", confirm)
    return asked


@pytest.mark.parametrize(
    ("row", "wrong", "right", "key", "value"),
    [
        ("better", "val_loss", "higher", "direction", "maximize"),
        ("edits", "trian.py", "train.py", "editable_files", ("train.py",)),
        ("gate", "seconds", "cpu_time", "gate", "cpu_time"),
        ("budget", "20 s", "20", "budget", 20.0),
        ("command", "python train.py | tee log", "python train.py", "run_cmd", None),
    ],
)
def test_a_wrong_answer_is_asked_for_again(
    repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    row: str, wrong: str, right: str, key: str, value: object,
) -> None:  # fmt: skip
    asked = answered(monkeypatch, {row: [wrong, right]})
    init(repo)

    assert asked.count(row) == 2
    assert "  !  " in capsys.readouterr().out
    config = resolve_loop(repo, flags={}, environ={}).config
    found = config.metric.direction if key == "direction" else getattr(config, key)
    assert value is None or found == value


def test_a_person_may_say_lower_as_init_does(repo: Path) -> None:
    init(repo, yes=True, direction="Higher")

    assert resolve_loop(repo, flags={}, environ={}).config.metric.direction == "maximize"
