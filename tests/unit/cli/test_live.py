"""The live view on a pipe: what it says of a start, a resume and a wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overnight.cli.live import LiveView
from overnight.cli.view import Head, Ready
from overnight.contracts.rows import Control, SessionClosed
from overnight.contracts.status import ControlAction, RowKind, Status
from overnight.ledger.chain import link
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from tests.unit.cli.test_words import decision, experiment

READY = Ready(isolation="namespaces", network="none", endpoints={}, seconds=0.5)


def head(**fields: Any) -> Head:
    return Head(
        files=SessionFiles(Path("/w/sandbox")),
        tag="t",
        metric="loss",
        runners=1,
        here=Path("/w"),
        **fields,
    )


def control(action: ControlAction, by: str) -> Any:
    body = Control(action=action, by=by)
    return link(
        seq=1, ts="t", session="0123456789ab", kind=RowKind.CONTROL, key="k", body=body,
        prev="0" * 64,
    )  # fmt: skip


def earlier() -> SessionState:
    state = SessionState()
    for number in (1, 2, 3):
        one = experiment(f"idea {number}", id=number, metric=float(number))
        one.proposed = one.proposed.model_copy(update={"id": number})
        one.decision = decision(Status.KEEP)
        state.experiments[number] = one
    state.incumbent = 3
    return state


def test_a_resumed_session_shows_what_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView()
    view.opened(head(resumed=True, before=earlier()))
    view.ready(READY)
    view.close()
    lines = capsys.readouterr().out.splitlines()

    assert "(resumed)" in lines[0]
    assert lines[2].split()[:2] == ["id", "what"]
    assert [line.split()[0] for line in lines[3:]] == ["001", "003", "..."]
    assert "1.0000" in lines[3]


def test_a_service_that_waits_says_so_once_until_it_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = LiveView()
    view.opened(head())
    for why in ("cpu-0 is held by pid 123", "cpu-0 is held by pid 124\x1b[2J"):
        view.event("waiting", {"service": "r0", "why": why})
    view.event("waiting", {"service": "r1", "why": "\x1b]0;x\x07busy"})
    for _ in range(2):
        view.event("waiting", {"service": "r0", "why": None})
    view.close()

    assert capsys.readouterr().out.splitlines()[1:] == [
        "  !     r0 waits: cpu-0 is held by pid 123",
        "  !     r1 waits: busy",
        "  !     r0 goes on",
    ]


def test_only_a_persons_resume_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView()
    view.opened(head())
    view.row(control(ControlAction.RESUME, "run"), SessionState())
    view.row(control(ControlAction.RESUME, "ann"), SessionState())
    view.close()

    assert capsys.readouterr().out.splitlines()[1:] == ["  !     resume (by ann)"]


@pytest.mark.parametrize(("watched", "wanted"), [(True, False), (False, True)])
def test_who_only_watched_does_not_tell_how_long_it_took(
    watched: bool, wanted: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    view = LiveView()
    view.opened(replace(head(watched=watched), files=SessionFiles(tmp_path)))
    view.ended(earlier(), SessionClosed(outcome="done"), failed=False)
    view.close()
    headline = next(t for t in capsys.readouterr().out.splitlines() if t.startswith("done: "))

    assert (" in 0.0 s, " in headline) is wanted
