"""Which constants are found, and that rewriting changes their literals and nothing else."""

from __future__ import annotations

import ast
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.contracts.errors import ProposerError
from overnight.proposers.constants import Value, literal, parse
from overnight.proposers.places import Form

# --- property: text built from pieces, so that what must come out is known --------------------

NUMBERS = st.sampled_from(
    ["0", "1", "17", "1_000", "2**10", "2 ** 3", "0.5", "1e-3", "1E5", "3.", ".25", "1_0.5", "0.0"]
)
TEXTS = st.sampled_from(['"gelu"', "'relu'", "r'x y'", '"""silu"""', "'größe'", '"日本"'])
SWITCHES = st.sampled_from(["True", "False"])
EQUALS = st.sampled_from([" = ", "\f= \f", "=", "\t=\t", "   =  ", " = \\\n    "])
NOTES = st.sampled_from(["", "\f# fed", "  # plain", "\t# ä 漢字", "  # LR = 7", " ", "  # a | b"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
FILLER = st.sampled_from(
    [
        "", "   ", "\t", "# LR = 1e-3", "import os", "def f(LR=3):\n\tLR = 4\n\treturn LR",
        '"""\nLR = 1e-3\n"""', "if os:\n    Z = 5", "x = [1,\n  2]", "\f", "class C:\n  LR = 1",
        "print('LR = 1e-3')", "LR_OLD, Q = 1, 2", "T: int",
    ]
)  # fmt: skip


@st.composite
def sources(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, str]]]:
    """(text up to the end, pieces): each piece is (before, literal or "", name)."""
    pieces: list[tuple[str, str, str]] = [(draw(st.sampled_from(["", "\ufeff"])), "", "")]
    for index in range(draw(st.integers(0, 6))):
        end = draw(ENDS)
        filler = draw(FILLER).replace("\n", draw(ENDS)) + end
        if draw(st.booleans()):
            filler += "\f" if draw(st.booleans()) else ""
            name = f"C{index}"
            minus = draw(st.sampled_from(["", "-", "- "]))
            text = draw(st.one_of(NUMBERS, TEXTS, SWITCHES))
            if not text[0].isdigit() or "*" in text or float(text.replace("_", "")) == 0:
                minus = ""
            opened, closed = draw(st.sampled_from([("", ""), ("(", ")"), ("( ", " )")]))
            before = f"{filler}{name}{draw(EQUALS)}{minus}{opened}"
            pieces.append((before, text, name))
            filler = f"{closed}{draw(NOTES)}{draw(ENDS)}"
        pieces.append((filler, "", ""))
    last = draw(st.sampled_from(["", "\n\n", "# the end", "   ", "\t\n \n", "X = (1)"]))
    pieces.append((last, "", ""))
    return "".join(before + text for before, text, _ in pieces), pieces


@settings(max_examples=200, deadline=None)
@given(sources(), st.data())
def test_rewriting_changes_exactly_the_literals(
    source: tuple[str, list[tuple[str, str, str]]], data: st.DataObject
) -> None:
    text, pieces = source
    found = parse("a.py", text)
    by_name = {constant.name: constant for constant in found.constants}
    new: dict[str, Value] = {}
    for _, _, name in pieces:
        if name and data.draw(st.booleans()):
            new[name] = data.draw(another(by_name[name].value))
    expected = "".join(
        before + (literal(new[name], old) if name in new else old) for before, old, name in pieces
    )

    assert {name for _, _, name in pieces if name} <= set(by_name)
    assert found.rewrite(new) == expected
    assert found.rewrite({}) == text
    again = {constant.name: constant.value for constant in parse("a.py", expected).constants}
    assert all(again[name] == value for name, value in new.items())


def another(value: Value) -> st.SearchStrategy[Value]:
    """Another value of the same sort and sign."""
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, str):
        return st.sampled_from(["tanh", "swi glu", "größer", "a'b", 'a"b', "{x}"])
    sign = -1 if value < 0 else 1
    if isinstance(value, int):
        return st.integers(2, 2**40).filter(lambda n: n != value).map(lambda n: sign * n)
    numbers = st.floats(1e-300, 1e300).filter(lambda x: x != abs(value))
    return numbers.map(lambda x: sign * x)


@given(st.floats(0, allow_infinity=False), st.sampled_from(["0.1", "1e-3", "1E4", ""]))
def test_a_number_is_written_so_that_it_reads_back_equal(value: float, old: str) -> None:
    text = literal(value, old)

    assert ast.literal_eval(text) == value
    assert isinstance(ast.literal_eval(text), float)


# --- which constants there are ----------------------------------------------------------------


def names(text: str) -> list[str]:
    found = parse("a.py", text).constants
    return [constant.name for constant in found if constant.form is Form.NAME]


@pytest.mark.parametrize(
    "text",
    [
        "A = 1\nA = 2\n",
        "A = 1\nA += 1\n",
        "A = 1\ndef f():\n    global A\n    A = 2\n",
        "A = 1\nfor A in range(3): pass\n",
        "A = 1\nif True:\n    A = 2\n",
        "A = 1\nfrom x import A\n",
        "A = 1\nimport x as A\n",
        "A = 1\nimport A.b\n",
        "A = 1\nwith open(f) as A: pass\n",
        "A = 1\n(A, b) = 1, 2\n",
        "A = 1\nprint(A := 3)\n",
        "A = 1\ndel A\n",
        "A = 1\ndef A(): pass\n",
        "A = 1\ntry: pass\nexcept E as A: pass\n",
        "A = 1\nmatch x:\n    case [A]: pass\n",
        "A = B = 1\n",
        "A, B = 1, 2\n",
        "A = 2 * 3\n",
        "A = int('3')\n",
        "A = B\n",
        "A = (1, 2)\n",
        "A = 1j\n",
        "A = 1e999\n",
        "A = b'x'\n",
        "A = f'x'\n",
        "A = 'x' 'y'\n",
        "A = 'a\\\\d'\n",
        "A = None\n",
        "A = +1\n",
        "A = -0.0\n",
        "A: int\n",
        "x.A = 1\n",
        "x[0] = 1\n",
        "if True:\n    A = 1\n",
        "class C:\n    A = 1\n",
        "A = " + "9" * 5000 + "\n",
        "__version__ = 1\n",
        "_A = 1\n",
    ],
)
def test_what_is_computed_imported_or_bound_again_is_left_alone(text: str) -> None:
    assert names(text) == []


def test_a_name_that_only_inner_scopes_reuse_is_still_a_constant() -> None:
    text = "A = 1\ndef f(A): return A\nclass C:\n    A = 3\ng = [A for A in x]\nf(A=2)\n"

    assert names(text) == ["A"]


def test_annotated_and_crowded_constants_are_found() -> None:
    found = parse("a.py", "A: int = 3; B = -2.5 ;C: Final[float] = (1e-3)  # note\n")

    assert [(c.name, c.value) for c in found.constants] == [("A", 3), ("B", -2.5), ("C", 1e-3)]
    assert found.rewrite({"B": -3.5, "C": 2e-3}) == (
        "A: int = 3; B = -3.5 ;C: Final[float] = (2e-3)  # note\n"
    )


@pytest.mark.parametrize(
    ("code", "choices"),
    [
        ('if ACT == "a": pass\nelif "b" == ACT: pass', ("a", "b")),
        ('if ACT != "a": pass', ("a",)),
        ('x = 1 if ACT in ("a", "b") else 2', ("a", "b")),
        ('assert ACT in {"a": 1, "b": 2}', ("a", "b")),
        ('f = {"a": 1, "b": 2}[ACT]', ("a", "b")),
        ('f = {"a": 1, "b": 2}.get(ACT, 3)', ("a", "b")),
        ('T = {"a": 1, "b": 2}\ndef g(): return T[ACT]', ("a", "b")),
        ('def g(): return T[ACT]\nT = {"a": 1, 3: 2}', ("a",)),
        ('match ACT:\n    case "a" | "b": pass\n    case "c": pass\n    case _: 1', tuple("abc")),
        ('if act == "a": pass', ()),
        ("f = T[ACT]", ()),
    ],
)  # fmt: skip
def test_the_closed_set_of_a_string_is_what_the_code_shows(
    code: str, choices: tuple[str, ...]
) -> None:
    (constant, *_) = parse("a.py", f'ACT = "a"\n{code}\n').constants

    assert constant.choices == choices


@pytest.mark.parametrize(
    ("value", "old", "text"),
    [
        (3e-3, "1e-3", "3e-3"), (3e-3, "0.001", "0.003"),
        (1.0, "1e-3", "1.0"), (0.3, "1e-3", "0.3"),
        (3e-5, "0.001", "3e-5"), (0.0, "1e-3", "0.0"), (2e6, "1e6", "2e6"),
        (2.5e-8, "1E-8", "2.5e-8"),
        (2048, "1024", "2048"), (20000, "10_000", "20_000"), (2**18, "2**19", "2**18"),
        (2**20, "2 ** 19", "2 ** 20"), (3, "2**2", "3"), (True, "False", "True"),
        ("relu", "'gelu'", "'relu'"), ("größe", '"gelu"', '"größe"'),
        ("a\\b", "'gelu'", "'a\\\\b'"), ("relu", 'r"gelu"', 'r"relu"'), ("a'b", "'gelu'", '"a\'b"'),
    ],
)  # fmt: skip
def test_a_value_is_written_in_the_notation_of_the_old_one(
    value: Value, old: str, text: str
) -> None:
    assert literal(value, old) == text


# --- sources that are no plain text -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [("LR = 1\nprint 'x'\n", 2), ("LR = = 1\n", 1), ("LR = 1\0\n", 1), ("def f(:\n", 1)],
)
def test_a_syntax_error_names_file_and_line(text: str, line: int) -> None:
    with pytest.raises(ProposerError, match=rf"^pkg/train\.py:{line}: not valid Python\Z"):
        parse("pkg/train.py", text)


def test_text_that_is_no_utf8_is_one_clear_line() -> None:
    with pytest.raises(ProposerError, match=r"^a\.py: is not text in UTF-8[^\n]*\Z"):
        parse("a.py", "A = 1  # \udc80\n")


def test_an_expression_nested_without_end_is_one_clear_line() -> None:
    with pytest.raises(ProposerError, match=r"^a\.py: [^\n]* nested too deeply[^\n]*\Z"):
        parse("a.py", "LR = 1e-3\nX = " + "+".join(["1"] * 1100) + "\n")


def test_ten_thousand_lines_are_read_in_seconds() -> None:
    blocks = (
        f"def f{i}(x, y):\n    z = x + y * {i}\n    return [z, f0(z, {i})]\n\nLR_{i} = 0.{i + 1}\n"
        for i in range(2000)
    )
    text = "".join(blocks)
    begin = time.process_time()  # of CPU: others may share the core
    found = parse("big.py", text)
    new = found.rewrite({"LR_1999": 0.5})
    seconds = time.process_time() - begin

    assert len(text.splitlines()) == 10_000
    assert new == text.replace("LR_1999 = 0.2000", "LR_1999 = 0.5")
    assert seconds < 20.0  # two to four on one shared core; quadratic code takes minutes
