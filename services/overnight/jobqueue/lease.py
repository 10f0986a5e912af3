"""Who runs an attempt: a Redis key that expires unless its owner renews it. No Lua."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import redis
import structlog
from redis.client import Pipeline
from redis.exceptions import WatchError

from overnight.contracts.errors import InfrastructureError
from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, text_of

log = structlog.get_logger()

LEASE_SECONDS = 15.0  #: renew each third of it
_TRIES = 20

T = TypeVar("T")


class Renewal(StrEnum):
    """What a renewal found. All but HELD: kill the sandbox, drop the attempt."""

    HELD = "held"  #: ours for another term (also where it was gone, and we took it again)
    FOREIGN = "foreign"  #: another runner's name stands there
    LOST = "lost"  #: it was gone, and another took it before we could


class Leases:
    """The leases of one session. A lease is a hint; the ledger's attempt is the fence."""

    def __init__(
        self, connection: redis.Redis, sid: str, *, ttl_seconds: float = LEASE_SECONDS
    ) -> None:
        self._redis = connection
        self._sid = sid
        self._ttl_ms = max(1, int(ttl_seconds * 1000))

    def claim(self, id: int, attempt: int, runner: str) -> bool:
        """Take the attempt for *runner*; False when another has it. Twice is once."""
        key = keys.lease(self._sid, id, attempt)
        with edge("claiming a lease", key):
            if self._redis.set(key, self._value(runner), nx=True, px=self._ttl_ms):
                return True
            # Also the case where our SET was done but its answer got lost on the way.
            raw = self._redis.get(key)
        return _runner(raw) == runner

    def renew(self, id: int, attempt: int, runner: str) -> Renewal:
        """Extend *runner*'s lease; where nothing stands (a flush), take it again.

        Raises:
            InfrastructureError: Redis did not answer. Go on, and try again soon.
        """
        key = keys.lease(self._sid, id, attempt)
        was_gone = False

        def step(pipe: Pipeline) -> Renewal:
            nonlocal was_gone
            raw = pipe.get(key)
            if raw is not None and _runner(raw) != runner:
                return Renewal.LOST if was_gone else Renewal.FOREIGN
            was_gone = raw is None
            pipe.multi()
            pipe.set(key, self._value(runner), px=self._ttl_ms)
            pipe.execute()  # WATCH stops it when the lease expired or was taken since we looked
            if was_gone:
                log.warning("lease_taken_again", experiment_id=id, attempt=attempt, runner=runner)
            return Renewal.HELD

        return self._settle("renewing a lease", key, step)

    def release(self, id: int, attempt: int, runner: str) -> bool:
        """Give it back if it is *runner*'s; False when it was not (any more)."""
        key = keys.lease(self._sid, id, attempt)

        def step(pipe: Pipeline) -> bool:
            raw = pipe.get(key)
            if _runner(raw) != runner:
                return False
            pipe.multi()
            pipe.delete(key)
            return bool(pipe.execute()[0])

        return self._settle("releasing a lease", key, step)

    def owner(self, id: int, attempt: int) -> str | None:
        """The runner that holds the attempt now.

        A lease that would outlive its own term is cut down to it: Redis expires by the server's
        wall clock, and where that jumped back, a dead runner's lease would stand as much longer.
        """
        key = keys.lease(self._sid, id, attempt)
        with edge("reading a lease", key), self._redis.pipeline(transaction=False) as pipe:
            pipe.get(key)
            pipe.pttl(key)
            raw, left_ms = pipe.execute()
            if raw is None:
                return None
            term_ms = _term_ms(raw)
            if term_ms is None and left_ms == -1:
                term_ms = self._ttl_ms  # nobody of ours writes one that never ends
            if term_ms is not None and (left_ms > term_ms or left_ms == -1):
                log.warning("lease_cut_down", experiment_id=id, attempt=attempt, left_ms=left_ms)
                self._redis.pexpire(key, term_ms)
        return _runner(raw)

    def _value(self, runner: str) -> str:
        """Who, and for how long (ms): who reads it need not know how that runner is set up."""
        return f"{runner} {self._ttl_ms}"

    def _settle(self, doing: str, key: str, step: Callable[[Pipeline], T]) -> T:
        """Run *step* under WATCH until nobody wrote in between."""
        with edge(doing, key), self._redis.pipeline() as pipe:
            for _ in range(_TRIES):
                try:
                    pipe.watch(key)  # type: ignore[no-untyped-call]
                    return step(pipe)
                except WatchError:
                    continue
                finally:
                    pipe.reset()
        raise InfrastructureError(f"redis, {doing}: {key} changed {_TRIES} times under our hands")


def _runner(raw: bytes | str | None) -> str | None:
    return None if raw is None else text_of(raw).partition(" ")[0]


def _term_ms(raw: bytes | str) -> int | None:
    """None when it does not say, as one of an older release."""
    term = text_of(raw).partition(" ")[2]
    return int(term) if term.isascii() and term.isdigit() and 0 < len(term) < 12 else None
