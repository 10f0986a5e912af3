"""What search reads out of a history, and which steps it takes from there."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from overnight.contracts.loop import MetricSpec
from overnight.contracts.status import Direction, Status
from overnight.proposers import past, steps
from overnight.proposers.constants import Value, parse
from overnight.proposers.past import Move, Record
from overnight.proposers.search import SearchProposer
from overnight.proposers.space import Space, build_space
from tests.conformance.proposer_suite import Session


def space_of(session: Session) -> Space:
    history = session.history()
    sources = {"train.py": parse("train.py", history.parent_files["train.py"])}
    return build_space(sources, past.anchors(history))


def record_of(session: Session) -> Record:
    return past.read(session.history(), space_of(session))


def test_in_flight_counts_as_bad_so_that_the_next_idea_looks_elsewhere() -> None:
    session = Session()
    session.propose(SearchProposer({}))

    assert [told.loss for told in record_of(session).told] == [2.0, math.inf]


@pytest.mark.parametrize(
    ("status", "metric", "loss"),
    [
        (Status.KEEP, 1.5, 1.5), (Status.DISCARD, 2.5, 2.5), (Status.CRASH, None, math.inf),
        (Status.TIMEOUT, None, math.inf), (Status.PRUNED, 9.0, math.inf),
        (Status.REJECTED, None, math.inf), (Status.INFRA, None, None), (Status.HELD, 0.1, None),
        (Status.CANCELLED, None, None),
    ],
)  # fmt: skip
def test_failures_are_infeasible_and_what_says_nothing_is_not_told(
    status: Status, metric: float | None, loss: float | None
) -> None:
    session = Session()
    number, _ = session.propose(SearchProposer({}))
    session.end(number, status, metric, None)

    assert [told.loss for told in record_of(session).told][1:] == ([] if loss is None else [loss])


def test_a_metric_to_maximise_is_told_the_other_way_round() -> None:
    session = Session(baseline=0.7)
    spec = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
    history = replace(session.history(), metric=spec)

    assert [told.loss for told in past.read(history, space_of(session)).told] == [-0.7]


def test_the_first_anchors_stay_for_the_whole_session() -> None:
    session = Session()
    metrics = iter([1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3])
    session.run(SearchProposer({}), 7, lambda _: next(metrics))

    assert session.history().parent_files["train.py"] != session.files["train.py"]
    assert past.anchors(session.history())["train.py:LR"] == 1e-3
    assert past.anchors(session.history())["train.py:BATCH"] == 8
    ladders = {knob.key: knob.values for knob in space_of(session).knobs}
    assert ladders == {knob.key: knob.values for knob in space_of(Session()).knobs}


def test_a_value_that_did_worse_by_itself_is_no_step_to_take() -> None:
    session = Session()
    session.run(SearchProposer({}), 1, lambda _: 2.5)  # LR 3e-3 lost
    session.run(SearchProposer({}), 1, lambda _: 1.5)  # DEPTH 1 won, 2 lost
    record = record_of(session)
    settings = [
        steps.nearby(space_of(session), record, random.Random(seed), 3) for seed in range(60)
    ]

    assert record.worse_alone == {("train.py:LR", 3e-3), ("train.py:DEPTH", 2)}
    assert not [one for one in settings if one["train.py:LR"] == 3e-3]
    assert not [one for one in settings if one["train.py:DEPTH"] == 2]
    assert [one for one in settings if one["train.py:LR"] != 1e-3]


@pytest.mark.parametrize(
    ("moves", "first"),
    [
        ([], 3e-3),
        ([(+1, True)], 3e-3),
        ([(+1, False)], 3e-4),
        ([(-1, True)], 3e-4),
        ([(+1, None)], 3e-4),
        ([(+1, False), (-1, False)], 1.5e-3),
        ([(+1, False), (-1, False), (+1, True)], 3e-3),
    ],
)
def test_where_to_step_next_follows_from_the_steps_so_far(
    moves: list[tuple[int, bool | None]], first: Value
) -> None:
    knob = next(knob for knob in space_of(Session()).knobs if knob.name == "LR")
    made = [Move(key=knob.key, direction=direction, won=won) for direction, won in moves]

    assert next(steps.targets(knob, made)) == first


def test_however_many_steps_failed_there_is_a_smallest_one() -> None:
    knob = next(knob for knob in space_of(Session()).knobs if knob.name == "DEPTH")
    failed = [Move(key=knob.key, direction=1, won=False)] * 9

    assert list(steps.targets(knob, failed)) == [1, 3]
