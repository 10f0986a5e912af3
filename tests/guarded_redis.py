"""The Redis of the compose stack without containers: config/redis-start.sh, a real server."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import redis

CONFIG = Path(__file__).parents[1] / "config"
USERS = ("orchestrator", "recorder", "runner", "cli")
ADMIN = "user admin on PASSWORD ~* &* +@all\n"  # the stack has none; tests look into its log


class GuardedRedis:
    """A real redis-server on a unix socket, with the stack's users and one admin for the test."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ovg-"))
        self.socket = self.folder / "s"
        self.url = f"unix://{self.socket}?db=0"
        self.users_file = self.folder / "users.acl"
        config = self.folder / "config"
        config.mkdir()
        for name in ("redis.conf", "redis-start.sh"):
            shutil.copy(CONFIG / name, config)
        (config / "redis.acl").write_text((CONFIG / "redis.acl").read_text() + ADMIN)
        for user in (*USERS, "admin"):
            self.password_file(user).write_text(secrets.token_urlsafe(32) + "\n")

    def __enter__(self) -> GuardedRedis:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def password_file(self, user: str) -> Path:
        return self.folder / f"redis_{user}"

    def password(self, user: str) -> str:
        return self.password_file(user).read_text().strip()

    def environ(self, user: str) -> dict[str, str]:
        """What a service's container gets."""
        return {
            "REDIS_URL": self.url,
            "OVERNIGHT_REDIS_USER": user,
            "OVERNIGHT_REDIS_PASSWORD_FILE": str(self.password_file(user)),
        }

    def client(self, user: str = "admin") -> redis.Redis:
        return redis.Redis.from_url(
            self.url, protocol=2, socket_timeout=5, username=user, password=self.password(user)
        )

    def denials(self) -> list[str]:
        """What a user was refused, in the server's own log."""
        log = self.client().execute_command("ACL", "LOG")
        plain = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in log]
        return [f"{e[b'username']!r} {e[b'reason']!r} {e[b'object']!r}" for e in plain]

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        process = getattr(self, "process", None)
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        setpriv = shutil.which("setpriv")
        dies_with_us = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        here = str(self.folder)
        environ = {"PATH": os.environ["PATH"], "SECRETS": here, "RUN": here, "DATA": here}
        with (self.folder / "log").open("ab") as sink:
            self.process = subprocess.Popen(
                [
                    *dies_with_us, "sh", str(self.folder / "config" / "redis-start.sh"),
                    "--port", "0", "--unixsocket", str(self.socket),
                ],
                env=environ,
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            )  # fmt: skip
        give_up = time.monotonic() + 10
        while True:
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"redis-server did not start:\n{self.log()}")
            try:
                self.client().ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
