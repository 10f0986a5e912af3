"""What search does when it is asked for something: a hypothesis, advice, another strategy."""

from __future__ import annotations

from typing import Any

import pytest

from overnight.contracts.errors import ProposerError
from overnight.contracts.experiment import Proposal
from overnight.contracts.status import Status, Strategy
from overnight.proposers.random import BestOfNProposer
from overnight.proposers.search import SearchProposer
from tests.conformance.proposer_suite import Session, by_chance


def changed(proposal: Proposal) -> dict[str, Any]:
    knobs = proposal.details["knobs"]
    return {key.split(":")[1]: knobs[key] for key in proposal.details["changed"]}


# --- the starting hypothesis -------------------------------------------------------------------


def test_experiment_two_sets_exactly_what_the_starting_hypothesis_names() -> None:
    session = Session(asks={"starting_hypothesis": "I think LR = 0.0033 and DEPTH 2 -> 3 help"})
    first, second = session.run(SearchProposer({}), 2, lambda _: 1.9)

    assert changed(first) == {"LR": 0.0033, "DEPTH": 3}
    assert "LR 1e-3 -> 3.3e-3" in first.hypothesis
    assert first.hypothesis.endswith(": the starting hypothesis of this session")
    assert "starting hypothesis" not in second.hypothesis + second.analysis


def test_a_starting_hypothesis_without_a_value_is_said_once_and_search_goes_on() -> None:
    asks = {"starting_hypothesis": "mixtures of experts are better"}
    first, second = Session(asks=asks).run(SearchProposer({}), 2, lambda _: 2.5)

    assert "can't act on the starting hypothesis" in first.analysis
    assert changed(first) == {"LR": 3e-3}
    assert "can't act" not in second.analysis


# --- steering ----------------------------------------------------------------------------------


def test_what_steering_leaves_alone_is_never_touched_not_even_by_the_sampler() -> None:
    session = Session(seed=2, asks={"steering": ("don't touch DEPTH", "only LR, BATCH and DEPTH")})
    session.asks["steering"] += ("leave DEPTH alone",)
    proposals = session.run(SearchProposer({}), 25, by_chance(2))

    assert {name for p in proposals for name in changed(p)} == {"LR", "BATCH"}
    assert "only BATCH, LR" in proposals[0].analysis


def test_a_preferred_constant_comes_next_in_the_direction_asked_for_and_then_fades() -> None:
    session = Session(seed=2)
    session.run(SearchProposer({}), 8, lambda _: 2.5)
    session.asks["steering"] = ("try a larger batch",)
    proposals = session.run(SearchProposer({}), 4, lambda _: 2.5)

    assert changed(proposals[0]) == {"BATCH": 16}
    assert "as was asked for" in proposals[0].hypothesis
    assert ["as was asked for" in p.hypothesis for p in proposals] == [True, True, False, False]


def test_steering_that_leaves_nothing_ends_with_one_line_that_says_so() -> None:
    session = Session(
        files={"train.py": "LR = 1e-3\nprint(LR)\n"}, asks={"steering": ("leave LR alone",)}
    )

    with pytest.raises(ProposerError, match=r"leaves every constant alone; .*--from TAG"):
        SearchProposer({}).propose(session.history())


# --- strategies --------------------------------------------------------------------------------


def test_a_smaller_step_is_half_of_the_one_that_failed() -> None:
    session = Session(files={"train.py": "LR = 1e-3  # 1e-5 .. 1e-1\nprint(LR)\n"})
    session.run(SearchProposer({}), 1, lambda _: None)  # 3e-3 crashes
    session.asks["strategy"] = Strategy.SMALLER_STEP
    (proposal,) = session.run(SearchProposer({}), 1, lambda _: 2.5)

    assert 1e-3 < changed(proposal)["LR"] < 3e-3
    assert "half of the step that failed, since 3e-3 failed" in proposal.hypothesis


def test_what_a_person_rejected_never_ran_and_so_never_failed() -> None:
    session = Session(files={"train.py": "LR = 1e-3  # 1e-5 .. 1e-1\nprint(LR)\n"})
    number, _ = session.propose(SearchProposer({}))
    session.end(number, Status.REJECTED, None, "person")
    _, proposal = session.propose(SearchProposer({}))

    assert "since 3e-3 was rejected (experiment 2)" in proposal.hypothesis
    assert "failed" not in proposal.hypothesis


def test_near_misses_are_combined_nearest_first() -> None:
    session = Session()
    metric = iter([2.3, 2.001, 2.4, 2.002])
    singles = session.run(SearchProposer({}), 4, lambda _: next(metric))
    session.asks["strategy"] = Strategy.COMBINE
    (proposal,) = session.run(SearchProposer({}), 1, lambda _: 2.5)

    assert changed(proposal) == {**changed(singles[1]), **changed(singles[3])}
    assert "near misses 3 and 5 together" in proposal.hypothesis


def test_a_bolder_change_moves_several_constants() -> None:
    session = Session(seed=1)
    session.run(SearchProposer({}), 6, lambda _: 2.5)
    session.asks["strategy"] = Strategy.BOLDER
    proposals = session.run(SearchProposer({}), 6, lambda _: 2.5)

    assert min(len(changed(p)) for p in proposals) >= 2
    assert all("bolder" in p.hypothesis for p in proposals)


def test_rewinding_builds_on_the_earlier_tree_and_not_on_the_incumbent() -> None:
    session = Session()
    metric = iter([1.9, 1.8, 2.5])
    session.run(SearchProposer({}), 3, lambda _: next(metric))
    history = session.history()
    history = type(history)(
        **{**vars(history), "parent": 2, "parent_files": session.trees[2],
           "strategy": Strategy.REWIND}
    )  # fmt: skip
    proposal = SearchProposer({}).propose(history)
    (name,) = changed(proposal)

    assert proposal.parent == 2
    assert session.trees[2]["train.py"].splitlines() != proposal.changes["train.py"].splitlines()
    assert "another way on from experiment 2" in proposal.hypothesis
    lines = zip(
        session.trees[2]["train.py"].splitlines(), proposal.changes["train.py"].splitlines(),
        strict=True,
    )  # fmt: skip
    assert [new.split(" ")[0] for old, new in lines if old != new] == [name]


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_goes_on_from_every_history_and_never_repeats(strategy: Strategy) -> None:
    session = Session(seed=4, asks={"strategy": strategy})
    session.run(SearchProposer({}), 30, by_chance(4))
    trees = [tuple(sorted(tree.items())) for tree in session.trees.values()]

    assert len(set(trees)) == 31


# --- words, waves, controls --------------------------------------------------------------------


def test_the_hypothesis_says_what_the_constant_brought_before() -> None:
    session = Session()
    metric = iter([1.99, 2.5])
    _, second = session.run(SearchProposer({"early": 1}), 2, lambda _: next(metric))
    again = session.propose(SearchProposer({"early": 0}))[1]

    assert second.hypothesis == (
        "LR 3e-3 -> 1e-2: on in the direction of the last gain, "
        "since 3e-3 gained 0.01 (experiment 2)"
    )
    assert changed(again) != {"LR": 1e-2}


def test_the_best_guess_has_not_to_wait_for_all_of_many_constants() -> None:
    text = "LR = 1e-3\n" + "".join(f"C{n} = 0.5\n" for n in range(20)) + "print(LR)\n"
    session = Session(files={"train.py": text})
    proposals = session.run(SearchProposer({}), 7, lambda _: 2.5)

    assert changed(proposals[0]) == {"LR": 3e-3}
    assert changed(proposals[6]) == {"LR": 3e-4}


def test_eight_in_flight_change_different_constants_first_and_never_the_same_setting() -> None:
    session = Session(seed=3)
    proposals = [session.propose(SearchProposer({}))[1] for _ in range(8)]
    names = [tuple(changed(p)) for p in proposals]

    assert len(set(names[:6])) == 6
    assert len({tuple(sorted(p.details["knobs"].items())) for p in proposals}) == 8


def test_a_gain_that_another_overtook_is_tried_on_top_of_it() -> None:
    session, proposer = Session(), SearchProposer({})
    (one, lr), (other, depth) = session.propose(proposer), session.propose(proposer)
    session.end(one, Status.KEEP, 1.8, None)
    session.end(other, Status.DISCARD, 1.9, "worse")  # better than the baseline, both began there
    proposal = session.propose(proposer)[1]

    assert proposal.parent == one
    assert proposal.details["knobs"] == {**lr.details["knobs"], "train.py:DEPTH": 1}
    assert changed(depth) == changed(proposal) == {"DEPTH": 1}
    assert "a gain of experiment 3 too, while another was kept" in proposal.hypothesis


def test_best_of_n_never_builds_on_what_was_kept() -> None:
    session = Session(seed=1)
    proposals = session.run(BestOfNProposer({}), 12, lambda _: session.best - 0.01)
    before = session.trees[1]["train.py"].splitlines()

    assert {p.parent for p in proposals} == {1}
    assert session.incumbent == 13
    for proposal in proposals:
        lines = zip(before, proposal.changes["train.py"].splitlines(), strict=True)
        moved = {new.split(" ")[0] for old, new in lines if old != new}
        assert moved == set(changed(proposal))
        assert 1 <= len(moved) <= 3


def test_best_of_n_without_the_baselines_files_says_so() -> None:
    session = Session()
    session.run(BestOfNProposer({}), 1, lambda _: 1.5)
    history = session.history()
    without = type(history)(**{**vars(history), "baseline_files": {}})

    with pytest.raises(ProposerError, match="files were not handed over"):
        BestOfNProposer({}).propose(without)


def test_a_status_that_says_nothing_teaches_nothing() -> None:
    session, proposer = Session(), SearchProposer({})
    number, _ = session.propose(proposer)
    session.end(number, Status.INFRA, None, "gave_up")
    (proposal,) = session.run(proposer, 1, lambda _: 2.5)

    assert ", since " not in proposal.hypothesis
