"""A row is read in one go; whatever is odd about it is judged step by step, with the same words."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import OvernightError
from overnight.contracts.rows import GENESIS, Row
from overnight.ledger import chain
from tests.golden.make import LEDGER
from tests.unit.ledger.history_of import SID

LINES = LEDGER.read_bytes().splitlines()
Reader = Callable[..., Any]


def _place(number: int) -> dict[str, Any]:
    prev = GENESIS if number == 0 else json.loads(LINES[number - 1])["hash"]
    return {"seq": number + 1, "prev": prev, "session": SID}


def _outcome(reader: Reader, line: bytes, place: dict[str, Any]) -> object:
    try:
        return reader(line, **place)
    except OvernightError as error:
        return type(error), str(error)


@pytest.mark.parametrize("number", range(len(LINES)))
def test_a_good_row_is_read_in_one_go_and_is_the_same(number: int) -> None:
    place = _place(number)
    quick = chain._at_once(LINES[number], **place)
    slow = chain._step_by_step(LINES[number], **place)

    assert quick is not None
    assert quick == slow
    assert wire.encode(quick).encode() == LINES[number]
    assert quick.typed == wire.build(type(slow.typed), slow.body)


@pytest.mark.parametrize("number", [0, 1, 3, 4])
def test_any_changed_byte_is_refused_with_the_words_of_the_careful_reader(number: int) -> None:
    line, place = LINES[number], _place(number)
    for position in range(len(line)):
        for flip in (0x01, 0x20):
            bad = line[:position] + bytes([line[position] ^ flip]) + line[position + 1 :]
            assert chain._at_once(bad, **place) is None, f"byte {position} was not noticed"
            assert _outcome(chain.from_line, bad, place) == _outcome(
                chain._step_by_step, bad, place
            )


def _rehashed(plain: dict[str, Any]) -> bytes:
    """A careful forger's line: whatever stands in it, its hash fits."""
    plain = {name: value for name, value in plain.items() if name != "hash"}
    plain["hash"] = wire.digest(plain["prev"] + json.dumps(plain, sort_keys=True,
                                                           separators=(",", ":")))  # fmt: skip
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


ODD: dict[str, Any] = {
    "version as a boolean": lambda row: {**row, "v": True},
    "version as a float": lambda row: {**row, "v": float(row["v"])},
    "no version": lambda row: {k: v for k, v in row.items() if k != "v"},
    "one field more": lambda row: {**row, "zz": 1},
    "another kind": lambda row: {**row, "kind": "repaired"},
    "seq as a float": lambda row: {**row, "seq": float(row["seq"])},
    "seq of another row": lambda row: {**row, "seq": row["seq"] + 1},
    "another session": lambda row: {**row, "session": "f" * 12},
    "another row before": lambda row: {**row, "prev": "e" * 64},
    "not a number": lambda row: {**row, "body": {**row["body"], "metric": float("nan")}},
    "no end": lambda row: {**row, "body": {**row["body"], "metric": float("inf")}},
    "a field of the body more": lambda row: {**row, "body": {**row["body"], "zz": None}},
    "the body's version as a boolean": lambda row: {**row, "body": {**row["body"], "v": True}},
    "the body's version as a float": lambda row: {**row, "body": {**row["body"], "v": 2.0}},
    "no body": lambda row: {**row, "body": None},
    "an empty body": lambda row: {**row, "body": {}},
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_what_is_odd_but_whole_is_judged_alike(odd: str, number: int) -> None:
    place = _place(number)
    line = _rehashed(ODD[odd](json.loads(LINES[number])))

    assert chain._at_once(line, **place) is None
    assert _outcome(chain.from_line, line, place) == _outcome(chain._step_by_step, line, place)


@pytest.mark.parametrize("extra", [0, 70])
def test_a_body_that_is_nested_too_deep_is_refused(extra: int) -> None:
    place, row = _place(1), json.loads(LINES[1])
    deep: Any = 1
    for _ in range(extra or 5):
        deep = {"a": deep}
    line = _rehashed({**row, "body": {**row["body"], "details": {"x": deep}}})
    quick = chain._at_once(line, **place)

    assert (quick is None) == bool(extra)
    assert _outcome(chain.from_line, line, place) == _outcome(chain._step_by_step, line, place)


def test_shuffled_or_spaced_text_is_not_canonical() -> None:
    place, row = _place(1), json.loads(LINES[1])
    names = list(row)
    random.Random(1).shuffle(names)
    shuffled = json.dumps({name: row[name] for name in names}, separators=(",", ":")).encode()
    doubled = LINES[1].replace(b'{"body":', b'{"body":{},"body":', 1)
    for line in (shuffled, json.dumps(row).encode(), LINES[1] + b" ", b" " + LINES[1], doubled):
        assert chain._at_once(line, **place) is None
        kind, words = _outcome(chain.from_line, line, place)  # type: ignore[misc]
        assert kind is chain.BrokenRowError, words


def test_what_was_read_equals_what_was_built() -> None:
    """The typed body that a row carries is no part of its value."""
    row = chain.from_line(LINES[0], **_place(0))

    assert row == wire.build(Row, json.loads(LINES[0]))
    assert "typed" not in wire.dump(row)
