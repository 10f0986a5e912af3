"""The reliability tables say the worst that was seen, and are written between their markers."""

from __future__ import annotations

import pytest
from benchmarks.reliability import table
from benchmarks.reliability.__main__ import short_cases
from benchmarks.reliability.outcome import Outcome, cell


def test_a_cell_says_the_range_and_puts_in_bold_what_nobody_wants() -> None:
    fine = Outcome(seed=1, wanted=3, once=3, trainings=3, seconds=2.0)
    bad = Outcome(seed=2, wanted=3, once=1, doubled=1, left=2, trainings=5, watched_seconds=9,
                  at_once=2, executed=True, note="1 started")  # fmt: skip

    assert cell([fine, fine]) == "0 left running; 3 of 3 once; 3 trainings; +2.0 s"
    assert cell([fine, bad]) == (
        "**0 to 2 left running**; **0 to 1 of 3 lost**; **0 to 1 of 3 doubled**; 3 to 5 trainings; "
        "**2 at once**; **executed**; not all within 9 s; 1 started"
    )


@pytest.mark.parametrize(
    "broken", [{"left": 1}, {"once": 0}, {"once": 0, "doubled": 1}, {"executed": True}]
)
def test_one_thing_left_lost_doubled_or_executed_is_not_as_promised(
    broken: dict[str, int],
) -> None:
    assert Outcome(seed=1, executed=False).as_promised
    assert not Outcome(seed=1, **broken).as_promised


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    text = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"

    assert table.insert(text, "new") == f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n"
    with pytest.raises(ValueError, match="no lines"):
        table.insert("before\nafter\n", "new")


def test_a_table_has_a_row_a_case_and_no_cell_breaks_it() -> None:
    made = table.table("case", {"a | b": {"rq": "1\n2", "Overnight": "0"}, "c": {"rq": "3"}})

    assert made.splitlines() == [
        "| case | rq | Overnight |",
        "| --- | --- | --- |",
        "| a \\| b | 1 2 | 0 |",
        "| c | 3 | not run |",
    ]


def test_the_short_form_plays_what_is_asked_for() -> None:
    assert [case.name for case in short_cases(["poison", "child-1"])] == ["poison", "child-1"]
    assert len(short_cases(None)) > 2
