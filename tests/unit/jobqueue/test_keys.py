"""Every Redis name is spelled in one place, and nothing from outside can bend one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.errors import WireError
from overnight.jobqueue import keys

SID = "0123456789ab"
sids = st.from_regex(r"[0-9a-f]{12}", fullmatch=True)


def test_every_key_is_spelled_as_agreed():
    assert {
        keys.ledger_in(SID),
        keys.ack(SID, "result:3:1:slot-0"),
        keys.lease(SID, 3, 1),
        keys.stop(SID),
        keys.ready(SID, "recorder"),
        keys.runners(SID),
        keys.runner(SID, "slot-0"),
        keys.queue_name("default"),
        keys.job_id(SID, 3, 1),
    } == {
        "overnight:0123456789ab:ledger.in",
        "overnight:0123456789ab:ack:result:3:1:slot-0",
        "overnight:0123456789ab:lease:3:1",
        "overnight:0123456789ab:stop",
        "overnight:0123456789ab:ready:recorder",
        "overnight:0123456789ab:runners",
        "overnight:0123456789ab:runner:slot-0",
        "experiments.default",
        "0123456789ab-3-1",
    }


@given(sids, st.integers(1, 10_000_000), st.integers(1, 1000))
def test_a_job_id_names_its_attempt_and_is_one_that_rq_takes(sid: str, id: int, attempt: int):
    text = keys.job_id(sid, id, attempt)

    assert keys.parse_job_id(text) == (sid, id, attempt)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)


@given(st.text() | st.from_regex(r"[0-9a-f]{12}-[0-9]+-[0-9]+", fullmatch=True))
def test_what_parses_as_a_job_id_is_spelled_as_we_spell_it(text: str):
    parsed = keys.parse_job_id(text)

    assert parsed is None or keys.job_id(*parsed) == text


@pytest.mark.parametrize("sid", ["", "0123456789AB", "0123456789ab\n", "x:0123456789", "*" * 12])
def test_a_foreign_session_id_is_refused(sid: str):
    for make in (keys.ledger_in, keys.stop, keys.runners):
        with pytest.raises(WireError):
            make(sid)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "-a", "a" * 129, "ä"])
def test_a_runner_with_an_odd_name_is_refused(name: str):
    with pytest.raises(WireError):
        keys.runner(SID, name)


@pytest.mark.parametrize("pool", ["", "GPU", "a.b", "a:b", "a" * 33, "a\n"])
def test_a_pool_with_an_odd_name_is_refused(pool: str):
    with pytest.raises(WireError):
        keys.queue_name(pool)


@pytest.mark.parametrize("key", ["", "a b", "a\n", "k" * 201, "ä"])
def test_a_ledger_key_with_odd_characters_is_refused(key: str):
    assert not keys.is_ledger_key(key)
    with pytest.raises(WireError):
        keys.ack(SID, key)
