"""The one way to the ledger: senders put messages into a stream, the recorder answers by key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import redis
import structlog

from overnight.contracts.errors import InfrastructureError, WireError
from overnight.contracts.rows import Ack, LedgerMessage
from overnight.contracts.wire import MAX_MESSAGE_BYTES, decode, encode
from overnight.faultpoints import Step, reach
from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, text_of

log = structlog.get_logger()

ACK_TTL_SECONDS = 600  #: whoever missed it sends again and gets the same
STREAM_ENTRIES = 10_000  #: about; older ones are cut off, and sent again by whoever waits
STREAM_TTL_SECONDS = 7 * 24 * 3600  #: from the last message; one that waits is sent again
FASTEST_POLL_SECONDS = 0.002
SLOWEST_POLL_SECONDS = 0.05
SLOWEST_RETRY_SECONDS = 2.0  #: between two tries while Redis is away
LONGEST_BLOCK_SECONDS = 2.0  #: well under the socket's own limit


class LedgerSender:
    """One sender's side. It holds a message until the ack is there; Redis may forget all."""

    def __init__(self, connection: redis.Redis, sid: str) -> None:
        self._redis = connection
        self._sid = sid
        self._stream = keys.ledger_in(sid)
        self._sent: tuple[str, str] | None = None  #: (key, entry) of the last `send`

    def send(self, message: LedgerMessage) -> str:
        """Put *message* into the stream, unless it still waits there; returns its entry id.

        Raises:
            WireError: longer than the cap; it could never be read.
            InfrastructureError: Redis did not take it, or may have.
        """
        text = _encoded(message)
        if (
            self._sent is None
            or self._sent[0] != message.key
            or not self._still_waits(self._sent[1])
        ):
            self._sent = (message.key, self._add(message.key, text))
        return self._sent[1]

    def ack(self, key: str) -> Ack | None:
        """The recorder's answer to *key*, if there is one. An unreadable one counts as none."""
        name = keys.ack(self._sid, key)
        with edge("reading an ack", name):
            raw = self._redis.get(name)
        if raw is None:
            return None
        try:
            return decode(Ack, text_of(raw))
        except WireError as error:
            log.warning("ack_unreadable", key=key, error=str(error))
            return None

    def send_until_acked(
        self,
        message: LedgerMessage,
        *,
        resend_seconds: float = 2.0,
        stop: Callable[[], bool],
        deadline_seconds: float | None,
        on_wait: Callable[[str | None], None] = lambda why: None,
    ) -> Ack:
        """Send, and send again whenever it got lost, until the recorder answered.

        Outlives a Redis that is down, restarts empty or is flushed. A message that still waits
        in the stream is not sent twice. A refusal is an answer too: look at `refused`.

        on_wait: told why Redis does not take it, from the second failure in a row on, and None when
        it does again.

        Raises:
            WireError: longer than the cap.
            InfrastructureError: not acked within *deadline_seconds*, or *stop* said so. The
                message may still become a row: keep it and send it again later.
        """
        text = _encoded(message)
        started = time.monotonic()
        entry: str | None = None
        next_check = poll = pause = 0.0
        failures = 0
        while True:
            try:
                ack = self.ack(message.key)
                if failures > 1:
                    on_wait(None)
                failures = 0
                if ack is not None:
                    return ack
                if time.monotonic() >= next_check:
                    # A new check of the ack follows each re-send, so a crossing costs nothing:
                    # the recorder answers a key that it has with the same ack.
                    if entry is None or not self._still_waits(entry):
                        entry = self._add(message.key, text)
                        reach(Step.RUNNER_SENT)
                        poll = 0.0
                    next_check = time.monotonic() + resend_seconds
                poll = pause = min(max(FASTEST_POLL_SECONDS, poll * 1.3), SLOWEST_POLL_SECONDS)
            except InfrastructureError as error:
                failures += 1
                if failures == 2:
                    on_wait(str(error))
                if pause <= SLOWEST_POLL_SECONDS:
                    log.warning("ledger_send_waits", key=message.key, error=str(error))
                pause = min(max(2 * SLOWEST_POLL_SECONDS, pause * 2), SLOWEST_RETRY_SECONDS)
                next_check = 0.0
            self._wait(message.key, pause, started, stop, deadline_seconds)

    @staticmethod
    def _wait(
        key: str,
        seconds: float,
        started: float,
        stop: Callable[[], bool],
        deadline_seconds: float | None,
    ) -> None:
        if stop():
            raise InfrastructureError(f"stopped before the recorder acked {key}")
        if deadline_seconds is not None:
            left = started + deadline_seconds - time.monotonic()
            if left <= 0:
                raise InfrastructureError(
                    f"the recorder did not ack {key} within {deadline_seconds:g} s;"
                    " does one run for this session?"
                )
            seconds = min(seconds, left)
        time.sleep(seconds)

    def _add(self, key: str, text: str) -> str:
        with (
            edge("sending to the ledger", self._stream),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            pipe.xadd(
                self._stream, {"key": key, "message": text}, maxlen=STREAM_ENTRIES, approximate=True
            )
            pipe.expire(self._stream, STREAM_TTL_SECONDS)
            return text_of(pipe.execute()[0])

    def _still_waits(self, entry: str) -> bool:
        with edge("looking after a sent message", self._stream):
            if not self._redis.xlen(self._stream):
                return False
            return bool(self._redis.xrange(self._stream, min=entry, max=entry, count=1))


@dataclass(frozen=True)
class Entry:
    """One stream entry. Exactly one of `message` and `problem` is there."""

    entry_id: str
    key: str | None  #: where to answer; None when not even that is readable
    message: LedgerMessage | None
    problem: str | None  #: one line: why it can't be read


class LedgerInbox:
    """The recorder's side. One consumer only: entries stay until they are acknowledged."""

    def __init__(self, connection: redis.Redis, sid: str) -> None:
        self._redis = connection
        self._sid = sid
        self._stream = keys.ledger_in(sid)

    def read(self, count: int, block_seconds: float) -> list[Entry]:
        """The oldest entries that nobody acknowledged, oldest first; empty after the wait.

        Always from the start: what is done is deleted, so a recorder that died in between
        finds the rest again. Waits at most 2 seconds.

        Raises:
            InfrastructureError: Redis did not answer.
        """
        block = min(block_seconds, LONGEST_BLOCK_SECONDS)
        with edge("reading the ledger stream", self._stream):
            answer: Any = self._redis.xread(
                {self._stream: "0-0"},
                count=count,
                block=max(1, int(block * 1000)) if block > 0 else None,
            )
        return [
            _entry(text_of(entry_id), fields or {})
            for _, entries in answer or ()
            for entry_id, fields in entries
        ]

    def waiting(self) -> int:
        """How many entries nobody acknowledged yet. Raises InfrastructureError."""
        with edge("counting the ledger stream", self._stream):
            return int(self._redis.xlen(self._stream))

    def acknowledge(self, entry: Entry, key: str | None, ack: Ack) -> None:
        """Answer *key*, then drop the entry. Call it only after the row is on the disk.

        Each alone is right, too: a sender without an answer sends again. So where memory is full
        and no answer can be written, the entry goes all the same and makes room for one.

        Raises:
            InfrastructureError: Redis did not take it; the message will be read again.
        """
        doing = "acknowledging a ledger message"
        with edge(doing), self._redis.pipeline(transaction=False) as pipe:
            if key is not None:
                pipe.set(keys.ack(self._sid, key), encode(ack), ex=ACK_TTL_SECONDS)
            pipe.xdel(self._stream, entry.entry_id)
            pipe.execute()


def _encoded(message: LedgerMessage) -> str:
    text = encode(message)
    if len(text) > MAX_MESSAGE_BYTES:
        raise WireError(
            f"message {message.key} is {len(text)} bytes long; at most {MAX_MESSAGE_BYTES} travel"
        )
    return text


def _entry(entry_id: str, fields: Mapping[bytes, bytes]) -> Entry:
    raw_key, raw = fields.get(b"key"), fields.get(b"message")
    named = text_of(raw_key) if raw_key is not None else ""
    key = named if keys.is_ledger_key(named) else None
    if raw is None:
        return Entry(entry_id, key, None, "the entry holds no message")
    try:
        message = decode(LedgerMessage, raw.decode("ascii"))
    except (WireError, UnicodeDecodeError) as error:
        return Entry(entry_id, key, None, str(error)[:500])
    if message.key != key:
        return Entry(entry_id, key, None, "the entry's key is not its message's key")
    return Entry(entry_id, key, message, None)
