"""What counts as code, and what can't make it look smaller."""

from __future__ import annotations

import pytest

from overnight.orchestrator.codesize import code_lines

CODE = """
import torch

def schedule(step, warmup=100):
    if step < warmup:
        return step / warmup
    rate = 0.5 * (1 + cos(pi * step / STEPS))
    return rate
"""
SIZE = 6


def size(text: str, name: str = "train.py") -> int:
    return code_lines({name: text})


def test_plain_code_is_as_long_as_its_lines() -> None:
    assert size(CODE) == SIZE


@pytest.mark.parametrize(
    "text",
    [
        CODE.replace("\n\n", "\n"),
        CODE.replace("    rate", "    # the cosine, see the paper\n    rate"),
        CODE.replace("    if", '    """The rate at *step*."""\n    if'),
        CODE.replace("        return step / warmup", "        return step / warmup  # linear"),
        CODE.replace("\n    return rate", "; return rate"),
        CODE.replace("warmup:\n        return", "warmup: return"),
        CODE.replace("(1 + cos(pi * step / STEPS))", "(\n  1\n  + cos(\n pi * step / STEPS))"),
        CODE.replace("    rate =", "    pass\n    rate ="),
    ],
    ids=["blank", "comment", "docstring", "trailing", "semicolon", "one-line if", "wrap", "pass"],
)
def test_layout_and_comments_are_no_code(text: str) -> None:
    assert text != CODE
    assert size(text) == SIZE


def test_twenty_statements_are_twenty_lines_wherever_they_stand() -> None:
    statements = [f"_hack_{n} = {n}" for n in range(20)]

    assert size(CODE + "\n".join(statements)) == SIZE + 20
    assert size(CODE + "; ".join(statements)) == SIZE + 20


def test_one_dense_expression_is_not_shorter_than_what_it_replaces() -> None:
    """A loop of four short lines and the same as one comprehension differ by a few lines only."""
    many = "x = [" + ", ".join(f"f({n}, a, b)" for n in range(40)) + "]"

    assert size(many) >= 10


def test_code_hidden_in_a_string_is_counted() -> None:
    assert size(f"exec({CODE * 5!r})") > 2 * SIZE


def test_what_is_not_python_is_measured_by_its_characters() -> None:
    prompt = "Answer in one word.\nThink first, then say what is asked for.\n" * 10

    assert size(prompt, "prompt.txt") == size(prompt.replace("\n", " "), "prompt.txt") > 10
    assert size("# a comment\nlr: 0.1\n", "a.yaml") == size("lr: 0.1", "a.yaml") == 1
    assert size("// a\nint x; /* b\n c */\n", "a.cu") == size("int x;", "a.cu") == 1


@pytest.mark.parametrize("text", ["def (", "(" * 5000, "-" * 50_000 + "1", "x = 1\0", "\ud800", ""])
def test_what_no_parser_takes_is_measured_all_the_same(text: str) -> None:
    assert size(text) >= 0


def test_all_editable_files_count_together() -> None:
    assert code_lines({"a.py": CODE, "b.py": CODE}) == 2 * SIZE
