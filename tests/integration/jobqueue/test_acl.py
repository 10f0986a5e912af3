"""The users of config/redis.acl: each service's whole work, and nothing beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from redis.exceptions import AuthenticationError, NoPermissionError

from guarded_redis import USERS, GuardedRedis
from overnight.contracts.errors import ConfigError, InfrastructureError, WireError
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.status import RowKind
from overnight.contracts.wire import encode
from overnight.jobqueue import keys
from overnight.jobqueue.connection import Client, connect
from overnight.jobqueue.deadjobs import DeadJobs
from overnight.jobqueue.flags import Flags
from overnight.jobqueue.jobs import Jobs, Parked
from overnight.jobqueue.lease import Leases, Renewal
from overnight.jobqueue.stream import LedgerInbox, LedgerSender

SID = "0123456789ab"
POOL = f"default-{SID}"
KEY = "control:0001"
MESSAGE = LedgerMessage(key=KEY, kind=RowKind.CONTROL, body={})

As = Callable[[str], Client]


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedRedis]:
    with GuardedRedis() as server:
        yield server


@pytest.fixture(autouse=True)
def _empty(guarded: GuardedRedis) -> None:
    admin = guarded.client()
    admin.flushall()
    admin.execute_command("ACL", "LOG", "RESET")


@pytest.fixture
def log_in_as(guarded: GuardedRedis, monkeypatch: pytest.MonkeyPatch) -> As:
    """A connection as a service gets it: from its environment."""

    def log_in(user: str) -> Client:
        for name, value in guarded.environ(user).items():
            monkeypatch.setenv(name, value)
        return connect(guarded.url)

    return log_in


def _work_of_an_orchestrator(connection: Client, make_job) -> None:
    jobs, flags, leases = Jobs(connection), Flags(connection), Leases(connection, SID)
    assert jobs.push(POOL, make_job(1))
    assert jobs.push(POOL, make_job(2))
    assert not jobs.push(POOL, make_job(2))
    assert jobs.queued(POOL) == {(SID, 1, 1), (SID, 2, 1)}
    assert jobs.depth(POOL) == 2
    assert jobs.remove(POOL, SID, 2, 1)
    assert leases.owner(1, 1) is None
    assert flags.swap_mark(SID, "queue", "m1", ttl_seconds=60) is None
    assert flags.swap_mark(SID, "queue", "m2", ttl_seconds=60) == "m1"
    flags.set_stop(SID)
    flags.clear_stop(SID)


def test_an_orchestrator_can_do_its_work(guarded, log_in_as, make_job):
    connection = log_in_as("orchestrator")
    _work_of_an_orchestrator(connection, make_job)
    # A lease that would never end, as after a jump of the server's clock, is cut down.
    guarded.client().set(keys.lease(SID, 9, 1), "r0 15000")
    assert Leases(connection, SID).owner(9, 1) == "r0"
    _ask_for_a_row(connection, guarded, log_in_as)

    assert guarded.denials() == []


def _ask_for_a_row(sender: Client, guarded: GuardedRedis, log_in_as: As) -> None:
    """Sent, looked after, answered by the recorder, the answer read."""
    asks = LedgerSender(sender, SID)
    asks.send(MESSAGE)
    asks.send(MESSAGE)  # waits still: only looked after
    inbox = LedgerInbox(log_in_as("recorder"), SID)
    [entry] = inbox.read(64, 0.05)
    inbox.acknowledge(entry, entry.key, Ack(seq=7))

    assert asks.send_until_acked(MESSAGE, stop=lambda: False, deadline_seconds=5) == Ack(seq=7)


def test_a_recorder_can_do_its_work(guarded, log_in_as):
    runner = log_in_as("runner")
    Flags(runner).beat(SID, "r0", 60)
    Flags(runner).beat(SID, "r1", 60)
    guarded.client().delete(keys.runner(SID, "r1"))  # one that died
    recorder = log_in_as("recorder")

    assert Flags(recorder).runners(SID) == ["r0"]
    assert Jobs(recorder).depth(POOL) == 0
    assert LedgerInbox(recorder, SID).read(64, 0.0) == []
    assert guarded.denials() == []


def test_a_runner_can_do_its_work(guarded, log_in_as, make_job, start_worker, wait_until):
    """Jobs that go well, fail and are poison; leases; a beat; a result that is sent and acked."""
    admin = guarded.client()
    orchestrator = log_in_as("orchestrator")
    for id in (1, 2, 3):
        Jobs(orchestrator).push("default", make_job(id))
    admin.rpush("rq:queue:experiments.default", "poison")
    runner = log_in_as("runner")
    leases, flags = Leases(runner, SID), Flags(runner)

    def work(job) -> None:
        assert leases.claim(job.id, job.attempt, "r0")
        assert leases.renew(job.id, job.attempt, "r0") is Renewal.HELD
        admin.delete(keys.lease(SID, job.id, job.attempt))  # a flush
        assert leases.renew(job.id, job.attempt, "r0") is Renewal.HELD
        assert leases.release(job.id, job.attempt, "r0")
        if job.id == 2:
            raise WireError("poison")
        if job.id == 3:
            raise InfrastructureError("told to end")

    worker = start_worker(url=guarded.url, on_job=work)
    wait_until(lambda: worker.ids == [1, 2, 3] and admin.llen(keys.PARKED) == 2)
    flags.beat(SID, "r0", 60)
    assert not flags.is_stopping(SID)
    worker.stop()
    _ask_for_a_row(runner, guarded, log_in_as)

    assert worker.died is None
    assert guarded.denials() == []


def test_a_runner_goes_on_with_what_its_predecessor_took(
    guarded, log_in_as, make_job, start_worker, wait_until
):
    admin = guarded.client()
    Jobs(log_in_as("orchestrator")).push("default", make_job(1))
    taken = "rq:queue:experiments.default:intermediate:slot-0"
    admin.lmove("rq:queue:experiments.default", taken)
    admin.sadd("rq:workers:experiments.default", "rq:worker:dead")
    log_in_as("runner")

    worker = start_worker(url=guarded.url)
    wait_until(lambda: worker.ids == [1])
    worker.stop()

    assert guarded.denials() == []


def test_a_persons_verbs_can_do_their_work(guarded, log_in_as, make_job):
    runner = Jobs(log_in_as("runner"))
    parked = Parked(job=f"{SID}-1-1", pool=POOL, reason="r", payload=encode(make_job(1)))
    runner.park(parked)
    runner.park(parked.model_copy(update={"job": f"{SID}-2-1"}))
    cli = log_in_as("cli")
    dead = DeadJobs(cli, SID)
    first, second = dead.all()
    dead.push(second, second.job())
    dead.drop(first)
    _ask_for_a_row(cli, guarded, log_in_as)

    assert dead.all() == []
    assert guarded.denials() == []


FORBIDDEN = (
    "FLUSHALL", "FLUSHDB", "EVAL return(1) 0", "EVALSHA 0 0", "SCRIPT LOAD return(1)",
    "FUNCTION LIST", "CONFIG GET *", "CONFIG SET dir /", "KEYS *", "SCAN 0", "INFO",
    "CLIENT LIST", "CLIENT KILL ID 1", "ACL LIST", "ACL WHOAMI", "MONITOR", "SAVE", "BGREWRITEAOF",
    "SHUTDOWN", "REPLICAOF 127.0.0.1 1", "MODULE LIST", "SLOWLOG GET", "SUBSCRIBE overnight",
    "PUBLISH overnight x", "GET foreign", "SET foreign 1", "SET overnight:parked 1",
    "DEL rq:queue:experiments.default", "MIGRATE 127.0.0.1 1 k 0 1", "DUMP rq:job:1",
    "SORT rq:queues", "RENAME rq:job:1 rq:job:2", "OBJECT ENCODING rq:job:1",
)  # fmt: skip
ONLY_ONE_MAY = {
    f"SET overnight:{SID}:ack:k 1": "recorder",
    f"XREAD COUNT 1 STREAMS overnight:{SID}:ledger.in 0": "recorder",
    f"XDEL overnight:{SID}:ledger.in 1-1": "recorder",
    f"SET overnight:{SID}:lease:1:1 r0": "runner",
    "BLMOVE rq:queue:experiments.p rq:queue:experiments.p:i LEFT RIGHT 0.01": "runner",
    f"SET overnight:{SID}:stop 1": "orchestrator",
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("command", FORBIDDEN)
def test_no_service_may(guarded, user, command):
    with guarded.client(user) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split(" "))


@pytest.mark.parametrize("command", ONLY_ONE_MAY)
def test_only_one_service_may(guarded, command):
    allowed = set()
    for user in USERS:
        with guarded.client(user) as client:
            try:
                client.execute_command(*command.split(" "))
                allowed.add(user)
            except NoPermissionError:
                pass

    assert allowed == {ONLY_ONE_MAY[command]}


def test_nobody_gets_in_without_a_name(guarded):
    with redis.Redis.from_url(guarded.url, protocol=2) as nobody:
        for command in ("PING", "GET x", "AUTH x", "AUTH default x"):
            with pytest.raises(AuthenticationError):
                nobody.execute_command(*command.split(" "))


def test_the_servers_file_of_users_holds_no_password(guarded):
    written = guarded.users_file.read_text()

    assert guarded.users_file.stat().st_mode & 0o77 == 0
    assert written.count("#") == len(USERS) + 1
    assert "PASSWORD" not in written
    for user in USERS:
        assert guarded.password(user) not in written
        assert guarded.password(user) not in guarded.log()


def test_a_wrong_password_is_one_line_that_names_the_fix(guarded, log_in_as, tmp_path, monkeypatch):
    log_in_as("runner")
    wrong = tmp_path / "redis_runner"
    wrong.write_text("guessed-guessed-guessed\n")
    monkeypatch.setenv("OVERNIGHT_REDIS_PASSWORD_FILE", str(wrong))

    with pytest.raises(InfrastructureError) as caught:
        Flags(connect(guarded.url)).is_stopping(SID)

    assert "OVERNIGHT_REDIS_PASSWORD_FILE" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "guessed" not in str(caught.value)


def test_a_password_may_change_while_a_service_runs(guarded, log_in_as, tmp_path, monkeypatch):
    log_in_as("cli")
    file = tmp_path / "redis_cli"
    file.write_text("of-yesterday-of-yesterday")
    monkeypatch.setenv("OVERNIGHT_REDIS_PASSWORD_FILE", str(file))
    connection = connect(guarded.url)
    with pytest.raises(InfrastructureError):
        LedgerSender(connection, SID).ack(KEY)
    file.write_text(guarded.password("cli"))

    assert LedgerSender(connection, SID).ack(KEY) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [("", "must hold one line"), ("a\nb", "must hold one line"), (None, "No such file")],
)
def test_a_password_file_that_is_none_ends_with_one_line(
    guarded, log_in_as, tmp_path, monkeypatch, content, why
):
    log_in_as("cli")
    file = tmp_path / "redis_cli"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("OVERNIGHT_REDIS_PASSWORD_FILE", str(file))

    with pytest.raises(ConfigError, match=why):
        connect(guarded.url)


def test_a_password_never_goes_to_another_server(guarded, log_in_as, redis_server):
    log_in_as("cli")

    # That server knows no users: a password would be refused there.
    assert Flags(connect(redis_server.url)).is_stopping(SID) is False


def test_a_user_and_a_url_that_names_one_contradict_each_other(guarded, log_in_as, monkeypatch):
    log_in_as("cli")
    url = "redis://me:secret@127.0.0.1:1/0"
    monkeypatch.setenv("REDIS_URL", url)

    with pytest.raises(ConfigError, match="keep one") as caught:
        connect(url)
    assert "secret" not in str(caught.value)
