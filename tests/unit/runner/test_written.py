"""A metric in a file that the run wrote: strict, bounded, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.loop import JsonSource
from overnight.runner import written
from overnight.runner.values import Found


def read(folder: Path, text: str | bytes, key: str = "loss") -> Found:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "r.json").write_bytes(data)
    return written.read_number(folder, source(key))


def source(key: str = "loss", file: str = "r.json") -> JsonSource:
    return JsonSource.model_validate({"json": file, "key": key})


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ('{"loss": 1.5}', "loss", 1.5),
        ('{"loss": 3}', "loss", 3.0),
        ('{"loss": -1e-3}', "loss", -0.001),
        ('{"eval": {"loss": 2}}', "eval.loss", 2.0),
        ('{"eval.loss": 2, "eval": {"loss": 3}}', "eval.loss", 2.0),
        ('{"a": {"b": {"c": 0}}}', "a.b.c", 0.0),
        ("\ufeff" + '{"loss": 1}', "loss", 1.0),
        ('{"other": NaN, "loss": 1}', "loss", 1.0),
    ],
)
def test_a_number_at_its_key_is_the_value(
    tmp_path: Path, text: str, key: str, value: float
) -> None:
    assert read(tmp_path, text, key).value == value


@pytest.mark.parametrize(
    ("text", "problem", "words"),
    [
        ('{"loss": NaN}', "nonfinite", "is nan, which is not finite"),
        ('{"loss": -Infinity}', "nonfinite", "is -inf"),
        ('{"loss": 1e999}', "nonfinite", "is inf"),
        ('{"loss": ' + "9" * 5000 + "}", "nonfinite", "is inf"),
        ('{"loss": true}', "metric_unparsable", "is true or false, not a number"),
        ('{"loss": "1.5"}', "metric_unparsable", "is text, not a number"),
        ('{"loss": null}', "metric_unparsable", "is null, not a number"),
        ('{"loss": [1]}', "metric_unparsable", "is a list, not a number"),
        ('{"loss": {}}', "metric_unparsable", "is an object, not a number"),
        ('{"loss": 1, "loss": 2}', "metric_unparsable", "the key loss stands twice"),
        ('{"loss": 1', "metric_unparsable", "is no JSON"),
        ("{'loss': 1}", "metric_unparsable", "is no JSON"),
        ("", "metric_unparsable", "is no JSON"),
        ("[" * 200_000, "metric_unparsable", "is no JSON"),
        ('{"loss": 1} x', "metric_unparsable", "is no JSON"),
        ('{"acc": 1, "b": 2}', "no_metric", "has no loss (there are: acc, b)"),
        ("{}", "no_metric", "has no loss (it is empty)"),
        ("[1]", "no_metric", "what holds loss is no object"),
        ('{"\\u001b[31m\\n": 1}', "no_metric", "has no loss (there are: )"),
    ],
)
def test_anything_else_names_the_file_and_what_is_wrong(
    tmp_path: Path, text: str, problem: str, words: str
) -> None:
    found = read(tmp_path, text)

    assert (found.value, found.problem) == (None, problem)
    assert found.why.startswith("r.json")
    assert words in found.why
    assert found.why.isprintable()


def test_bytes_that_are_no_text_are_no_json(tmp_path: Path) -> None:
    assert read(tmp_path, b'\xff\xfe{"loss": 1}').problem == "metric_unparsable"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = written.read_number(tmp_path, source(file="out/r.json"))

    assert found.problem == "no_metric"
    assert found.why == "the run wrote no out/r.json (a regular file in its working folder)"


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"loss": 1}')
    (tmp_path / "r.json").symlink_to("secret.json")
    assert written.read_number(tmp_path, source()).problem == "no_metric"
    os.mkfifo(tmp_path / "fifo")
    assert written.read_number(tmp_path, source(file="fifo")).problem == "no_metric"
    (tmp_path / "folder").mkdir()
    assert written.read_number(tmp_path, source(file="folder")).problem == "no_metric"


def test_a_file_over_the_cap_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "MAX_BYTES", 1024**2)
    found = read(tmp_path, '{"loss": 1}' + " " * 1024**2)

    assert (found.problem, found.why) == ("no_metric", "r.json is over 1 MiB")


@given(st.binary(max_size=60))
def test_any_bytes_give_either_a_number_or_a_problem(tmp_path_factory, text: bytes) -> None:
    found = read(tmp_path_factory.getbasetemp(), b'{"loss":' + text)

    assert (found.value is None) != (found.problem is None)
