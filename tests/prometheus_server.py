"""A private, real Prometheus for tests: own folder, a free port, the committed configuration."""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

CONFIG = Path(__file__).parents[1] / "config" / "prometheus"
START_SECONDS = 20.0


class Refused(Exception):
    """Prometheus did not take a query; says why."""


class PrometheusServer:
    """config/prometheus/embedded.yml with another folder of targets and a scrape each second.

    Use it as a context manager.
    """

    def __init__(self, folder: Path, targets: Path) -> None:
        folder.mkdir(parents=True)
        shutil.copytree(CONFIG / "rules", folder / "rules")
        text = (CONFIG / "embedded.yml").read_text()
        for old, new in (
            ("_interval: 15s", "_interval: 1s"),
            ("/var/lib/overnight/targets", str(targets)),
        ):
            assert old in text, old
            text = text.replace(old, new)
        self.config = folder / "embedded.yml"
        self.config.write_text(text)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PrometheusServer:
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={self.config}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def now(self, query: str) -> list[tuple[dict[str, str], float]]:
        """An instant query: labels and value of each series. Raises Refused."""
        found = self.get("query", query=query)["data"]
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    def over(self, query: str, seconds: float) -> list[tuple[dict[str, str], list[float]]]:
        """A range query of the last *seconds*, a value a second. Raises Refused."""
        end = self.now("time()")[0][1]
        found = self.get(
            "query_range", query=query, start=f"{end - seconds}", end=f"{end}", step="1"
        )["data"]["result"]
        return [(each["metric"], [float(v) for _, v in each["values"]]) for each in found]

    def value(self, query: str) -> float | None:
        """The one value of an instant query; None where there is no series."""
        found = self.now(query)
        assert len(found) <= 1, (query, found)
        return found[0][1] if found and math.isfinite(found[0][1]) else None

    def get(self, what: str, **words: str) -> Any:
        """An answer of the HTTP API."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(json.load(error).get("error", str(error))) from error

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=20)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                    return
            except OSError:
                late = time.monotonic() > deadline or self._process.poll() is not None
                assert not late, (self._folder / "log").read_text()[-2000:]
                time.sleep(0.05)
