"""YAML is read strictly: whatever the text, a plain mapping or one readable line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overnight.configuration import load_yaml
from overnight.contracts.errors import ConfigError

ALIAS_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_yaml(text, "loop.run.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "loop.run.yaml:2: a stands twice (first on line 1)"),
        (
            "a:\n  b:\n    c: 1\n    d: 2\n    c: 3\n",
            "loop.run.yaml:5: a.b.c stands twice (first on line 3)",
        ),
        (ALIAS_BOMB, "loop.run.yaml:1: anchors and aliases (& and *) are not allowed"),
        ("a: 1\nb: *a\n", "loop.run.yaml:2: anchors and aliases (& and *) are not allowed"),
        ("<<: {a: 1}\n", "loop.run.yaml:1: merging with << is not allowed"),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "loop.run.yaml:1: tags are not allowed: "
            "'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        ("a: !x 1\n", "loop.run.yaml:1: tags are not allowed: '!x'"),
        ("- a\n", "loop.run.yaml:1: must hold `key: value` lines, not a list"),
        ("hello\n", "loop.run.yaml:1: must hold `key: value` lines, not a single value"),
        ("a: " + "[" * 30_000, "loop.run.yaml:1: nested deeper than 16"),
        ("a: [1, 2\nb: 3\n", "loop.run.yaml:2: not YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n---\nb: 2\n", "loop.run.yaml:2: not YAML: but found another document"),
        (
            "\tb: 2\n",
            "loop.run.yaml:1: not YAML: found character '\\t' that cannot start any token",
        ),
        ("a: 1\nb: '\x01'\n", "loop.run.yaml:2: holds a character that YAML does not allow"),
        ('a: "\\0"\n', "loop.run.yaml:1: a: holds a control character"),
        ('a: "\\ud800"\n', "loop.run.yaml:1: a: holds a control character"),
        ("1: a\n", "loop.run.yaml:1: a key must be text, not '1'"),
        ("? [a]\n: b\n", "loop.run.yaml:1: a key must be text, not a list"),
        ("a: 1e999\n", "loop.run.yaml:1: a: the number '1e999' is out of range"),
        ("a: " + "x" * 70_000, "loop.run.yaml: larger than 64 KiB"),
    ],
)
def test_a_bad_text_is_one_line_that_names_the_place(text: str, message: str) -> None:
    assert refusal(text) == message


def test_scalars_mean_what_they_look_like() -> None:
    text = (
        "a: 1\nb: 1e-3\nc: on\nd: 1:30\ne: '1'\nf: 2026-01-01\ng: true\nh:\ni: .5\nj: 010\nk: .inf"
    )

    assert load_yaml(text, "x") == {
        "a": 1,
        "b": 0.001,
        "c": "on",
        "d": "1:30",
        "e": "1",
        "f": "2026-01-01",
        "g": True,
        "h": None,
        "i": 0.5,
        "j": 10,
        "k": ".inf",
    }


def test_an_empty_text_is_an_empty_mapping() -> None:
    assert load_yaml("# nothing\n", "x") == {}


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")

    assert load_yaml(file, "a.yaml") == {"a": 1}


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(ConfigError, match=r"^a\.yaml:2: not UTF-8: save it as UTF-8$"):
        load_yaml(file, "a.yaml")


def test_a_megabyte_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\n" * 200_000)
    began = time.monotonic()

    with pytest.raises(ConfigError, match=r"^a\.yaml: larger than 64 KiB$"):
        load_yaml(file, "a.yaml")
    assert time.monotonic() - began < 5.0


@pytest.mark.timeout(20)
def test_a_named_pipe_or_a_folder_in_the_place_of_the_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ConfigError, match="is not a regular file"):
        load_yaml(tmp_path / "pipe", "a.yaml")
    with pytest.raises(ConfigError, match=r"^a\.yaml: "):
        load_yaml(tmp_path, "a.yaml")
    with pytest.raises(ConfigError, match="No such file or directory"):
        load_yaml(tmp_path / "none", "a.yaml")


def assert_mapping_or_one_line(source: Path | str) -> None:
    message = "x.yaml:"
    try:
        result = load_yaml(source, "x.yaml")
    except ConfigError as error:
        message = str(error)
    else:
        assert isinstance(result, dict)
        assert all(isinstance(key, str) for key in result)
    assert message.startswith("x.yaml:"), message
    assert message.isprintable(), repr(message)


YAML_LIKE = st.text(
    alphabet=st.sampled_from(list("ab1 \n\t:-[]{},&*!|>'\"#%@?~.e\\u0dxU\x00\x85\u2028\ufeffé")),
    max_size=60,
)


@given(st.one_of(st.text(), YAML_LIKE))
@example('a: "\\UFFFFFFFF"')
@example("%YAML 1.1\n---\na: 1")
@example("? ")
def test_any_text_is_a_plain_mapping_or_one_line(text: str) -> None:
    assert_mapping_or_one_line(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_plain_mapping_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    file.write_bytes(data)
    assert_mapping_or_one_line(file)
