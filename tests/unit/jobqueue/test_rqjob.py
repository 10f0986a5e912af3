"""What Redis holds under a job's name becomes a string, or nothing at all."""

from __future__ import annotations

import json
import pickle
import sys
import tracemalloc
import zlib
from functools import cache

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from rq.exceptions import NoSuchJobError

from overnight.contracts.errors import WireError
from overnight.jobqueue.connection import connect
from overnight.jobqueue.rqjob import FUNCTION, ExperimentRqJob

ID = "0123456789ab-1-1"


@cache
def no_redis() -> redis.Redis:
    """A client that is never used; rq wants one."""
    return connect("unix:///nowhere?db=0")


def restored(data: bytes, **fields: bytes) -> ExperimentRqJob:
    job = ExperimentRqJob(ID, no_redis())
    job.restore({b"data": data, **{name.encode(): value for name, value in fields.items()}})
    return job


def shape(name: str = FUNCTION, payload: str = "text") -> bytes:
    return json.dumps([name, None, [payload], {}]).encode()


@given(st.text())
def test_a_job_of_ours_yields_its_string(payload: str):
    data = shape(payload=payload)

    assert restored(data).payload == payload
    assert restored(zlib.compress(data)).payload == payload


@given(st.binary() | st.text().map(lambda text: shape(name=text)))
def test_any_other_bytes_are_refused(data: bytes):
    with pytest.raises(WireError):
        restored(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_any_other_json_is_refused(value: object):
    with pytest.raises(WireError):
        restored(json.dumps(value).encode())


def test_nothing_of_rqs_other_fields_is_taken():
    job = restored(
        shape(),
        timeout=b"700",
        success_callback_name=b"antigravity.fly",
        failure_callback_name=b"antigravity.fly",
        stopped_callback_name=b"antigravity.fly",
        webhooks=b'[{"url":"http://localhost/","job_status":"finished"}]',
        dependency_ids=b'["x"]',
        retries_left=b"3",
        repeats_left=b"3",
        group_id=b"g",
        meta=pickle.dumps({"x": 1}),
        result=pickle.dumps(1),
        result_ttl=b"-1",
        ttl=b"garbage",
        created_at=b"garbage",
        status=b"garbage",
        origin=b"elsewhere",
    )

    assert job.timeout == 700
    assert (job.success_callback, job.failure_callback, job.stopped_callback) == (None,) * 3
    assert (job.webhooks, job.meta, job.repeats_left, job.group_id) == ([], {}, None, None)
    assert not job.should_retry
    assert (job.result_ttl, job.failure_ttl, job.ttl) == (60, 3600, 7 * 86400)
    assert job.func_name == FUNCTION
    assert "antigravity" not in sys.modules


def test_its_function_is_the_handler_and_never_a_name():
    job = restored(shape())
    assert job.func is None
    with pytest.raises(WireError, match="pool worker only"):
        job._execute()

    job.func_name = "os.system"  # as rq's own setter allows
    calls: list[str] = []
    job.handler = calls.append
    assert job.func == calls.append


@pytest.mark.parametrize("timeout", [b"", b"0", b"-1", b"1h", b"99999999", b"1" * 5000, b"\xff"])
def test_a_timeout_without_bounds_is_refused(timeout: bytes):
    with pytest.raises(WireError, match="timeout"):
        restored(shape(), timeout=timeout)


def test_a_compressed_bomb_is_not_unpacked():
    bomb = zlib.compress(b" " * 50_000_000)
    tracemalloc.start()
    with pytest.raises(WireError, match="longer"):
        restored(bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 20_000_000


def test_a_key_without_data_is_no_job():
    with pytest.raises(NoSuchJobError):
        ExperimentRqJob(ID, no_redis()).restore({b"status": b"queued"})
