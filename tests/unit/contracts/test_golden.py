"""What this release wrote stays readable for ever; what another version wrote is told as such."""

from __future__ import annotations

import pickle

import pytest
from tests.golden.make import LEDGER, VALUES, VERSIONS, golden, session

from overnight import __version__
from overnight.contracts import wire
from overnight.contracts.errors import VersionError, WireError

NAMES = sorted(VALUES)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_file_of_this_version_is_read_and_written_to_the_byte(name: str) -> None:
    cls, plain = VALUES[name]
    text = golden(name)

    value = wire.decode(cls, text)

    assert value == wire.build(cls, plain)
    assert set(plain) == set(cls.model_fields), "the golden value has every field"
    assert wire.encode(value) == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("step", "age"), [(-1, "an older"), (1, "a newer")])
def test_another_version_is_told_before_any_other_complaint(name: str, step: int, age: str) -> None:
    cls, _ = VALUES[name]
    with pytest.raises(VersionError) as caught:
        wire.decode(cls, golden(name, step))

    line = str(caught.value)
    written, known = VERSIONS[name] + step, VERSIONS[name]
    assert line.startswith(f"{cls.__name__} v{written} was written by {age} version of Overnight")
    assert f"this is {__version__}, which reads v{known}: " in line
    assert "finish this session with the version that wrote it" in line
    assert ("`overnight migrate`" in line) == (step < 0)
    assert len(line.splitlines()) == 1


def test_a_version_that_is_no_number_or_a_huge_one_is_one_short_line() -> None:
    cls, plain = VALUES["job"]
    for wrong in (True, "1", None, 1.0, [1]):
        with pytest.raises(WireError) as caught:
            wire.build(cls, {**plain, "v": wrong})
        assert not isinstance(caught.value, VersionError)
    with pytest.raises(VersionError) as huge:
        wire.build(cls, {**plain, "v": 10**3000})
    assert len(str(huge.value)) < 300
    assert str(pickle.loads(pickle.dumps(huge.value))) == str(huge.value)


def test_what_has_no_version_is_of_the_first_one() -> None:
    cls, plain = VALUES["session"]
    without = {name: value for name, value in plain.items() if name != "v"}

    assert wire.build(cls, without) == wire.build(cls, plain)


def test_a_session_is_written_to_the_byte_as_the_golden_ledger() -> None:
    assert session() == LEDGER.read_bytes()
