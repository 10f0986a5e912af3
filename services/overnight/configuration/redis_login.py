"""Who we are to Redis: a user's name, and the file that holds its password. Never the password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from overnight.contracts.errors import ConfigError, InfrastructureError

USER = "OVERNIGHT_REDIS_USER"
PASSWORD_FILE = "OVERNIGHT_REDIS_PASSWORD_FILE"  # noqa: S105 - a variable's name
PASSWORD_BYTES = 4096


@dataclass(frozen=True)
class RedisLogin:
    """A user of the server that REDIS_URL names."""

    user: str  #: "" where the server knows one password and no users
    file: Path

    def password(self) -> str:
        """The file's only line. Looked up with each connection, so that it may be changed.

        Raises:
            InfrastructureError: it can't be read now, or holds no password.
        """
        try:
            with self.file.open("rb") as file:
                raw = file.read(PASSWORD_BYTES + 1)
            text = raw.decode().rstrip("\r\n")
        except OSError as error:
            raise InfrastructureError(f"{PASSWORD_FILE}: {self.file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InfrastructureError(f"{PASSWORD_FILE}: {self.file} is no text") from error
        if not text or len(raw) > PASSWORD_BYTES or not text.isprintable():
            raise InfrastructureError(
                f"{PASSWORD_FILE}: {self.file} must hold one line, the password"
            )
        return text


def redis_login(url: str, environ: Mapping[str, str]) -> RedisLogin | None:
    """How to log in at *url*; None: as the URL says. A login is for REDIS_URL alone: a password
    never goes to another server.

    Raises:
        ConfigError: the file can't be used, or the URL holds a password, too.
    """
    file, user = environ.get(PASSWORD_FILE, ""), environ.get(USER, "")
    if url != environ.get("REDIS_URL") or not (file or user):
        return None
    if not file:
        raise ConfigError(f"{USER} is set: name the file with its password by {PASSWORD_FILE}")
    if not Path(file).is_absolute():
        raise ConfigError(f"{PASSWORD_FILE}: must be an absolute path, not {file[:60]!r}")
    if "@" in urlsplit(url).netloc:
        raise ConfigError(f"REDIS_URL names a user, and {PASSWORD_FILE} is set: keep one of them")
    login = RedisLogin(user, Path(file))
    try:
        login.password()
    except InfrastructureError as error:
        raise ConfigError(str(error)) from error
    return login
