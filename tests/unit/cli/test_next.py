"""The next command after a run: what goes on with exactly this session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overnight.cli import demo
from overnight.cli.running import Wish, _head
from overnight.contracts import wire
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import SessionClosed
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from tests.unit.ledger.history_of import CONFIG

STOPPED = SessionClosed(outcome="stopped", detail="interrupted")
DONE = SessionClosed(outcome="done")


def opened(root: Path, repo: Path, tag: str = "b") -> Any:
    return SimpleNamespace(
        files=SessionFiles(root),
        tag=tag,
        state=SessionState(),
        resumed=False,
        notes=(),
        config=wire.build(LoopConfig, CONFIG),
        opening=SimpleNamespace(repo=str(repo), runners=1, session=SimpleNamespace(branch=None)),
    )


def wish(repo: Path, tag: str | None, *words: str) -> Wish:
    return Wish(repo=repo, flags={}, as_json=False, tag=tag, words=words)


@pytest.mark.parametrize(
    ("root", "repo", "tag", "words", "wanted"),
    [
        ("sandbox", ".", None, (), "overnight run"),
        ("sandbox", ".", "b", (), "overnight run"),
        ("sandbox-b", ".", "b", ("--max", "4"), "overnight run --tag b --max 4"),
        ("my repo/sandbox", "my repo", None, (), "overnight run 'my repo'"),
    ],
)
def test_a_stopped_run_is_gone_on_with_by_the_command_that_means_it(
    root: str,
    repo: str,
    tag: str | None,
    words: tuple[str, ...],
    wanted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    here = Path.cwd()
    head = _head(opened(here / root, here / repo), wish(here / repo, tag, *words))

    assert head.following(STOPPED) == head.following(None) == f"next: {wanted}  goes on"
    assert head.following(DONE).startswith("next: overnight report")


def test_a_stopped_demo_is_gone_on_with_as_a_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    repo = Path.cwd() / "demo/1"
    session = opened(repo / "sandbox", repo)
    head = demo._with_next(session, _head(session, wish(repo, None)), ["--experiments", "4"])

    assert head.following(STOPPED) == "next: overnight demo --dir demo/1 --experiments 4  goes on"
    assert "YOUR_REPO" in head.following(DONE)
