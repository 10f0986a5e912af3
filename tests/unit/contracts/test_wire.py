"""Contracts travel strictly: what goes in comes out, anything else is one clear error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts import wire
from overnight.contracts.errors import WireError
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.ledger.older import version_of

PATHS = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.py", fullmatch=True)
JOBS = st.builds(
    ExperimentJob,
    v=st.just(version_of(ExperimentJob)),
    sid=st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
    tag=st.text(max_size=20),
    id=st.integers(1, 10_000_000),
    attempt=st.integers(1, 1000),
    commit=st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
    tree_digest=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    run_cmd=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5).map(tuple),
    metric=st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True),
    editable_files=st.lists(PATHS, min_size=1, max_size=3).map(tuple),
    frozen_files=st.none() | st.lists(PATHS, max_size=3).map(tuple),
    budget=st.floats(0.001, 1e6),
    gate=st.sampled_from(["time", "cpu_time", "steps"]),
    wall_seconds=st.floats(0.001, 1e6),
    cpu_seconds=st.none() | st.floats(0.001, 1e6),
    env=st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), st.text(max_size=20)),
    pass_env=st.just(()),
    reads=st.lists(st.text(max_size=20), max_size=3).map(tuple),
    python=st.none() | st.text(max_size=20),
    network=st.sampled_from(["none", "host"]),
    memory_mb=st.none() | st.integers(1, 10_000),
    plausible_min=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    plausible_max=st.none(),
    seed=st.integers(0, 2**31),
)


@given(JOBS)
def test_every_job_survives_the_wire(job: ExperimentJob) -> None:
    text = wire.encode(job)

    assert wire.decode(ExperimentJob, text) == job
    assert text.isascii()
    assert wire.encode(wire.decode(ExperimentJob, text)) == text


@given(JOBS, st.data())
def test_a_field_of_the_wrong_kind_is_a_wire_error(job: ExperimentJob, data: st.DataObject) -> None:
    fields = json.loads(wire.encode(job))
    name = data.draw(st.sampled_from(sorted(fields)))
    # True is right for a field that is true or false.
    kinds = [0.5 if isinstance(fields[name], bool) else True, {"x": 1}, [[1]]]
    wrong = data.draw(st.sampled_from(kinds))
    fields[name] = wrong
    with pytest.raises(WireError):
        wire.decode(ExperimentJob, json.dumps(fields))


@given(JOBS, st.sampled_from(["v", "sid", "commit", "run_cmd", "wall_seconds"]))
def test_a_missing_field_names_itself(job: ExperimentJob, name: str) -> None:
    fields = json.loads(wire.encode(job))
    del fields[name]
    if name == "v":
        assert wire.decode(ExperimentJob, json.dumps(fields)) == job
        return
    with pytest.raises(WireError, match=name):
        wire.decode(ExperimentJob, json.dumps(fields))


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_value_or_one_line_of_error(text: str) -> None:
    message = ""
    try:
        wire.loads(text)
    except WireError as error:
        message = str(error)

    assert "\n" not in message


NEWER = version_of(ExperimentResult) + 1
RESULT = {"id": 1, "attempt": 1, "sender": "r0", "status": "scored", "metric": 1.5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps({**RESULT, "metric": float("nan")}), "NaN is not allowed"),
        (json.dumps({**RESULT, "metric": float("-inf")}), "-Infinity is not allowed"),
        (json.dumps(RESULT).replace("1.5", "1e999"), "out of range"),
        (json.dumps({**RESULT, "surprise": 1}), "surprise"),
        (json.dumps({**RESULT, "v": NEWER}), f"v{NEWER} was written by a newer version"),
        (json.dumps({**RESULT, "status": "perfect"}), "status"),
        (json.dumps({**RESULT, "id": True}), "id"),
        (json.dumps({**RESULT, "id": "1"}), "id"),
        (json.dumps(RESULT)[:-1] + ', "id": 2}', "stands twice"),
        ("[" * 100 + "]" * 100, "nested deeper"),
        ("[" * 100_000, "not strict JSON"),
        ("1" * 5000, "not strict JSON"),
        (" " * (wire.MAX_MESSAGE_BYTES + 1), "longer than"),
        ("", "not strict JSON"),
        ("null", "ExperimentResult"),
    ],
)
def test_what_is_not_the_contract_is_one_clear_error(text: str, says: str) -> None:
    with pytest.raises(WireError, match=says) as caught:
        wire.decode(ExperimentResult, text)

    assert "\n" not in str(caught.value)


def test_a_value_that_is_no_json_cannot_be_written() -> None:
    with pytest.raises(WireError):
        wire.canonical(float("inf"))


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../b", "a\\b", "a\nb", "", "a//b", "x" * 401]
)
def test_a_path_that_leaves_the_tree_is_no_path(path: str) -> None:
    plain = {**json.loads(wire.encode(_job())), "editable_files": [path]}
    with pytest.raises(WireError, match="editable_files"):
        wire.decode(ExperimentJob, json.dumps(plain))


def _job() -> ExperimentJob:
    return ExperimentJob(
        sid="0" * 12,
        tag="t",
        id=1,
        attempt=1,
        commit="0" * 40,
        tree_digest="0" * 64,
        run_cmd=("python",),
        metric="m",
        editable_files=("train.py",),
        budget=1.0,
        gate="time",
        wall_seconds=2.0,
        cpu_seconds=None,
    )
