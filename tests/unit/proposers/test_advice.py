"""What is read out of a person's words, and what is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.proposers.advice import starting, steering
from overnight.proposers.constants import Value, parse
from overnight.proposers.space import Space, build_space

TEXT = """\
LR = 1e-3
HEAD_LR = 1e-2
BATCH_SIZE = 8
DEPTH = 4
ACTIVATION = "gelu"  # gelu | relu
ROPE = False
WARMUP = 0.1
WEIGHT_DECAY = 0.1
DROPOUT = 0.2
BIAS = -1.0
"""


def space() -> Space:
    text = TEXT + "p.add_argument('--clip', default=1.0)\n"
    return build_space({"t": parse("t", text)}, {})


def keys(*names: str) -> set[str]:
    return {f"t:{name}" for name in names}


@pytest.mark.parametrize(
    ("text", "only", "avoid", "preferred"),
    [
        ("try larger batch", (), (), {"BATCH_SIZE": 1}),
        ("don't touch DEPTH", (), ("DEPTH",), {}),
        ("Don\u2019t touch DEPTH, or WARMUP.", (), ("DEPTH", "WARMUP"), {}),
        ("only LR and WARMUP", ("LR", "WARMUP"), (), {}),
        ("leave depth and warmup alone, try a higher LR", (), ("DEPTH", "WARMUP"), {"LR": 1}),
        ("DEPTH higher, smaller batch", (), (), {"DEPTH": 1, "BATCH_SIZE": -1}),
        ("LR up but DEPTH down", (), (), {"LR": 1, "DEPTH": -1}),
        ("don't change anything but LR", ("LR",), (), {}),
        ("change nothing but dropout", ("DROPOUT",), (), {}),
        ("tune everything except DEPTH", (), ("DEPTH",), {}),
        ("keep LR at 1e-3 but try ROPE", (), ("LR",), {"ROPE": 0}),
        ("larger learning rate", (), (), {"LR": 1, "HEAD_LR": 1}),
        ("do not raise DEPTH or LR; try relu", (), ("DEPTH", "LR"), {}),
        ("focus on weight decay", ("WEIGHT_DECAY",), (), {}),
        ("use a smaller --clip", (), (), {"--clip": -1}),
        ("be bold", (), (), {}),
        ("the size of the rate is a total mess", (), (), {}),
        ("experiment 7 was rejected: LR is too high", (), (), {}),
    ],
)  # fmt: skip
def test_plain_words_about_named_constants_are_followed(
    text: str, only: tuple[str, ...], avoid: tuple[str, ...], preferred: dict[str, int]
) -> None:
    found = steering([text], space())

    assert found.only == keys(*only)
    assert found.avoid == keys(*avoid)
    assert found.preferred == {f"t:{name}": way for name, way in preferred.items()}


@pytest.mark.parametrize(
    ("texts", "only", "avoid"),
    [
        (["don't touch DEPTH", "raise DEPTH"], (), ()),
        (["only LR", "try DEPTH"], ("LR", "DEPTH"), ()),
        (["only LR", "leave LR alone"], (), ("LR",)),
        (["don't touch DEPTH", "only DEPTH"], ("DEPTH",), ()),
        (["only LR", "don't touch DEPTH", "everything again"], (), ()),
        (["don't touch DEPTH", "nice work"], (), ("DEPTH",)),
    ],
)
def test_newer_advice_wins_and_what_it_does_not_name_stays(
    texts: list[str], only: tuple[str, ...], avoid: tuple[str, ...]
) -> None:
    found = steering(texts, space())

    assert (found.only, found.avoid) == (keys(*only), keys(*avoid))


def test_what_is_left_alone_can_not_move_and_what_is_unread_is_said() -> None:
    restricted = steering(["only LR"], space()).restrict(space())
    movable = [knob.name for knob in restricted.knobs if len(knob.values) > 1]

    assert movable == ["LR"]
    assert steering(["only LR"], space()).note == "Steered: search only LR."
    assert steering(["be\x1b[2J bold\n"], space()).note == (
        'Steered: search noted "be bold", which names no constant that it tunes.'
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("LR = 3e-3", {"LR": 3e-3}),
        ("raise LR to 0.003", {"LR": 3e-3}),
        ("DEPTH 4 -> 6", {"DEPTH": 6}),
        ("DEPTH 4 \u2192 6, since it is deep", {"DEPTH": 6}),
        ("LR from 1e-3 to 5e-3.", {"LR": 5e-3}),
        ("LR = 1e-3 -> 7e-3", {"LR": 7e-3}),
        ("set BATCH_SIZE 16 and DEPTH to 3", {"BATCH_SIZE": 16, "DEPTH": 3}),
        ("BATCH_SIZE: 8 -> 33, ROPE = True", {"BATCH_SIZE": 33, "ROPE": True}),
        ('ACTIVATION = "relu" helps', {"ACTIVATION": "relu"}),
        ("enable ROPE", {"ROPE": True}),
        ("weight decay should be 0.25", {"WEIGHT_DECAY": 0.25}),
        ("--clip = 2", {"--clip": 2.0}),
        ("BIAS = -2", {"BIAS": -2.0}),
    ],
)
def test_a_hypothesis_that_names_constants_and_values_is_set_exactly(
    text: str, values: dict[str, Value]
) -> None:
    begun = space()
    expected = {**begun.setting, **{f"t:{name}": value for name, value in values.items()}}

    assert starting(text, begun) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a larger batch is better", "don't set LR = 3", "learning rate = 0.003",  # two of them
        "DEPTH = 2.5", "LR = 1e-3", "ACTIVATION = tanh", "LR is too low", "BIAS = 2", "LR = -1",
        "DEPTH 6 layers", "ROPE = 3", "", "LR = ", "LR -> ", "XLR = 3", "LR = 1e999",
    ],
)  # fmt: skip
def test_what_names_no_value_that_can_be_set_is_not_acted_upon(text: str) -> None:
    assert starting(text, space()) is None


WORDS = [
    "LR", "batch", "depth", "only", "don't", "but", ",", ".", "and", "=", "->", "3", "to", "larger",
    "lower", "except", "all", "\n", '"', "--clip", "ROPE", "set", "\x1b[31m",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=14) | st.text(max_size=60).map(lambda t: [t]))
def test_no_text_breaks_it(words: list[str]) -> None:
    begun, text = space(), " ".join(words)
    found = steering([text, text], begun)

    assert {*found.only, *found.avoid, *found.preferred} <= {knob.key for knob in begun.knobs}
    assert "\x1b" not in found.note
    assert "\n" not in found.note
    assert set(starting(text, begun) or {}) <= {knob.key for knob in begun.knobs}


def test_a_long_text_is_read_in_a_moment() -> None:
    rng = random.Random(1)
    text = " ".join(rng.choice(WORDS) for _ in range(100_000))

    steering([text] * 20, space())
    starting("all " * 50_000, space())
