"""Overnight as a user runs it: `overnight run` on a repository, seen through its command line."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import redis
from benchmarks.reliability.plainrq import plant
from benchmarks.reliability.system import System
from tests.e2e import procs
from tests.e2e.stage import Play, Stage, until

NEVER_FINAL = ("infra", "cancelled")  #: another attempt follows, unless it was given up


class Overnight(System):
    """One session. Its services restart by themselves; only the supervisor has to be."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(Path(tempfile.mkdtemp(prefix="ovs-")))
        self.stage.repo.mkdir()
        self._play: Play | None = None
        self._held: list[procs.Namespaces] = []  # of candidates, so that nothing hides in one

    def write(self, train: str, nasty: str = "") -> None:
        self.stage.write({"train.py": train, "nasty.py": nasty})

    def open(self, wanted: int, *, workers: int = 1, deadline_seconds: float = 30.0) -> None:
        self.wanted = wanted
        self.stage.bind(deadline_seconds=deadline_seconds, pools={"default": {"runners": workers}})
        self.start_again()

    def start_again(self) -> None:
        words = ("run", str(self.stage.repo), "--max", str(self.wanted - 1), "--json")
        self._play = self.stage.start(*words)

    def tend(self) -> None:
        """And hold on to the namespaces of candidates that are new."""
        seen = set(self.started)
        super().tend()
        for process in self.started - seen:
            self._held.append(procs.Namespaces([process.pid]))

    def trainings(self) -> list[procs.Process]:
        return self.stage.training()

    def candidates(self) -> list[procs.Process]:
        """When the session is over, what is left of its services counts too."""
        hidden = {process for held in self._held for process in held.alive()}
        named = self.stage.alive() if self.hopeless() else self.stage.candidates()
        return sorted(hidden | set(named))

    def experiment(self, training: procs.Process) -> int | None:
        """What the runner above it has noted on its disk."""
        above = procs.ancestors(training.pid)
        stack = self.stage.stack()
        for name, pid in (stack["children"] if stack else {}).items():
            if pid in above:
                with contextlib.suppress(OSError, ValueError):
                    claimed = (self.stage.root / "runners" / name / "claimed").read_text()
                    return int(json.loads(claimed)["id"])
        return None

    def results(self) -> Counter[int]:
        """Accepted final results in the ledger."""
        return Counter(
            row["body"]["id"]
            for row in self._rows()
            if row["kind"] == "result"
            and (row["body"]["status"] not in NEVER_FINAL or row["body"]["reason"] == "gave_up")
        )  # fmt: skip

    def job_ids(self) -> list[str]:
        return [
            f"{row['session']}-{row['body']['id']}-{row['body']['attempt']}"
            for row in self._rows()
            if row["kind"] == "attempt_issued"
        ]

    @property
    def queue_key(self) -> str:
        return f"rq:queue:{self._queue()}"

    def client(self) -> redis.Redis:
        """Raises redis.ConnectionError while the stack is not up."""
        stack = self.stage.stack()
        if stack is None:
            raise redis.ConnectionError("no stack")
        return redis.Redis.from_url(stack["redis_url"], protocol=2, socket_timeout=5)

    def kill_worker(self) -> None:
        self._kill("r0")

    def kill_redis(self) -> None:
        self._kill("redis")

    def _kill(self, name: str) -> None:
        until(lambda: self.stage.service(name), 30, f"{name} runs", self._playing())
        service = self.stage.service(name)
        if service is not None:
            service.kill()

    def _playing(self) -> Play:
        assert self._play is not None, "it is not open"
        return self._play

    def kill_stack(self) -> None:
        """Redis and all services at once, then the supervisor, so that nothing ends politely."""
        stack = self.stage.stack()
        self._playing().kill()
        for pid in (stack["children"] if stack else {}).values():
            process = procs.look(pid) if pid else None
            if process is not None and process in self.stage.alive():
                process.kill()

    def plant(self, touch: str) -> None:
        sid = self._sid()
        with self.client() as client:
            plant(client, self._queue(), touch, (f"{sid}-98-1", f"{sid}-99-1"))

    def _rows(self) -> list[dict[str, Any]]:
        """The ledger's whole lines, read by nobody but us."""
        path = self.stage.root / "ledger.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def _sid(self) -> str:
        """Raises redis.ConnectionError while the session has no ledger yet."""
        rows = self._rows()
        if not rows:
            raise redis.ConnectionError("no session")
        return str(rows[0]["session"])

    def _queue(self) -> str:
        """Its queue is its own."""
        return f"experiments.default-{self._sid()}"

    def hopeless(self) -> bool:
        return self._play is not None and self._play.over

    def close(self) -> None:
        for held in self._held:
            held.close()
        self.stage.close()
        procs.wait_until(lambda: not self.stage.alive(), 5, "the session is gone")
