"""All of this room works for a Redis user without @scripting, @dangerous and @admin."""

from __future__ import annotations

import pytest
from redis.exceptions import NoPermissionError

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind
from overnight.jobqueue.connection import connect, edge
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs
from overnight.jobqueue.lease import Leases, Renewal
from overnight.jobqueue.stream import LedgerInbox, LedgerSender

SID = "0123456789ab"


@pytest.fixture
def narrow_url(redis_server) -> str:
    """A URL for a user with few rights; the server's own default user keeps all."""
    redis_server.client().execute_command(
        "ACL", "SETUSER", "narrow", "on", ">secret", "~rq:*", "~overnight:*", "resetchannels",
        "+@all", "-@scripting", "-@dangerous", "-@admin",
    )  # fmt: skip
    return f"unix://narrow:secret@{redis_server.socket}?db=0"


def test_a_narrow_user_can_do_everything(
    redis_server, narrow_url, start_worker, make_job, wait_until
):
    connection = connect(narrow_url)
    for forbidden in ("EVAL 'return 1' 0", "FLUSHALL", "INFO", "KEYS *", "CLIENT LIST"):
        with pytest.raises(NoPermissionError):
            connection.execute_command(*forbidden.split(" "))
    admin = redis_server.client()
    admin.execute_command("ACL", "LOG", "RESET")
    jobs, leases, flags = Jobs(connection), Leases(connection, SID), Flags(connection)
    sender, inbox = LedgerSender(connection, SID), LedgerInbox(connection, SID)

    def work(job) -> None:
        assert leases.claim(job.id, job.attempt, "slot-0")
        assert leases.renew(job.id, job.attempt, "slot-0") is Renewal.HELD
        assert leases.release(job.id, job.attempt, "slot-0")

    worker = start_worker(url=narrow_url, on_job=work)
    jobs.push("default", make_job(1))
    wait_until(lambda: worker.ids == [1])
    worker.stop()
    assert worker.died is None

    jobs.push("default", make_job(2))
    assert jobs.queued("default") == {(SID, 2, 1)}
    assert jobs.remove("default", SID, 2, 1)
    assert jobs.parked() == []
    flags.set_stop(SID)
    flags.clear_stop(SID)
    flags.beat(SID, "slot-0", 60)
    assert flags.runners(SID) == ["slot-0"]
    sender.send(LedgerMessage(key="k", kind=RowKind.CONTROL, body={}))
    [entry] = inbox.read(10, 0.1)
    inbox.acknowledge(entry, entry.key, Ack(seq=1))
    assert sender.send_until_acked(entry.message, stop=lambda: False, deadline_seconds=5) == Ack(
        seq=1
    )
    # Nothing was even tried in vain: such a try would stand in the server's security log.
    assert admin.execute_command("ACL", "LOG") == []


def test_a_refused_command_is_our_error_and_names_the_acl(narrow_url):
    connection = connect(narrow_url)

    with pytest.raises(InfrastructureError, match="ACL"), edge("reading the server's facts"):
        connection.info()


def test_a_wrong_password_is_our_error(redis_server, narrow_url):
    connection = connect(narrow_url.replace("secret", "guess"))

    with pytest.raises(InfrastructureError):
        Flags(connection).is_stopping(SID)
