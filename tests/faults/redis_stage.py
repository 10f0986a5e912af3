"""A session on a Redis of the test's own, each of its services behind a proxy or not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from tests.e2e import procs, truth
from tests.e2e.stage import Finished, Play, Stage, until
from tests.faults.proxy import Proxy

from redis_server import RedisServer

REPO = Path(__file__).resolve().parents[2]
USER, PASSWORD = "overnight", "secret"
RIGHTS = ("~*", "&*", "+@all")
SOON_SECONDS = 10.0  #: from the end of a fault to the next decision
PATIENCE_SECONDS = 30.0
SERVICES = ("recorder", "orchestrator", "r0", "r1")

#: Scaled clocks: an outage of one or two seconds outlives several leases.
SCALED = {
    "OVERNIGHT_ORCHESTRATOR_POLL_SECONDS": "0.2",
    "OVERNIGHT_ORCHESTRATOR_LOST_AFTER_SECONDS": "1.5",
    "OVERNIGHT_RUNNER_LEASE_SECONDS": "0.8",
    "OVERNIGHT_RUNNER_RENEW_SECONDS": "0.25",
    "OVERNIGHT_RUNNER_RESEND_SECONDS": "0.5",
}


class BehindStage(Stage):
    """Its services take their way to Redis from BEHIND."""

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        python, dash_m, module, *rest = super()._argv(words)
        return [python, dash_m, "tests.faults.behind", module, *rest]


@dataclass
class RedisStage:
    """One session, its Redis and the way between them."""

    stage: Stage
    server: RedisServer
    proxy: Proxy
    as_shipped: bool = False  #: its clocks, and the time limit for an answer
    play: Play = field(init=False)
    admin: redis.Redis = field(init=False)

    def start(
        self, seconds: float, behind: dict[str, str] | None = None, *, prefetch: int = 1
    ) -> None:
        """Run a session without an end, whose candidates take so long; wait for its baseline.

        behind: service -> URL; None: all of them are behind the proxy.
        """
        path = os.pathsep.join((str(REPO / "services"), str(REPO)))
        url = self.proxy.url if behind is None else self.server.url
        self.stage.environment |= {
            "PYTHONPATH": path,
            "REDIS_URL": self._limited(url),
            "BEHIND": json.dumps({name: self._limited(u) for name, u in (behind or {}).items()}),
            "OVERNIGHT_ORCHESTRATOR_MAX_ATTEMPTS": "100",
        }
        policy = {"prefetch": prefetch}
        self.stage.toy(seconds, env={"STAGE_MARK": self.stage.mark}, policy=policy)
        self.play = self.stage.start("run", str(self.stage.repo), "--max", "1000", "--json")
        self.wait_for(
            lambda: self.decided() >= 1, "the baseline is decided", PATIENCE_SECONDS + 5 * seconds
        )

    def __post_init__(self) -> None:
        self.admin = self.server.client()  #: past the proxy, with all rights

    def _limited(self, url: str) -> str:
        """With a time limit of one second for an answer; five as shipped."""
        if self.as_shipped:
            return url
        return f"{url}{'&' if '?' in url else '?'}socket_timeout=1&socket_connect_timeout=1"

    @property
    def sid(self) -> str:
        """Of the session."""
        return str(self.rows()[0]["session"])

    def rows(self) -> list[truth.Row]:
        """As they stand there."""
        return truth.read_rows(self.stage.root)

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """Of all rows of a kind."""
        return [row["body"] for row in self.rows() if row["kind"] == kind]

    def decided(self) -> int:
        """How many experiments are."""
        path = self.stage.root / "ledger.jsonl"
        return path.read_bytes().count(b'"kind":"decision"') if path.exists() else 0

    def wait_for(self, condition: Any, what: Any, seconds: float = PATIENCE_SECONDS) -> float:
        """How long it took; AssertionError when it never comes true."""
        return until(condition, seconds, what, self.play)

    def services(self) -> dict[str, procs.Process | None]:
        """All that the supervisor started."""
        return {name: self.stage.service(name) for name in SERVICES}

    def cpu_seconds(self) -> float:
        """That the services have used so far."""
        ticks = 0
        for process in self.services().values():
            assert process is not None
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def wakeups(self) -> int:
        """Of all threads of the services so far: how often one had waited and went on."""
        count = 0
        for process in self.services().values():
            assert process is not None
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    found = re.search(r"^voluntary.*:\s+(\d+)", (task / "status").read_text(), re.M)
                    count += int(found[1]) if found else 0
        return count

    def waiting(self) -> dict[str, str]:
        """What `status` shows: service -> reason."""
        stack = self.stage.stack()
        return dict(stack["waiting"]) if stack else {}

    def says(self, pattern: str) -> bool:
        """Does a service say that it waits for this?"""
        return any(re.search(pattern, why) for why in self.waiting().values())

    def trains(self, slot: str) -> bool:
        """Does this runner have a candidate in training now?"""
        runner = self.stage.service(slot)
        found = self.stage.training()
        return runner is not None and any(runner.pid in procs.ancestors(p.pid) for p in found)

    def drain(self, seconds: float = 60) -> Finished:
        """Let what is under way end, and check all that it left."""
        asked = self.stage.ask("drain", "--dir", str(self.stage.root))
        assert asked.code == 0, asked
        finished = self.play.wait(seconds)
        assert finished.code == 0, finished
        truth.check_session(self.stage.root, len(self.bodies("proposed")) - 1)
        self.stage.check_nothing_is_left()
        return finished


@contextmanager
def made_session(clocks: dict[str, str]) -> Iterator[RedisStage]:
    """Not started. Its server keeps a log; behind the proxy, services log in as USER."""
    stage = BehindStage(Path(tempfile.mkdtemp(prefix="ovs-")), environment=clocks)
    stage.repo.mkdir()
    # The longest-lived words of the server's command line: such users outlive its restart.
    users = ("--user", "default", "on", "nopass", *RIGHTS)
    users += ("--user", USER, "on", f">{PASSWORD}", *RIGHTS)
    try:
        with (
            RedisServer(*users, persist=True) as server,
            Proxy(server.socket, login=f"{USER}:{PASSWORD}@") as proxy,
        ):
            made = RedisStage(stage, server, proxy, as_shipped=not clocks)
            yield made
            made.admin.close()
    finally:
        stage.close()


def keep_for(seconds: float, since: float) -> None:
    """Sleep until it has been that long."""
    time.sleep(max(0.0, since + seconds - time.monotonic()))
