"""The door to Redis: how we connect, and where a Redis error becomes one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.backoff import ExponentialBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from overnight.configuration import RedisLogin, process_environ, redis_login
from overnight.contracts.errors import ConfigError, InfrastructureError

CONNECT_SECONDS = 2.0
SOCKET_SECONDS = 5.0  #: longest wait for one answer; every blocking command asks for less
_SCHEMES = ("unix://", "redis://", "rediss://")

Client = redis.Redis  #: the name for it in rooms that may hold a connection but not import redis


class _FromFile(CredentialProvider):
    """Asked by redis-py with each new connection; holds no password in between."""

    def __init__(self, login: RedisLogin) -> None:
        self._login = login

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = self._login.password()
        return (self._login.user, password) if self._login.user else (password,)


def connect(url: str) -> redis.Redis:
    """A client for `unix:///path?db=0` or `redis://host:port/0`. Opens nothing yet.

    A dropped connection is tried again for about half a second, so that a restart of Redis
    mostly goes unnoticed; silence is not, because whatever we sent may have been done.
    At REDIS_URL it logs in as OVERNIGHT_REDIS_USER, with the password in a file.

    Raises:
        ConfigError: the URL can't be one, or the login is none. The URL may hold a password, and
            is never shown.
    """
    if not url.startswith(_SCHEMES):
        raise ConfigError(f"REDIS_URL must start with one of {', '.join(_SCHEMES)}")
    login = redis_login(url, process_environ())
    try:
        return redis.Redis.from_url(
            url,
            protocol=2,
            credential_provider=None if login is None else _FromFile(login),
            socket_timeout=SOCKET_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            retry=Retry(
                ExponentialBackoff(cap=0.25, base=0.02),
                retries=4,
                supported_errors=(RedisConnectionError,),
            ),
        )
    except ValueError:
        raise ConfigError(
            "REDIS_URL can't be read: redis://host:port/0, or unix:///path?db=0"
        ) from None


@contextmanager
def edge(doing: str, key: str | None = None) -> Iterator[None]:
    """Where Redis errors stop: nothing of redis-py leaves this room.

    key: what was read or written, for the message where the key itself may be at fault.

    Raises:
        InfrastructureError: in place of any Redis error while *doing* this; names the fix.
    """
    try:
        yield
    except RedisError as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise InfrastructureError(f"redis, {doing}: {said}; {_fix(error, key)}") from error


def is_wrong_type(error: BaseException) -> bool:
    """Does a key hold something that we never put there? Waiting does not mend that."""
    return isinstance(error, ResponseError) and "WRONGTYPE" in str(error)


def _fix(error: RedisError, key: str | None) -> str:
    if isinstance(error, AuthenticationError):
        return (
            "its user or password is another: OVERNIGHT_REDIS_USER, the file that "
            "OVERNIGHT_REDIS_PASSWORD_FILE names, and the Redis ACL must agree"
        )
    if isinstance(error, NoPermissionError):
        return f"give this user the password and rights of the Redis ACL{_on(key)}"
    if "max number of clients" in str(error):
        return "raise its maxclients, or end clients that hang"
    if isinstance(error, RedisConnectionError | RedisTimeoutError):
        return "is Redis up?"
    if is_wrong_type(error):
        return f"delete {key or 'that key'}: something else wrote there, and ours comes back"
    if isinstance(error, OutOfMemoryError):
        return "raise its maxmemory, or free some"
    if isinstance(error, ReadOnlyError):
        return "it is a replica: make it the master, or set REDIS_URL to the master"
    return "look into the server's log, memory and role"


def _on(key: str | None) -> str:
    return f", also for {key}" if key else ""


def text_of(raw: bytes | str) -> str:
    """Redis answers as text; bytes that are not UTF-8 become replacement characters."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
