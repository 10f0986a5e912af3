"""How search goes on: the first ideas, what it learns, and that it beats chance."""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys

import pytest

from overnight.contracts.errors import ConfigError, ProposerError
from overnight.contracts.proposing import Proposer
from overnight.contracts.status import Status
from overnight.proposers import tpe
from overnight.proposers.constants import parse
from overnight.proposers.past import Told
from overnight.proposers.random import RandomProposer
from overnight.proposers.search import SearchProposer
from overnight.proposers.space import build_space
from tests.conformance.proposer_suite import TRAIN, Session, by_chance

TINY = """\
LR = 1e-3
WEIGHT_DECAY = 0.0
BETA2 = 0.95
BATCH = 8
DEPTH = 2
DIM = 64
HEADS = 4
VOCAB = 1024  # 256 | 512 | 1024 | 2048
ACTIVATION = "gelu"  # gelu | relu2 | silu
ROPE = False
WARMDOWN = 0.0
print(LR, WEIGHT_DECAY, BETA2, BATCH, DEPTH, DIM, HEADS, VOCAB, ACTIVATION, ROPE, WARMDOWN)
"""


def tiny_loss(files: dict[str, str], rng: random.Random) -> float | None:
    """A stand-in for a small language model: coupled knobs, divisibility, divergence, noise."""
    k = {c.name: c.value for c in parse("train.py", files["train.py"]).constants}
    if int(k["DIM"]) % int(k["HEADS"]):
        return None
    best_rate = 5e-3 * math.sqrt(float(k["BATCH"]) / 8 * 64 / float(k["DIM"]))
    off = math.log10(float(k["LR"]) / best_rate)
    if off > 1:
        return None
    cost = float(k["DEPTH"]) * (float(k["DIM"]) / 64) ** 1.6
    return (
        1.95 + (0.16 if off < 0 else 0.35) * off**2 + 0.09 * (math.log2(cost) + 0.5) ** 2
        + {256: 0.4, 512: 0.2, 1024: 0.0, 2048: -0.09}[int(k["VOCAB"])]
        + {"gelu": 0.0, "relu2": -0.06, "silu": -0.01}[str(k["ACTIVATION"])]
        - 0.05 * bool(k["ROPE"]) + 0.02 * math.log2(float(k["BATCH"]) / 6) ** 2
        + 0.05 * (float(k["WARMDOWN"]) - 0.5) ** 2 + 0.02 * abs(float(k["WEIGHT_DECAY"]) - 0.05)
        + 0.1 * (float(k["BETA2"]) - 0.93) ** 2 + rng.gauss(0, 0.0087)
    )  # fmt: skip


def best_of(proposer: Proposer, seed: int, count: int) -> float:
    """Share of the baseline's loss that is left after *count* ideas."""
    rng = random.Random(seed)
    baseline = tiny_loss({"train.py": TINY}, rng)
    assert baseline is not None
    session = Session(files={"train.py": TINY}, seed=seed, baseline=baseline)
    session.run(proposer, count, lambda files: tiny_loss(files, rng))
    return session.best / baseline


def test_search_beats_chance_on_the_median_of_seeds_in_twenty_ideas() -> None:
    searched = [best_of(SearchProposer({}), seed, 20) for seed in range(5)]
    drawn = [best_of(RandomProposer({}), seed, 20) for seed in range(5)]
    print("left of the loss: search", sorted(searched), "random", sorted(drawn))

    assert statistics.median(searched) < statistics.median(drawn) - 0.05
    assert max(searched) < statistics.median(drawn)


def test_the_first_six_ideas_are_one_knob_each_the_most_promising_first() -> None:
    session = Session()
    proposals = session.run(SearchProposer({}), 6, lambda _: 2.5)

    assert [p.hypothesis.split(":")[0] for p in proposals] == [
        "LR 1e-3 -> 3e-3", "DEPTH 2 -> 1", 'ACTIVATION "gelu" -> "relu2"', "BATCH 8 -> 4",
        "ROPE False -> True", "WEIGHT_DECAY 0.0 -> 0.003",
    ]  # fmt: skip
    assert proposals[0].hypothesis == (
        "LR 1e-3 -> 3e-3: a larger step size may learn more within the budget"
    )
    assert proposals[0].changes == {"train.py": TRAIN.replace("LR = 1e-3", "LR = 3e-3")}


def test_later_ideas_change_few_knobs() -> None:
    session = Session()
    changed = [len(p.details["changed"]) for p in session.run(SearchProposer({}), 30, by_chance(2))]

    assert set(changed[:6]) == {1}
    assert 2 <= max(changed[6:]) <= 3
    few = Session().run(SearchProposer({"max_knobs": 1}), 20, by_chance(2))
    assert {len(p.details["changed"]) for p in few} == {1}


def test_later_ideas_are_one_knob_the_samplers_and_a_few_knobs_in_turn() -> None:
    proposals = Session().run(SearchProposer({}), 15, lambda _: 2.5)  # none is kept
    sampled = ["closer to the settings that did well" in p.hypothesis for p in proposals]

    assert sampled == [False] * 6 + [False, True, False] * 3
    assert {len(p.details["changed"]) for p in proposals[6::3]} == {1}


def test_details_hold_the_full_setting_as_the_text_has_it() -> None:
    (proposal,) = Session().run(SearchProposer({}), 1, lambda _: 1.5)

    assert proposal.details["knobs"] == {
        "train.py:LR": 3e-3, "train.py:WEIGHT_DECAY": 0.0, "train.py:BATCH": 8,
        "train.py:DEPTH": 2, "train.py:ACTIVATION": "gelu", "train.py:ROPE": False,
    }  # fmt: skip
    assert proposal.details["changed"] == ["train.py:LR"]
    assert proposal.details["anchors"]["train.py:LR"] == 1e-3


def only_rate() -> Session:
    return Session(files={"train.py": "LR = 1e-3\nprint(LR)\n"})


def rates(session: Session, count: int, metric: float | None) -> list[float]:
    proposals = session.run(SearchProposer({}), count, lambda _: metric)
    return [p.details["knobs"]["train.py:LR"] for p in proposals]


def test_a_step_that_failed_is_followed_by_the_other_way_and_then_by_smaller_steps() -> None:
    assert rates(only_rate(), 4, 2.5) == [3e-3, 3e-4, 1.5e-3, 6e-4]


def test_a_step_that_won_is_followed_by_the_same_way() -> None:
    session = only_rate()
    metric = iter([1.9, 1.8])

    proposals = session.run(SearchProposer({}), 2, lambda _: next(metric))
    assert [p.details["knobs"]["train.py:LR"] for p in proposals] == [3e-3, 1e-2]


def test_a_value_that_crashed_by_itself_does_not_come_again_in_company() -> None:
    session = Session(seed=4)

    def crashes_when_deep(files: dict[str, str]) -> float | None:
        return None if "DEPTH = 1\n" in files["train.py"] else 2.1

    proposals = session.run(SearchProposer({}), 40, crashes_when_deep)
    assert sum(p.details["knobs"]["train.py:DEPTH"] == 1 for p in proposals) == 1


def test_the_sampler_turns_away_from_what_failed() -> None:
    space = build_space({"a.py": parse("a.py", "LR = 1e-3\nDEPTH = 8\n")}, {})
    told = [
        Told(setting={"a.py:LR": lr, "a.py:DEPTH": depth}, loss=2.0 if depth < 8 else math.inf)
        for lr in (1e-4, 1e-3, 1e-2)
        for depth in (5, 6, 7, 9, 12, 15)
    ]
    suggested = [tpe.suggest(space, told, seed)["a.py:DEPTH"] for seed in range(10)]

    assert sum(int(depth) < 9 for depth in suggested) >= 8


def test_thousands_of_past_experiments_do_not_make_a_suggestion_slow() -> None:
    space = build_space({"a.py": parse("a.py", "LR = 1e-3\nDEPTH = 8\n")}, {})
    told = [
        Told(setting={"a.py:LR": 1e-3, "a.py:DEPTH": 4 + n % 12}, loss=2.0 + n % 7)
        for n in range(10_000)
    ]

    assert len(tpe._most_telling(told)) == tpe.MAX_TOLD
    assert tpe.suggest(space, told, 1) == tpe.suggest(space, told, 1)


@pytest.mark.parametrize(
    ("status", "metric", "reason", "line"),
    [
        (Status.KEEP, 1.9, None, "Experiment 2 (LR 1e-3 -> 3e-3) was kept with val_bpb 1.9."),
        (
            Status.DISCARD, 2.1, None,
            "Experiment 2 (LR 1e-3 -> 3e-3) reached val_bpb 2.1 against the incumbent's 2 "
            "(discard).",
        ),
        (
            Status.CRASH, None, "nonfinite",
            "Experiment 2 (LR 1e-3 -> 3e-3) ended as crash:nonfinite; that setting counts as "
            "infeasible.",
        ),
    ],
)  # fmt: skip
def test_the_analysis_is_one_line_about_the_last_result(
    status: Status, metric: float | None, reason: str | None, line: str
) -> None:
    session, proposer = Session(), SearchProposer({})
    number, first = session.propose(proposer)
    session.end(number, status, metric, reason)

    assert first.analysis == "The baseline reached val_bpb 2."
    assert proposer.propose(session.history()).analysis == line


def test_line_ends_mark_and_letters_of_the_file_are_kept() -> None:
    text = "\ufeff# größe 漢字\r\nLR\t= 1e-3 # ü\r\nif LR:\r\n\tprint('ß')\r\n\r\n  "
    session = Session(files={"train.py": text})
    (proposal,) = session.run(SearchProposer({}), 1, lambda _: 2.5)

    assert proposal.changes == {"train.py": text.replace("1e-3", "3e-3")}


def test_a_file_with_a_syntax_error_is_one_clear_line() -> None:
    session = Session(files={"train.py": "LR = 1e-3\nprint 'x'\n"})

    with pytest.raises(ProposerError, match=r"^train\.py:2: not valid Python\Z"):
        SearchProposer({}).propose(session.history())


def test_constants_of_several_files_are_searched_together() -> None:
    session = Session(files={"train.py": "LR = 1e-3\nprint(LR)\n", "model.py": "DEPTH = 2\n"})
    changed = [set(p.changes) for p in session.run(SearchProposer({}), 20, by_chance(1))]

    assert {"train.py"} in changed
    assert {"model.py"} in changed


@pytest.mark.parametrize("options", [{"max_knobs": 0.5}, {"max_knob": 2}, {"early": "six"}])
def test_a_bad_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=rf"^proposer\.options\.{next(iter(options))}: "):
        SearchProposer(options)


def test_the_seed_option_replaces_the_sessions_seed() -> None:
    def later(session: Session, options: dict[str, object]) -> list[dict[str, str]]:
        return [p.changes for p in session.run(SearchProposer(options), 14, lambda _: 2.5)]

    assert later(Session(seed=1), {"seed": 9}) == later(Session(seed=2), {"seed": 9})
    assert later(Session(seed=1), {"seed": 9}) != later(Session(seed=1), {})


def test_optuna_is_not_loaded_before_it_is_needed_and_says_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = "import sys, overnight.proposers.search; sys.exit('optuna' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=False)
    Session().run(SearchProposer({"early": 0}), 6, by_chance(3))
    out, err = capfd.readouterr()

    assert loaded.returncode == 0
    assert (out, err) == ("", "")
