"""Experiments and sessions in words and columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.cli import places, words
from overnight.contracts.experiment import Decision, ExperimentResult
from overnight.contracts.rows import Proposed
from overnight.contracts.status import Role, Status
from overnight.ledger.fold import ExperimentState, SessionState

#: Controls, separators, what reorders text, what can't be written.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def experiment(hypothesis: str = "LR 1 -> 2: why", **result: object) -> ExperimentState:
    proposed = Proposed(
        id=2,
        role=Role.CANDIDATE,
        parent=1,
        commit="a" * 40,
        tree_digest="b" * 64,
        branch="iter2",
        hypothesis=hypothesis,
        proposer="search",
        seen_seq=5,
    )
    state = ExperimentState(proposed, 6)
    fields: dict[str, object] = {
        "id": 2, "attempt": 1, "sender": "r0", "status": Status.SCORED, "metric": 1.5,
        "runtime_s": 12.3, **result,
    }  # fmt: skip
    state.final = ExperimentResult.model_validate(fields)
    return state


def decision(verdict: Status, reason: str | None = None) -> Decision:
    return Decision.model_validate(
        {
            "id": 2,
            "verdict": verdict,
            "reason": reason,
            "incumbent_before": None,
            "incumbent_after": 2,
            "rests_on": (7,),
            "basis_seq": 7,
        }
    )


@pytest.mark.parametrize(
    ("verdict", "reason", "detail", "wanted"),
    [
        (Status.KEEP, None, "", "keep"),
        (Status.DISCARD, "worse", "", "discard"),
        (Status.DISCARD, "equal", "", "discard: no better"),
        (Status.CRASH, "oom", "", "crash: out of memory"),
        (Status.CRASH, "exit_code", "ValueError: x", "crash: ValueError: x"),
        (Status.TIMEOUT, "train", "", "timeout: over its budget"),
        (Status.INFRA, "gave_up", "", "infra: gave up"),
        (Status.CRASH, "syntax", "\x1b[2J[red]\na", "crash: syntax: [red] a"),
    ],
)
def test_a_verdict_is_said_with_its_reason(
    verdict: Status, reason: str | None, detail: str, wanted: str
) -> None:
    ran = experiment(detail=detail)

    assert words.verdict(ran, decision(verdict, reason)) == wanted


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_row_is_one_inert_line_with_its_columns_in_place(hypothesis: str, detail: str) -> None:
    ran = experiment(hypothesis or "x", detail=detail.encode(errors="replace").decode())
    left, right = words.row(SessionState(), ran, decision(Status.CRASH, "exit_code"))

    assert left.startswith("  002   ")
    assert len(left) == len("  002   ") + words.WHAT_COLUMNS + 1 + 12 + 1 + 9 + 2
    assert not UNSAFE.search(left + right)
    assert len((left + right).splitlines()) == 1


@given(st.text(max_size=300), st.text(max_size=300), st.integers(64, 160))
def test_a_table_fits_its_terminal(hypothesis: str, detail: str, width: int) -> None:
    ran = experiment(hypothesis or "x", detail=detail.encode(errors="replace").decode())
    wide = words.columns(width)
    lines = words.row_lines(SessionState(), ran, decision(Status.CRASH, "exit_code"), wide)
    head = words.heading("a_long_name_of_a_metric", wide)

    assert max(len(left + right) for left, right in lines) <= width
    assert len(lines[0][0]) == head.index("verdict")
    if len(lines) == 1:
        assert lines[0][1].startswith(words.verdict(ran, decision(Status.CRASH, "exit_code")))


def test_at_80_columns_the_table_still_says_what_and_how() -> None:
    ran = experiment("MATRIX_LR 0.04 -> 0.08: why", runtime_s=59.0)
    left, right = words.row(
        SessionState(), ran, decision(Status.DISCARD, "equal"), words.columns(80)
    )

    assert "MATRIX_LR 0.04 -> 0.08 " in left
    assert right == "discard: no better  59 s"


def test_at_80_columns_a_reason_that_has_no_room_stands_below() -> None:
    ran = experiment("LR 1 -> 2: why", detail="ValueError: the loss is no number", metric=None)
    first, rest = words.row_lines(
        SessionState(), ran, decision(Status.CRASH, "exit_code"), words.columns(80)
    )

    assert first[1] == "crash  12 s"
    assert rest == (" " * 8, "crash: ValueError: the loss is no number")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("short   line", ["short   line"]),
        (
            "[2/4] a redis, a runner up in 1 s   sandbox: namespaces, no network",
            ["[2/4] a redis, a runner up in 1 s", "      sandbox: namespaces, no network"],
        ),
        (
            "  best      003   loss 1.9   13 % better than it was",
            ["  best      003   loss 1.9", "            13 % better than it was"],
        ),
        (
            "  files     /a/long/path/to/somewhere/else/x.tsv   diff  overnight diff best",
            [
                "  files     /a/long/path/to/somewhere/else/x.tsv",
                "            diff  overnight diff best",
            ],
        ),
        (
            "next: one two three four five six seven eight",
            ["next: one two three four five six seven", "      eight"],
        ),
    ],
)
def test_a_line_of_facts_is_cut_between_facts(line: str, wanted: list[str]) -> None:
    assert words.fold(line, 40) == wanted
    assert words.fold(line, None) == [line]


@pytest.mark.parametrize(
    ("claims", "wanted"),
    [
        ([("loss", "1"), ("acuracy", "0.91")], "saw 'acuracy: 0.91'"),
        ([("Accuracy", "0.5\x1b[2J")], "saw 'Accuracy: 0.5'"),
        ([("loss", "1")], ""),
        ([], ""),
    ],
)
def test_a_misspelled_metric_is_shown_as_it_was_printed(
    claims: list[tuple[str, str]], wanted: str
) -> None:
    named = tuple({"name": name, "value": value} for name, value in claims)
    ran = experiment(status=Status.CRASH, reason="no_metric", metric=None, claims=named)
    told = words.verdict(ran, decision(Status.CRASH, "no_metric"), "accuracy")

    assert words.saw("accuracy", claims) == wanted
    assert told == ": ".join(["crash", "printed no metric", *([wanted] if wanted else [])])


def test_a_hypothesis_is_called_by_the_short_name_before_its_reason() -> None:
    assert words.knob("LR 0.1 -> 0.2: a larger step may help") == "LR 0.1 -> 0.2"
    assert words.knob("no colon here") == "no colon here"
    long = "a very long idea that says much before it comes to its point: then more"
    assert words.knob(long) == "a very long idea that says much befor..."


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(0.26, "0.3 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"),
     (178, "2 min 58 s"), (3600, "1 h 00 min"), (None, "-")],
)  # fmt: skip
def test_durations_are_said_as_people_do(value: float | None, wanted: str) -> None:
    assert words.duration(value) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1.99421, "1.9942"), (0.0, "0.0000"), (1e-7, "1e-07"), (None, "-"), (-3.5e9, "-3.5e+09")],
)
def test_numbers_fit_their_column(value: float | None, wanted: str) -> None:
    assert words.number(value) == wanted


def test_counts_leave_out_what_did_not_happen() -> None:
    assert words.in_counts({"keep": 3, "discard": 0, "crash": 1}) == "3 kept, 1 crash"
    assert words.in_counts({"keep": 0}) == "nothing decided yet"


@pytest.mark.parametrize(
    ("program", "on_path", "wanted"),
    [
        ("/w/.venv/bin/overnight", None, ".venv/bin/overnight"),
        (".venv/bin/overnight", "/usr/bin/overnight", ".venv/bin/overnight"),
        ("/w/.venv/bin/overnight", "/w/.venv/bin/overnight", "overnight"),
        ("/w/overnight", None, "./overnight"),
        ("/o p/bin/overnight", None, "'/o p/bin/overnight'"),
        ("/w/overnight/cli/__main__.py", None, "overnight"),
    ],
)
def test_a_hint_names_the_command_as_it_works_from_here(
    program: str, on_path: str | None, wanted: str
) -> None:
    assert places.called(program, on_path, Path("/w")) == wanted


def test_a_hint_for_another_folder_names_the_whole_path() -> None:
    assert places.called("bin/overnight", None, Path("/w"), elsewhere=True) == "/w/bin/overnight"


def test_only_commands_in_a_sentence_are_named_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/w/bin/overnight"])
    monkeypatch.setattr("shutil.which", lambda _: None)

    assert places.as_called("`overnight run` in /a/overnight up, overnight is") == (
        "`/w/bin/overnight run` in /a/overnight up, overnight is"
    )


@pytest.mark.parametrize(
    ("text", "argv", "wanted"),
    [
        ("no stack runs: overnight up", ["stop"], "no stack runs: overnight up"),
        ("no stack: overnight up", ["stop", "--dir", "d x"], "no stack: overnight up 'd x'"),
        ("no stack runs: overnight up", ["stop", "--dir=."], "no stack runs: overnight up"),
        ("x; run `overnight ledger repair`", ["status", "--dir", "d"],
         "x; run `overnight ledger repair --dir d`"),
        ("see `overnight deadletter list`", ["deadletter", "drop", "--dir", "d"],
         "see `overnight deadletter list --dir d`"),
        ("then: overnight deadletter drop job-1", ["--dir", "d"],
         "then: overnight deadletter drop job-1 --dir d"),
        ("start one with `overnight run`, or give --dir", ["status", "--dir", "d"],
         "start one with `overnight run`, or give --dir"),
        ("overnight up", ["stop", "--dir"], "overnight up"),
        ("run `overnight ledger repair`", ["run", "--max", "4", "--json", "my r"],
         "run `overnight ledger repair --dir 'my r'`"),
        ("watch it with `overnight watch`", ["up", "r", "--max", "4"],
         "watch it with `overnight watch --dir r`"),
        ("end it with `overnight stop`", ["run", "--max=4"], "end it with `overnight stop`"),
        ("end it with `overnight stop`", ["run", "--tag", "two"],
         "end it with `overnight stop two`"),
        ("watch it with `overnight watch`", ["up", "r", "--tag=a b"],
         "watch it with `overnight watch --dir r 'a b'`"),
        ("no stack runs: overnight up", ["apply", "--tag", "two"],
         "no stack runs: overnight up --tag two"),
    ],
)  # fmt: skip
def test_the_fix_of_an_error_names_the_session_that_was_meant(
    text: str, argv: list[str], wanted: str
) -> None:
    assert places.as_meant(text, argv, Path("/w")) == wanted


def test_the_fix_of_an_error_takes_a_session_folder_s_repository(tmp_path: Path) -> None:
    folder = tmp_path / "repo/sandbox"
    folder.mkdir(parents=True)
    (folder / "session.json").touch()

    assert places.as_meant("overnight up", ["--dir", "repo/sandbox"], tmp_path) == (
        "overnight up repo"
    )


@pytest.mark.parametrize(
    ("root", "wanted"),
    [
        ("/w/sandbox", ""),
        ("/w/sandbox-b", " --dir sandbox-b"),
        ("/w/demo/x/sandbox", " --dir demo/x"),
        ("/w/my repo/sandbox", " --dir 'my repo'"),
        ("/other/sandbox", " --dir /other"),
    ],
)
def test_a_session_is_named_as_short_as_can_be(root: str, wanted: str) -> None:
    assert places.dir_option(Path(root), Path("/w")) == wanted
