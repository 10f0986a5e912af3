"""Jobs and messages of another version, with a real Redis: set aside, said, and nobody stops."""

from __future__ import annotations

import json

import pytest
from tests.golden.make import VALUES, VERSIONS, golden

from overnight.contracts.errors import VersionError
from overnight.contracts.rows import Ack
from overnight.contracts.wire import decode, encode
from overnight.jobqueue import keys
from overnight.jobqueue.connection import connect
from overnight.jobqueue.deadjobs import DeadJobs
from overnight.jobqueue.jobs import Jobs, Parked
from overnight.jobqueue.stream import LedgerInbox, LedgerSender

SID = "0123456789ab"
LIST = "rq:queue:experiments.default"


def plant(client, id: int, payload: str) -> None:
    """As an orchestrator of another version would push it."""
    data = json.dumps(["overnight.experiment", None, [payload], {}])
    client.hset(f"rq:job:{SID}-{id}-1", mapping={"data": data, "origin": "experiments.default"})
    client.rpush(LIST, f"{SID}-{id}-1")


def test_a_job_of_another_version_is_parked_and_the_worker_goes_on(
    redis_server, start_worker, make_job, wait_until
):
    client, connection = redis_server.client(), connect(redis_server.url)
    plant(client, 1, golden("job", -1))
    plant(client, 2, golden("job", 1))
    Jobs(connection).push("default", make_job(3))
    worker = start_worker()
    wait_until(lambda: 3 in worker.ids)

    assert worker.ids == [3], "neither was tried"
    assert worker.died is None
    newer, older = DeadJobs(connection, SID).all()
    assert (newer.attempt.id, older.attempt.id) == (2, 1)
    known = VERSIONS["job"]
    said = [entry.parked.reason.partition(" version")[0] for entry in (newer, older)]
    assert said == [
        f"ExperimentJob v{known + 1} was written by a newer",
        f"ExperimentJob v{known - 1} was written by an older",
    ]
    assert newer.parked.at
    assert client.llen(LIST) == 0, "and is not tried for ever"
    for entry in (newer, older):
        with pytest.raises(VersionError):
            entry.job()


def test_a_parked_job_that_is_readable_by_now_is_pushed_again_once(
    redis_server, start_worker, make_job, wait_until
):
    """As after the runners got the release that wrote it. rq still has its note of the failure."""
    connection = connect(redis_server.url)
    jobs, dead = Jobs(connection), DeadJobs(connection, SID)
    job = make_job(5)
    jobs.push("default", job)
    assert jobs.queued("default") == {(SID, 5, 1)}
    redis_server.client().delete(LIST)
    jobs.park(Parked(job=f"{SID}-5-1", pool="default", reason="r", payload=encode(job)))

    (entry,) = dead.all()
    for _ in range(2):
        dead.push(entry, entry.job())

    assert dead.all() == []
    assert redis_server.client().lrange(LIST, 0, -1) == [f"{SID}-5-1".encode()]
    worker = start_worker()
    wait_until(lambda: worker.ids == [5])


def test_parked_jobs_of_other_sessions_are_theirs_and_damaged_entries_are_shown(redis_server):
    client, connection = redis_server.client(), connect(redis_server.url)
    jobs, dead = Jobs(connection), DeadJobs(connection, SID)
    for name in ("f" * 12 + "-1-1", f"{SID}-1-1", "no id"):
        jobs.park(Parked(job=name, pool="default", reason="r", payload=""))
    client.lpush(keys.PARKED, b"\xff{", golden("parked", 1).encode())

    found = dead.all()

    assert [e.parked.job for e in found] == ["", "", "no id", f"{SID}-1-1"]
    assert "newer version" in found[0].parked.reason
    assert "not strict JSON" in found[1].parked.reason
    assert len({e.ref for e in found}) == 4
    assert all(dead.drop(entry) for entry in found)
    assert not dead.drop(found[0])
    assert dead.all() == []
    assert client.llen(keys.PARKED) == 1, "the other session's"


@pytest.mark.parametrize("step", [-1, 1])
def test_a_message_of_another_version_is_answered_with_what_is_wrong(redis_server, step):
    connection = connect(redis_server.url)
    key = VALUES["message"][1]["key"]
    fields = {"key": key, "message": golden("message", step)}
    redis_server.client().xadd(keys.ledger_in(SID), fields)
    inbox = LedgerInbox(connection, SID)

    (entry,) = inbox.read(8, 0.5)
    assert entry.message is None
    assert entry.problem.startswith(f"LedgerMessage v{VERSIONS['message'] + step} was written by a")
    inbox.acknowledge(entry, entry.key, Ack(refused=True, reason=entry.problem))

    ack = LedgerSender(connection, SID).ack(key)
    assert ack.refused
    assert "finish this session with the version that wrote it" in ack.reason
    assert inbox.read(8, 0.05) == []


def test_an_ack_of_another_version_counts_as_none(redis_server):
    """The message stays where it is and is sent again."""
    redis_server.client().set(keys.ack(SID, "k"), golden("ack", 1))

    assert LedgerSender(connect(redis_server.url), SID).ack("k") is None
    assert decode(Ack, golden("ack")).refused
