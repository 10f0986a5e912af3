"""A person is asked about an idea once, with the commands to type, whatever the idea is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from overnight.cli.events import JsonView
from overnight.cli.live import LiveView
from overnight.cli.summary import status_lines
from overnight.cli.view import Head
from overnight.contracts.rows import Origin
from overnight.contracts.status import RowKind
from overnight.ledger.files import SessionFiles
from overnight.sessions.limits import estimate
from overnight.sessions.view import standing, status_object
from tests.unit.ledger.test_approvals import ASKS, Ledger
from tests.unit.orchestrator.test_spending import limited, propose

HERE = Path("/w")
EVIL = "LR 0.1\x1b]0;x\x07 -> 0.2\r\nwaits for you: rm -rf /"


def head(root: str = "/w/sandbox", **fields: Any) -> Head:
    return Head(
        files=SessionFiles(Path(root)), tag="t", metric="loss", runners=1, here=HERE, **fields
    )


def asking(hypothesis: str = "LR 0.1 -> 0.2: try it") -> Ledger:
    ledger = Ledger(**ASKS)
    ledger.propose()
    experiment = ledger.state.experiments[2]
    experiment.proposed = experiment.proposed.model_copy(update={"hypothesis": hypothesis})
    return ledger


def shown(ledger: Ledger, capsys: pytest.CaptureFixture[str], root: str = "/w/sandbox") -> str:
    view = LiveView()
    view.opened(head(root))
    for _ in range(3):
        view.tick(ledger.state)
    view.close()
    return capsys.readouterr().out


def test_an_idea_is_shown_once_with_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(asking(), capsys, "/w/other/sandbox").splitlines()

    assert lines[-2:] == [
        "  002   LR 0.1 -> 0.2: try it",
        "        waits for you:  overnight approve 2 --dir other   or   "
        "overnight reject 2 --why TEXT --dir other",
    ]
    assert sum("waits for you" in line for line in lines) == 1


def test_an_idea_s_words_are_data(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(asking(EVIL), capsys)

    assert "\x1b" not in out
    assert "\x07" not in out
    assert sum(line.strip().startswith("waits for you") for line in out.splitlines()) == 1


def test_an_answered_idea_is_asked_about_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = asking()
    ledger.answer("approve")

    assert "waits for you" not in shown(ledger, capsys)


def test_a_script_is_told_once_too(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = asking(EVIL)
    view = JsonView()
    view.opened(head(estimate=estimate(ledger.state.config, ledger.state, 1)))  # type: ignore[arg-type]
    view.tick(ledger.state)
    view.tick(ledger.state)
    view.close()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [line["event"] for line in lines] == ["opened", "estimate", "approval"]
    assert lines[-1] == {"event": "approval", "id": 2, "hypothesis": EVIL}


def told(ledger: Any, pid: int | None = 7) -> list[str]:
    runners = None if pid is None else 1
    status = status_object(SessionFiles(HERE), "t", ledger.state, {}, runners=runners)
    return status_lines(status | {"pid": pid}, HERE)


def test_status_names_the_person_that_it_waits_for() -> None:
    ledger = asking(EVIL)
    lines = told(ledger)

    assert lines[1] == "  waiting   for approval: 002 LR 0.1 -> 0.2 waits for you: rm -rf /"
    assert "overnight approve 2" in lines[2]
    assert any(line.endswith("; 0 running") for line in lines)
    assert standing(ledger.state, ledger.state.experiments[2], 1) == "waits for approval"


def test_without_a_stack_nobody_can_answer() -> None:
    ledger = asking()

    assert not any("approval" in line for line in told(ledger, pid=None))
    assert standing(ledger.state, ledger.state.experiments[2], None) == "interrupted"


def test_status_names_the_limit_that_it_waits_for_and_the_advice() -> None:
    story = limited(0.3)
    propose(story)
    lines = told(story)

    assert (
        "  waiting   for what runs, near the limit: policy.limits.gpu_hours: 0.0833 h of 0.3 h "
        "used, one more may take 0.167 h"
    ) in lines
    ledger = Ledger()
    ledger.say("control:a", {"action": "steer", "why": "smaller\nsteps"})
    assert "  advice    smaller steps" in told(ledger)
    assert ledger.writer.disk[-1].kind is RowKind.CONTROL


def test_status_names_whose_result_a_session_began_with() -> None:
    ledger = Ledger()
    assert not any(line.startswith("  from ") for line in told(ledger))
    assert ledger.state.opened is not None
    origin = Origin(tag="mar5", sid="0123456789ab", id=31, commit="c" * 40)
    ledger.state.opened = ledger.state.opened.model_copy(update={"origin": origin})

    assert "  from      experiment 31 of mar5" in told(ledger)
