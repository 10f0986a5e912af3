"""Small signs that expire by themselves: stop this session, I am ready, I am alive."""

from __future__ import annotations

import redis

from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge, text_of

FLAG_SECONDS = 60.0
_NAMES_SECONDS = 24 * 3600  #: a session that nobody serves any more is forgotten


class Flags:
    """Signs of any session. All are hints: whoever sets one sets it again before it expires."""

    def __init__(self, connection: redis.Redis) -> None:
        self._redis = connection

    def set_stop(self, sid: str, *, ttl_seconds: float = FLAG_SECONDS) -> None:
        """Ask all runners to end what runs for *sid*. Call it again to keep it standing."""
        self._raise_sign(keys.stop(sid), ttl_seconds)

    def clear_stop(self, sid: str) -> None:
        """Runners may work for *sid* again."""
        with edge("clearing the stop flag"):
            self._redis.delete(keys.stop(sid))

    def is_stopping(self, sid: str) -> bool:
        """Shall what runs for *sid* end?"""
        return self._stands(keys.stop(sid))

    def mark_ready(self, sid: str, service: str, *, ttl_seconds: float = FLAG_SECONDS) -> None:
        """Say that *service* is ready; again to keep it standing."""
        self._raise_sign(keys.ready(sid, service), ttl_seconds)

    def is_ready(self, sid: str, service: str) -> bool:
        """Did *service* say that it is ready, not long ago?"""
        return self._stands(keys.ready(sid, service))

    def swap_mark(self, sid: str, name: str, mark: str, *, ttl_seconds: float) -> str | None:
        """Leave *mark* for the next call and return what the last one left, in one step.

        Another one, or None, shows that Redis forgot what happened in between.
        """
        key = keys.mark(sid, name)
        with edge("looking for the last mark", key):
            raw = self._redis.set(key, mark, px=_ms(ttl_seconds), get=True)
        return None if raw is None else text_of(raw)  # type: ignore[arg-type]

    def beat(self, sid: str, runner: str, ttl_seconds: float) -> None:
        """Say that *runner* lives and serves *sid*."""
        with edge("a runner's beat"), self._redis.pipeline() as pipe:
            pipe.set(keys.runner(sid, runner), "1", px=_ms(ttl_seconds))
            pipe.sadd(keys.runners(sid), runner)
            pipe.expire(keys.runners(sid), _NAMES_SECONDS)
            pipe.execute()

    def runners(self, sid: str) -> list[str]:
        """The runners with a living beat, sorted. Names without one are forgotten."""
        with edge("listing runners"):
            names = sorted(text_of(raw) for raw in self._redis.smembers(keys.runners(sid)))
            if not names:
                return []
            with self._redis.pipeline() as pipe:
                for name in names:
                    pipe.exists(keys.runner(sid, name))
                alive = pipe.execute()
            gone = [name for name, there in zip(names, alive, strict=True) if not there]
            if gone:
                self._redis.srem(keys.runners(sid), *gone)
        return [name for name, there in zip(names, alive, strict=True) if there]

    def _raise_sign(self, key: str, ttl_seconds: float) -> None:
        with edge("setting a flag", key):
            self._redis.set(key, "1", px=_ms(ttl_seconds))

    def _stands(self, key: str) -> bool:
        with edge("reading a flag", key):
            return bool(self._redis.exists(key))


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))
