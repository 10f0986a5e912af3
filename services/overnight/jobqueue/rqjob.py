"""The only rq job that there is: a constant function and one string. Nothing in Redis is trusted.

Plain rq takes the name of the function, of three callbacks and a list of web addresses from
Redis, and imports or calls them. Here the bytes are checked whole, and all but the string and
the timeout is ignored.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import redis
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer

from overnight.contracts.errors import WireError
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.wire import MAX_MESSAGE_BYTES, check_version_of, loads
from overnight.jobqueue import keys

FUNCTION = "overnight.experiment"  #: stands where rq names a function; never imported
RESULT_TTL_SECONDS = 60  #: rq's own note that it went well; the ledger is the record
FAILURE_TTL_SECONDS = 3600
QUEUED_TTL_SECONDS = 7 * 24 * 3600
GRACE_SECONDS = 600  #: on top of the deadline, which a runner enforces itself
LONGEST_TIMEOUT_SECONDS = 2 * 10**7


class ExperimentRqJob(Job):
    """One attempt in rq's clothes. A worker sets `handler` before it runs it."""

    def __init__(
        self, id: str | None = None, connection: redis.Redis | None = None, serializer: Any = None
    ) -> None:
        # Whatever serializer rq passes along, it never becomes pickle, which is rq's default.
        super().__init__(id, connection, serializer=JSONSerializer)
        self.handler: Callable[[str], None] | None = None
        self.ran = False  #: the handler was called
        self.finished = False  #: Redis says that a worker has run it to its end
        self.error: BaseException | None = None  #: what it raised; rq itself swallows everything

    @property
    def payload(self) -> str:
        """The one string argument."""
        return str(self.args[0])

    def restore(self, raw_data: Mapping[bytes, bytes]) -> None:
        """Take what Redis holds, and refuse anything but our own shape.

        Raises:
            NoSuchJobError: there is no job under this id.
            WireError: it is not one of ours.
        """
        if b"data" not in raw_data:
            raise NoSuchJobError(f"no job under {self.id}")
        self.data = _inflate(raw_data[b"data"])
        self._deserialize_data()
        self.timeout = _timeout(raw_data.get(b"timeout", b"%d" % GRACE_SECONDS))
        self.description = self.id
        self.result_ttl = RESULT_TTL_SECONDS
        self.failure_ttl = FAILURE_TTL_SECONDS
        self.ttl = QUEUED_TTL_SECONDS
        self.finished = raw_data.get(b"status") == JobStatus.FINISHED.value.encode()
        self._status = JobStatus.QUEUED

    def _deserialize_data(self) -> None:
        try:
            text = self.data.decode("ascii")
        except UnicodeDecodeError as error:
            raise WireError("job is not ASCII JSON") from error
        match loads(text, "job"):
            case [str(name), None, [str(payload)], {**named}] if name == FUNCTION and not named:
                self._func_name, self._instance = FUNCTION, None
                self._args, self._kwargs = (payload,), {}
            case _:
                raise WireError(f"job is not [{FUNCTION!r}, null, [text], {{}}]")

    def perform(self) -> None:
        """Run the handler. The key keeps its end: a killed runner leaves nothing for ever."""
        keep_seconds = int(self.timeout or GRACE_SECONDS) + FAILURE_TTL_SECONDS
        self.connection.expire(self.key, keep_seconds)
        self._execute()

    def _execute(self) -> None:
        if self.handler is None:
            raise WireError("an experiment runs in a pool worker only")
        self.ran = True
        try:
            self._check_id()
            self.handler(self.payload)
        except BaseException as error:
            self.error = error
            raise

    def _check_id(self) -> None:
        """The attempt that waits under this id is the one that runs.

        Raises:
            VersionError: another version wrote it.
            WireError: the text names another: a copy, or a forged one.
        """
        plain = loads(self.payload, "job")
        if not isinstance(plain, dict):
            return  # the handler says what is wrong with it
        check_version_of(ExperimentJob, plain)  # of another version no field is known
        named = (plain.get("sid"), plain.get("id"), plain.get("attempt"))
        if named != keys.parse_job_id(self.id):
            raise WireError(f"the text under {self.id} is of another attempt: {named}"[:200])

    @property
    def func(self) -> Callable[[str], None] | None:
        return self.handler

    @property
    def success_callback(self) -> None:
        return None

    @property
    def failure_callback(self) -> None:
        return None

    @property
    def stopped_callback(self) -> None:
        return None

    @property
    def should_retry(self) -> bool:
        return False

    def send_webhooks(self, status: str | JobStatus, *, exc_string: str | None = None) -> None:
        """Never: an address that stands in Redis is not ours."""


class ExperimentQueue(Queue):
    """A pool's rq queue, without what needs more rights or knows other jobs."""

    job_class = ExperimentRqJob

    def __init__(self, name: str, connection: redis.Redis, **_: Any) -> None:
        super().__init__(
            name, connection=connection, job_class=ExperimentRqJob, serializer=JSONSerializer
        )
        self.worker: str | None = None  #: whose queue object this is

    @property
    def intermediate_queue_key(self) -> str:
        """Where a taken job stands until it is started: a list for each worker.

        So a worker finds what it took without knowing, because the answer was lost or because its
        predecessor was killed then; nobody else starts it meanwhile.
        """
        shared = str(super().intermediate_queue_key)
        return shared if self.worker is None else f"{shared}:{self.worker}"

    def get_redis_server_version(self) -> tuple[int, int, int]:
        # rq asks by INFO, which is @dangerous in an ACL. BLMOVE came with 6.2, and we need it.
        return (6, 2, 0)

    def enqueue_dependents(self, *_: Any, **__: Any) -> None:
        """Our jobs have none; a planted set of them starts nothing."""


def pool_queue(connection: redis.Redis, pool: str) -> ExperimentQueue:
    """The rq queue of *pool*. Raises WireError for a name that can't be one."""
    return ExperimentQueue(keys.queue_name(pool), connection)


def _inflate(raw: bytes) -> bytes:
    """rq's compressed or plain bytes, never longer than a message may be."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(raw, MAX_MESSAGE_BYTES + 1)
    except zlib.error:
        data = raw
    if len(data) > MAX_MESSAGE_BYTES:
        raise WireError(f"job is longer than {MAX_MESSAGE_BYTES} bytes")
    return data


def _timeout(raw: bytes) -> int:
    if not raw.isdigit() or len(raw) > 9 or not 1 <= int(raw) <= LONGEST_TIMEOUT_SECONDS:
        raise WireError(f"job's timeout {raw[:20]!r} is not a whole number of seconds")
    return int(raw)
