"""Any bytes are a value or one documented refusal: one short safe line, soon, in little memory."""

from __future__ import annotations

import resource
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.bytes_of import NASTY, anything
from tests.fuzz.parsers import PARSERS, Parser, assert_harmless

MESSAGE_CHARACTERS = 400
CPU_SECONDS = 5.0  #: of one call; all take milliseconds
GROWN_BYTES = 300 * 1024**2


def check(parser: Parser, data: bytes) -> None:
    """The whole promise, for one input."""
    began = time.thread_time()
    try:
        parser.call(data)
    except parser.refuses as error:
        message = str(error)
        assert_harmless(message)
        assert "\n" not in message
        assert "\t" not in message
        assert 0 < len(message) <= MESSAGE_CHARACTERS, len(message)
    assert time.thread_time() - began < CPU_SECONDS


@pytest.mark.parametrize("name", PARSERS)
def test_what_broke_parsers_elsewhere_breaks_none_here(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in (*NASTY, *PARSERS[name].seeds):
        check(PARSERS[name], data)

    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < GROWN_BYTES


@pytest.mark.parametrize("name", PARSERS)
def test_its_own_good_input_is_taken(name: str) -> None:
    for seed in PARSERS[name].seeds[:1]:
        PARSERS[name].call(seed)


@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_bytes_are_a_value_or_one_documented_refusal(name: str, data: st.DataObject) -> None:
    check(PARSERS[name], data.draw(anything(PARSERS[name].seeds)))
