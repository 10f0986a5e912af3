"""What a new session may begin with, and what is said where it can't."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.test_steering import PROGRAM
from tests.unit.ledger.history_of import SID, opening

from overnight.configuration import resolve_loop
from overnight.contracts import wire
from overnight.contracts.errors import UsageError
from overnight.contracts.rows import SessionOpened
from overnight.ledger.files import SessionFiles
from overnight.ledger.identity import Identity
from overnight.sessions.beginning import begin, check_beginning
from overnight.sessions.opening import Request, open_session

LOOP = "metric: val_bpb\nrun_cmd: python train.py\neditable_files: train.py\n"
REQUIRED = LOOP + "policy: {require_program: true}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('val_bpb: 1')\n")
    return tmp_path


def refused(repo: Path, text: str = LOOP, source: str | None = None) -> str:
    resolved = resolve_loop(repo, flags={}, environ={}, loop_text=text)
    with pytest.raises(UsageError) as error:
        begin(resolved, source, "next")
    return str(error.value)


def test_a_program_is_told_to_proposers_whether_it_is_required_or_not(repo: Path) -> None:
    resolved = resolve_loop(repo, flags={}, environ={}, loop_text=LOOP)
    assert begin(resolved, None, None).program is None
    (repo / "program.md").write_text("anything")
    assert begin(resolved, None, None).program == "anything"


def test_a_required_program_must_be_there_and_complete(repo: Path) -> None:
    assert "no program.md in" in refused(repo, REQUIRED)
    assert "`overnight program new`" in refused(repo, REQUIRED)
    (repo / "program.md").write_text(PROGRAM.replace("## Directions", "## Notes"))
    assert "directions: missing" in refused(repo, REQUIRED)
    (repo / "program.md").write_text("")
    assert "no program.md in" in refused(repo, REQUIRED)

    (repo / "program.md").write_text(PROGRAM)
    resolved = resolve_loop(repo, flags={}, environ={}, loop_text=REQUIRED)
    assert begin(resolved, None, None).program == PROGRAM


def test_one_that_can_t_be_read_is_an_error_only_where_it_is_required(repo: Path) -> None:
    (repo / "program.md").mkdir()
    resolved = resolve_loop(repo, flags={}, environ={}, loop_text=LOOP)
    found = begin(resolved, None, None)

    assert found.program is None
    assert found.notes == ("proposers are not told of it: program.md is no file: move it away",)
    assert refused(repo, REQUIRED) == "program.md is no file: move it away"


def test_from_names_a_session_that_is_there(repo: Path) -> None:
    assert refused(repo, source="next") == (
        "--from next: a session can't begin with itself: name another --tag"
    )
    assert refused(repo, source="old") == "--from old: no session old here (there is: none)"
    files = SessionFiles(repo / "sandbox")
    files.root.mkdir()
    files.identity.write_text(wire.encode(Identity(sid=SID, tag="old")))
    files.ledger.write_text("")
    assert "no best yet" in refused(repo, source="old")
    assert "no experiment 7" in refused(repo, source="old/7")


def test_from_needs_a_name_for_the_new_session(repo: Path) -> None:
    from datetime import date

    wish = Request(repo=repo, flags={}, environ={}, source="old", today=date(2026, 3, 5))
    with pytest.raises(UsageError, match="name it by --tag NEW"):
        open_session(wish)


def _opened(**fields: object) -> SessionOpened:
    return wire.build(SessionOpened, {**wire.dump(opening()), **fields})


def test_a_session_is_gone_on_with_only_as_it_began(repo: Path) -> None:
    config = resolve_loop(repo, flags={}, environ={}, loop_text=LOOP).config
    origin = {"tag": "old", "sid": SID, "id": 4, "commit": "c" * 40}
    began = _opened(origin=origin)
    for same in (None, "old", "old/4", "old/best"):
        check_beginning(began, config, same)
    for other, opened in (("old/5", began), ("older", began), ("old", _opened())):
        with pytest.raises(UsageError, match=f"did not begin with {other}"):
            check_beginning(opened, config, other)


def test_a_session_without_a_program_does_not_get_one_later(repo: Path) -> None:
    config = resolve_loop(repo, flags={}, environ={}, loop_text=REQUIRED).config
    with pytest.raises(UsageError, match=r"began without a program\.md"):
        check_beginning(_opened(), config, None)
    check_beginning(_opened(program_digest="a" * 64), config, None)
