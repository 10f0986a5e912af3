"""What may be tried, inferred from value, name and comment."""

from __future__ import annotations

import pytest

from overnight.contracts.errors import ProposerError
from overnight.proposers.constants import Value, parse
from overnight.proposers.space import Knob, Space, build_space


def space_of(text: str, anchors: dict[str, Value] | None = None) -> Space:
    return build_space({"a.py": parse("a.py", text)}, anchors or {})


def knob_of(line: str, anchors: dict[str, Value] | None = None) -> Knob:
    (knob,) = (k for k in space_of(f"{line}\nSPARE = True\n", anchors).knobs if k.name != "SPARE")
    return knob


def is_tuned(line: str) -> bool:
    return len(space_of(f"{line}\nSPARE = True\n").knobs) == 2


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("DEPTH = 2", (1, 2, 3, 4)),
        ("N_LAYERS = 8", tuple(range(4, 17))),
        ("HEADS = 4", (1, 2, 4, 8, 16, 32)),
        ("BATCH = 8", (1, 2, 4, 8, 16, 32, 64)),
        ("DIM = 64", (8, 16, 32, 64, 128, 256, 512)),
        ("N_EMBD = 384", (96, 192, 288, 384, 480, 576, 768, 1152, 1536)),
        ("TOTAL_BATCH_SIZE = 2**10", (128, 256, 512, 1024, 2048, 4096, 8192)),
        ("ROPE = False", (False, True)),
        ("DROPOUT = 0.0", (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)),
        ("WARMDOWN = 0.5", (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
        ("GRAD_CLIP = 1.0", (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)),
        ("BIAS = -1.0", (-10.0, -5.0, -3.0, -2.0, -1.0, -0.5, -0.3, -0.2, -0.1)),
        ("WARMUP_STEPS = 0", (0, 10, 20, 50, 100, 200, 500)),
    ],
)  # fmt: skip
def test_name_and_value_suggest_a_ladder(line: str, values: tuple[Value, ...]) -> None:
    assert knob_of(line).values == values


def test_a_learning_rate_has_a_log_ladder_of_round_numbers_with_a_bold_step_of_three() -> None:
    knob = knob_of("MATRIX_LR = 1e-3")
    here = knob.values.index(1e-3)

    assert (knob.values[0], knob.values[-1]) == (4e-5, 3e-2)
    assert knob.values[here + knob.stride] == 3e-3
    assert all(float(f"{value:.1e}") == value for value in knob.values)


def test_a_decay_of_zero_can_be_switched_on() -> None:
    values = knob_of("WEIGHT_DECAY = 0.0").values

    assert values[0] == 0.0
    assert 0.1 in values


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("VOCAB = 1024  # 256 | 512 | 1024 | 2048", (256, 512, 1024, 2048)),
        ("VOCAB = 1024  # tokens: 256, 512, 1024, 2048 or 4096", (256, 512, 1024, 2048, 4096)),
        ("ACT = 'gelu'  # gelu | relu2 | silu", ("gelu", "relu2", "silu")),
        ("ACT = 'gelu'  # one of: gelu, relu2 or silu", ("gelu", "relu2", "silu")),
        ("ACT = 'gelu'  # kind: \"relu2\" | \"gelu\" - as in the paper", ("relu2", "gelu")),
        ("X = 0.5  # 0.1 | 0.5 | 0.9", (0.1, 0.5, 0.9)),
        ("X = 3  # 1 .. 6", (1, 2, 3, 4, 5, 6)),
        ("X = 16  # 4 .. 64", (4, 8, 16, 32, 64)),
        ("X = 0.5  # 0 .. 1", (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
        ("SEQ = 128  # tokens of context, at most 512", (16, 32, 64, 128, 256, 512)),
        ("width = 3  # 2 | 3", (2, 3)),
        ("MAX_STEPS = 100  # 50 | 100", (50, 100)),
    ],
)  # fmt: skip
def test_the_comment_beside_a_constant_is_honoured(line: str, values: tuple[Value, ...]) -> None:
    assert knob_of(line).values == values


@pytest.mark.parametrize("comment", ["1 | 2 | 4", "7 .. 9", "see a | b", "1, 2 or many"])
def test_a_comment_that_does_not_hold_the_present_value_is_prose(comment: str) -> None:
    assert knob_of(f"X = 3  # {comment}").values == knob_of("X = 3").values


def test_a_smoothing_factor_has_more_values_near_one() -> None:
    values = knob_of("BETA2 = 0.99").values

    assert sum(float(value) >= 0.9 for value in values) > len(values) / 2


def test_a_stated_range_is_filled_with_round_numbers_to_both_ends() -> None:
    values = knob_of("LR = 1e-3  # 1e-4 .. 1e-1").values

    assert (values[0], values[-1]) == (1e-4, 1e-1)
    assert {1e-3, 3e-3, 1e-2} <= set(values)


@pytest.mark.parametrize(
    "line",
    [
        "SEED = 1", "RNG_SEED = 3", "DATA_SEED = 4  # 1 | 4", "seed = 1", "RANDOM_STATE = 2",
        "EVAL_BATCH = 8", "VAL_TOKENS = 100", "TIME_BUDGET = 300", "MAX_SECONDS = 5.0",
        "DEVICE = 'cpu'  # cpu | cuda", "NUM_WORKERS = 4", "LOG_EVERY = 10",
        "OUT_DIR = 'a'  # a | b",
        "VOCAB_SIZE = 50257", "NUM_CLASSES = 10", "MAX_STEPS = 100", "EPOCHS = 3", "BOS_ID = 1",
        "LR = 1e-3  # fixed", "DEPTH = 4  # do not change", "MASK = 0xff", "SENTINEL = -1",
        "NEG_INF = -1e9", "BIG = 9_999_999_999", "OFFSET = 0", "SHIFT = 0.0", "MODE = 'fast'",
        "N_FOLDS = 5", "CV_SPLITS = 4", "n_splits = 5", "x = 3", "flag = True", "step = 0.5",
    ],
)  # fmt: skip
def test_seeds_measurement_budget_and_the_unknowable_are_left_alone(line: str) -> None:
    assert not is_tuned(line)


@pytest.mark.parametrize(
    "line",
    ["learning_rate = 6e-4", "n_layer = 12", "dropout = 0.1", "lr = 0.1", "batch_size = 12"],
)
def test_lower_case_names_that_say_what_they_are_for_are_tuned(line: str) -> None:
    assert is_tuned(line)


def test_the_ladder_stays_where_the_session_began() -> None:
    begun = knob_of("DEPTH = 4")
    moved = knob_of("DEPTH = 8", {"a.py:DEPTH": 4})
    beyond = knob_of("DEPTH = 11", {"a.py:DEPTH": 4})

    assert moved.values == begun.values == tuple(range(2, 9))
    assert beyond.values == (*begun.values, 11)


def test_a_string_that_only_an_else_stood_for_can_be_gone_back_to() -> None:
    code = 'A = "{}"\nif A == "relu":\n    pass\nelse:\n    pass\n'
    begun = space_of(code.format("gelu")).knobs[0]
    moved = space_of(code.format("relu"), {"a.py:A": "gelu"}).knobs[0]

    assert set(begun.values) == set(moved.values) == {"gelu", "relu"}


def test_an_anchor_of_another_sort_is_ignored() -> None:
    assert knob_of("DEPTH = 2", {"a.py:DEPTH": "two"}).values == (1, 2, 3, 4)
    assert knob_of("ROPE = True", {"a.py:ROPE": 3}).values == (False, True)


def test_what_the_file_never_reads_comes_last() -> None:
    names = [knob.name for knob in space_of("LR = 1e-3\nEPS = 1e-8\nprint(EPS)\n").knobs]

    assert names == ["EPS", "LR"]


def test_the_second_of_a_kind_waits_for_others() -> None:
    text = "A_LR = 0.1\nB_LR = 0.1\nDEPTH = 2\nprint(A_LR, B_LR, DEPTH)\n"

    assert [knob.name for knob in space_of(text).knobs] == ["A_LR", "DEPTH", "B_LR"]


def test_thousands_of_constants_are_cut_to_the_most_promising() -> None:
    text = "".join(f"C{index} = 0.5\n" for index in range(3000)) + "LR = 1e-3\n"
    space = space_of(text)

    assert len(space.knobs) == 64
    assert space.knobs[0].name == "LR"


def test_only_files_whose_literals_change_get_a_new_text() -> None:
    sources = {"a.py": parse("a.py", "LR = 0.1\r\n"), "b.py": parse("b.py", "DEPTH = 2\n")}
    space = build_space(sources, {})

    assert space.texts(space.setting) == {}
    assert space.texts({**space.setting, "a.py:LR": 0.3}) == {"a.py": "LR = 0.3\r\n"}


def test_no_constants_is_one_line_that_says_what_it_takes() -> None:
    with pytest.raises(ProposerError, match=r"^nothing to tune in a\.py: [^\n]*LR = 1e-3[^\n]*\Z"):
        space_of("import os\n")
