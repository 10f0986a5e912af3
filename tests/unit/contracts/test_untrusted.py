"""Untrusted text can't steer a terminal, split a line or run in a spreadsheet."""

from __future__ import annotations

import csv
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.untrusted import one_line, strip_escapes, strip_terminal, tsv_cell

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"
pieces = st.sampled_from(
    [
        ESC,
        "[",
        "]",
        "31m",
        ";",
        BEL,
        "\\",
        "\x9b",
        "\x9d",
        "\x9c",
        "P",
        "\n",
        "\r",
        "\t",
        "=",
        "\x85",
        "\u2028",
        "\u202e",
        "\ud800",
        "\x00",
        "\x08",
        '"',
        "'",
        "x",
        "52;c;",
        " ",
        "-",
    ]
)
hostile = st.lists(pieces | st.characters(), max_size=40).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{ESC}[32mgreen{ESC}[0m", "green"),
        (f"{ESC}]52;c;cm0gLXJm{BEL}after", "after"),
        (f"{ESC}]0;title{ST}after", "after"),
        (f"{ESC}]0;never closed\nnext line", "\nnext line"),
        (f"{ESC}Pq#0{ST}dcs", "dcs"),
        (f"{ESC}(Bcharset{ESC}7", "charset"),
        ("\x9b31mc1\x9d0;t\x9cx", "c1x"),
        (f"{ESC}{ESC}[31m[31mnested", "[31mnested"),
        (f"cut off {ESC}[38;5", "cut off "),
        ("nul\x00 bell\x07 back\x08 del\x7f nel\x85", "nul bell back del nel"),
        ("keeps\ttab\nnewline", "keeps\ttab\nnewline"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("user\u202enimda\u2066", "user\\u202enimda\\u2066"),
        ("half \ud83d pair", "half \\ud83d pair"),
        ("naïve 模型 🚀", "naïve 模型 🚀"),
    ],
)
def test_escapes_go_and_disguises_are_shown(text: str, shown: str) -> None:
    assert strip_terminal(text) == shown


@given(hostile)
def test_nothing_left_steers_a_terminal_and_all_is_writable(text: str) -> None:
    safe = strip_terminal(text)

    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", safe
    )
    assert strip_terminal(safe) == safe
    safe.encode()


@given(hostile, st.integers(0, 60))
def test_one_line_is_one_line_for_every_reader(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert line == line.strip()
    assert "\t" not in line


@pytest.mark.parametrize(
    "separator",
    ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\t"],
)
def test_every_separator_becomes_a_space_and_glues_no_words(separator: str) -> None:
    assert one_line(f"a{separator}b{separator}{separator} c", 100) == "a b c"


def test_a_long_line_says_that_it_was_cut() -> None:
    assert one_line("x" * 50, 10) == "xxxxxxx..."


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1+1", "'=1+1"),
        (f"{ESC}[0m=1+1", "'=1+1"),
        ('say "hi"', "say 'hi'"),
        ('"open quote', "'open quote"),
        ("lr 0.1 -> 0.2 = better", "lr 0.1 -> 0.2 = better"),
    ],
)
def test_a_cell_is_plain_text_for_a_spreadsheet(text: str, cell: str) -> None:
    assert tsv_cell(text) == cell


@given(st.lists(hostile, min_size=1, max_size=5))
def test_cells_keep_their_columns_with_and_without_quoting(texts: list[str]) -> None:
    line = "\t".join([*(tsv_cell(text) for text in texts), "end"])

    for quoting in (csv.QUOTE_NONE, csv.QUOTE_MINIMAL):
        rows = list(csv.reader([line], delimiter="\t", quoting=quoting))
        assert [len(row) for row in rows] == [len(texts) + 1]
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in rows[0])


def test_escapes_alone_leave_other_controls_in_place() -> None:
    assert strip_escapes(f"a{ESC}[1mb\x08\rc") == "ab\x08\rc"
