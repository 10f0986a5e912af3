"""What a stranger with write access to Redis plants there: never run, never imported, set aside."""

from __future__ import annotations

import base64
import http.server
import json
import os
import pickle
import threading
import zlib

import pytest
from rq.job import Callback
from rq.queue import Queue
from rq.repeat import Repeat
from rq.serializers import JSONSerializer

from overnight.contracts.wire import encode
from overnight.jobqueue.connection import connect
from overnight.jobqueue.jobs import Jobs

SID = "0123456789ab"
LIST = "rq:queue:experiments.default"


class Touch:
    """Unpickling one makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def plant(client, id: int, data: bytes, **fields) -> None:
    client.hset(
        f"rq:job:{SID}-{id}-1",
        mapping={"data": data, "origin": "experiments.default", "status": "queued", **fields},
    )
    client.rpush(LIST, f"{SID}-{id}-1")


@pytest.fixture
def then_a_healthy_job_works(redis_server, start_worker, make_job, wait_until):
    """Start a worker on what was planted; it must live on and do the healthy job behind it."""

    def check():
        jobs = Jobs(connect(redis_server.url))
        jobs.push("default", make_job(1000))
        worker = start_worker()
        wait_until(lambda: 1000 in worker.ids)
        assert worker.thread.is_alive()
        assert worker.died is None
        return worker, jobs

    return check


def test_a_job_that_names_os_system_is_not_executed(
    redis_server, tmp_path, then_a_healthy_job_works
):
    """Plain rq with its JSON serializer does execute this one."""
    mark = tmp_path / "pwned"
    queue = Queue(
        "experiments.default", connection=redis_server.client(), serializer=JSONSerializer
    )
    queue.enqueue("os.system", f"touch {mark}", job_id=f"{SID}-1-1")

    worker, jobs = then_a_healthy_job_works()

    assert not mark.exists()
    assert worker.ids == [1000]
    assert [parked.job for parked in jobs.parked()] == [f"{SID}-1-1"]
    assert not redis_server.client().exists(f"rq:job:{SID}-1-1")


def test_a_pickle_is_not_loaded(redis_server, tmp_path, then_a_healthy_job_works):
    mark = tmp_path / "pwned"
    client = redis_server.client()
    plant(client, 1, zlib.compress(pickle.dumps(Touch(str(mark)))))
    plant(client, 2, pickle.dumps(("overnight.experiment", None, (Touch(str(mark)),), {})))

    worker, jobs = then_a_healthy_job_works()

    assert not mark.exists()
    assert worker.ids == [1000]
    assert len(jobs.parked()) == 2


def test_planted_pickles_beside_a_healthy_job_are_not_loaded(
    redis_server, tmp_path, make_job, then_a_healthy_job_works
):
    mark = tmp_path / "pwned"
    bomb = pickle.dumps(Touch(str(mark)))
    client = redis_server.client()
    data = JSONSerializer.dumps(["overnight.experiment", None, [encode(make_job(1))], {}])
    plant(client, 1, data, meta=bomb, result=bomb, exc_info=bomb, timeout="602")
    client.xadd(
        f"rq:results:{SID}-1-1", {"type": "1", "return_value": base64.b64encode(bomb).decode()}
    )

    worker, _ = then_a_healthy_job_works()

    assert not mark.exists()
    assert worker.ids == [1, 1000]


def test_planted_callbacks_are_not_called(
    redis_server, tmp_path, monkeypatch, make_job, then_a_healthy_job_works
):
    """Neither at success nor at failure, nor is the module that they name imported."""
    (tmp_path / "planted_callbacks.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'pwned')!r}).touch()\n"
        "def call(*args): pathlib.Path(__file__).with_name('called').touch()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    queue = Queue(
        "experiments.default", connection=redis_server.client(), serializer=JSONSerializer
    )
    for id, payload in ((1, encode(make_job(1))), (2, "poison for the handler")):
        queue.enqueue(
            "overnight.experiment",
            payload,
            job_id=f"{SID}-{id}-1",
            on_success=Callback("planted_callbacks.call"),
            on_failure=Callback("planted_callbacks.call"),
            on_stopped=Callback("planted_callbacks.call"),
        )

    worker, jobs = then_a_healthy_job_works()

    assert worker.ids == [1, 1000]
    assert [parked.job for parked in jobs.parked()] == [f"{SID}-2-1"]
    assert not (tmp_path / "pwned").exists()
    assert not (tmp_path / "called").exists()


def test_planted_webhooks_are_not_sent(redis_server, make_job, then_a_healthy_job_works):
    asked: list[str] = []

    class Listen(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), Listen) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        hooks = json.dumps(
            [{"url": url, "job_status": status} for status in ("finished", "failed")]
        )
        client = redis_server.client()
        for id, payload in ((1, encode(make_job(1))), (2, "poison for the handler")):
            data = JSONSerializer.dumps(["overnight.experiment", None, [payload], {}])
            plant(client, id, data, webhooks=hooks)
        worker, _ = then_a_healthy_job_works()
        server.shutdown()
        thread.join()

    assert worker.ids == [1, 1000]
    assert asked == []


def test_planted_retries_repeats_and_dependents_start_nothing(
    redis_server, make_job, wait_until, then_a_healthy_job_works
):
    queue = Queue(
        "experiments.default", connection=redis_server.client(), serializer=JSONSerializer
    )
    first = queue.enqueue(
        "overnight.experiment", encode(make_job(1)), job_id=f"{SID}-1-1", repeat=Repeat(times=3)
    )
    queue.enqueue(
        "overnight.experiment", encode(make_job(2)), job_id=f"{SID}-2-1", depends_on=first
    )
    data = JSONSerializer.dumps(["overnight.experiment", None, ["poison for the handler"], {}])
    plant(redis_server.client(), 3, data, retries_left="5")

    worker, jobs = then_a_healthy_job_works()
    jobs.push("default", make_job(1001))  # stands behind all that the first ones may have started
    wait_until(lambda: 1001 in worker.ids)

    assert worker.ids == [1, 1000, 1001]
    assert [parked.job for parked in jobs.parked()] == [f"{SID}-3-1"]
    assert not redis_server.client().exists("rq:scheduled:experiments.default")
    assert redis_server.client().hget(f"rq:job:{SID}-1-1", "status") == b"finished"


SHAPES: dict[str, tuple[bytes, dict[str, str]]] = {
    "not JSON": (b"{", {}),
    "no list": (b"7", {}),
    "two arguments": (b'["overnight.experiment",null,["a","b"],{}]', {}),
    "a number as argument": (b'["overnight.experiment",null,[1],{}]', {}),
    "a named argument": (b'["overnight.experiment",null,["a"],{"b":1}]', {}),
    "an instance": (b'["overnight.experiment",{"a":1},["a"],{}]', {}),
    "another function": (b'["overnight.experiments",null,["a"],{}]', {}),
    "deep": (b"[" * 100_000, {}),
    "not ASCII": (b"\xff\xfe\x00", {}),
    "a bomb": (zlib.compress(b"0" * 200_000_000, 1), {}),
    "a unit in its timeout": (b'["overnight.experiment",null,["a"],{}]', {"timeout": "1h"}),
    "a negative timeout": (b'["overnight.experiment",null,["a"],{}]', {"timeout": "-1"}),
}


def test_anything_of_another_shape_is_parked(redis_server, then_a_healthy_job_works):
    client = redis_server.client()
    for id, (data, fields) in enumerate(SHAPES.values(), start=1):
        plant(client, id, data, **fields)

    worker, jobs = then_a_healthy_job_works()

    assert worker.ids == [1000]
    parked = {entry.job for entry in jobs.parked()}
    for id, name in enumerate(SHAPES, start=1):
        assert f"{SID}-{id}-1" in parked, name
        assert not client.exists(f"rq:job:{SID}-{id}-1"), name
    assert not client.exists(f"{LIST}:intermediate")


def test_ids_and_keys_of_another_kind_do_not_stop_a_worker(redis_server, then_a_healthy_job_works):
    client = redis_server.client()
    client.rpush(LIST, "../../etc/passwd", b"\xff\xfe", "", "rq:job:x", f"{SID}-77-1")
    client.set(f"rq:job:{SID}-5-1", "a string")
    client.rpush(LIST, f"{SID}-5-1")
    client.set(f"rq:executions:{SID}-6-1", "a string")
    data = JSONSerializer.dumps(["overnight.experiment", None, ["never reached"], {}])
    plant(client, 6, data)

    worker, jobs = then_a_healthy_job_works()

    assert worker.ids == [1000]
    parked = {entry.job for entry in jobs.parked()}
    assert {f"{SID}-5-1", f"{SID}-6-1", "../../etc/passwd", "rq:job:x", ""} < parked
    assert f"{SID}-77-1" not in parked  # a plain id without a job, as after a removal
