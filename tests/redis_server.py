"""A private, real Redis for tests: own process, own unix socket, nothing kept, nothing left."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import redis

START_SECONDS = 10.0


class RedisServer:
    """One redis-server on a unix socket in a short folder of its own. Knows nothing of pytest.

    Use it as a context manager, from the thread that outlives it: the server is killed with the
    thread that started it.
    """

    def __init__(self, *extra: str, persist: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ovr-"))
        self.socket = self.folder / "s"
        self.url = f"unix://{self.socket}?db=0"
        self.process: subprocess.Popen[bytes] | None = None
        self._persist = persist
        self._extra = extra

    def __enter__(self) -> RedisServer:
        try:
            self.start()
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

    @property
    def pid(self) -> int:
        """The server's process id; it must run."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it answers. Empty, unless made with persist=True."""
        assert self.process is None, "it runs already"
        binary = shutil.which("redis-server") or shutil.which("valkey-server")
        if binary is None:
            raise RuntimeError(
                "no redis-server on the PATH; install it: apt-get install redis-server"
            )
        self.socket.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *_dies_with_us(), binary,
                    "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700",
                    "--save", "", "--appendonly", "yes" if self._persist else "no",
                    "--appendfsync", "always", "--dir", str(self.folder), "--daemonize", "no",
                    *self._extra,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._wait_until_it_answers()

    def kill(self) -> None:
        """SIGKILL, and wait for it. What it held is gone."""
        self._end(signal.SIGKILL)

    def restart(self, *, down_seconds: float = 0.0) -> None:
        """SIGKILL, stay away for a while, come back."""
        self.kill()
        time.sleep(down_seconds)
        self.start()

    def flush(self) -> None:
        """FLUSHALL, from a connection of its own."""
        with self.client() as client:
            client.flushall()

    def drop_connections(self) -> int:
        """Cut every client off, as a proxy or a time limit would; how many."""
        with self.client() as client:
            cut = client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        return int(cut)

    def client(self) -> redis.Redis:
        """A plain admin client, for looking and meddling."""
        return redis.Redis.from_url(self.url, protocol=2, socket_timeout=5)

    def log(self) -> str:
        """What the server wrote."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """End it and remove the folder. Idempotent."""
        self._end(signal.SIGKILL)  # nothing of it is wanted, and a polite end takes 0.1 s
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + START_SECONDS
        while True:
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"redis-server did not start:\n{self.log()}")
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.01)


def _dies_with_us() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
