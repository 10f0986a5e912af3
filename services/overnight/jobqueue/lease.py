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
        with edge("claiming a lease"):
            if self._redis.set(key, runner, nx=True, px=self._ttl_ms):
                return True
            # Also the case where our SET was done but its answer got lost on the way.
            raw = self._redis.get(key)
        return raw is not None and text_of(raw) == runner

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
            if raw is not None and text_of(raw) != runner:
                return Renewal.LOST if was_gone else Renewal.FOREIGN
            was_gone = raw is None
            pipe.multi()
            pipe.set(key, runner, px=self._ttl_ms)
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
            if raw is None or text_of(raw) != runner:
                return False
            pipe.multi()
            pipe.delete(key)
            return bool(pipe.execute()[0])

        return self._settle("releasing a lease", key, step)

    def owner(self, id: int, attempt: int) -> str | None:
        """The runner that holds the attempt now."""
        with edge("reading a lease"):
            raw = self._redis.get(keys.lease(self._sid, id, attempt))
        return None if raw is None else text_of(raw)

    def _settle(self, doing: str, key: str, step: Callable[[Pipeline], T]) -> T:
        """Run *step* under WATCH until nobody wrote in between."""
        with edge(doing), self._redis.pipeline() as pipe:
            for _ in range(_TRIES):
                try:
                    pipe.watch(key)  # type: ignore[no-untyped-call]
                    return step(pipe)
                except WatchError:
                    continue
                finally:
                    pipe.reset()
        raise InfrastructureError(f"redis, {doing}: {key} changed {_TRIES} times under our hands")
