"""Plain rq as a careful user runs it: forking workers under a restarting supervisor, a real Redis.

JSON serializer, job_timeout above the script's deadline, Retry(max=2), maintenance and monitoring
every 5 s and a worker TTL of 25 s (600, 30 and 420 by default), results in a file with fsync.
Everything is found by marks and ended at `close`, whatever happened.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import redis
from benchmarks.reliability.system import System
from rq import Queue, Retry
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer
from tests.e2e import procs
from tests.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "experiments"
INTERVAL_SECONDS = 5
WORKER_TTL_SECONDS = 25  #: an idle worker does its maintenance 15 s before the end of it
IDLE_SECONDS = 4.0


class Touch:
    """Unpickling one makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def plant(client: redis.Redis, queue: str, touch: str, ids: tuple[str, str]) -> None:
    """A call of os.system, and a pickle that makes one when it is loaded, into any rq queue."""
    call = json.dumps(["os.system", None, [f"touch {touch}"], {}]).encode()
    for id, data in zip(ids, (call, pickle.dumps(Touch(touch))), strict=True):
        fields: dict[Any, Any]  # as redis-py's types want it
        fields = {"data": zlib.compress(data), "origin": queue, "status": "queued",
                  "created_at": "2026-01-01T00:00:00.000000Z", "timeout": "60"}  # fmt: skip
        client.hset(f"rq:job:{id}", mapping=fields)
        client.rpush(f"rq:queue:{queue}", id)


class PlainRq(System):
    """One Redis and its workers. Use it from the thread that outlives it."""

    def __init__(self, *, persist: bool = True, function: str = "train_in_group",
                 pickles: bool = False, horses: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ovq-"))
        self.mark = f"mark-{os.urandom(8).hex()}"  #: on the command line of each training
        self.services_mark = f"rq-{os.urandom(8).hex()}"  #: in the environment of the workers
        self.redis = RedisServer(persist=persist)
        self.serializer = DefaultSerializer if pickles else JSONSerializer
        self.workers: list[subprocess.Popen[bytes]] = []
        self._function = f"benchmarks.reliability.rqjobs.{function}"
        self._horses = horses  #: do its forks die with a killed worker, as in a container?
        self._wanted_workers = 0
        self._idle_since: float | None = None
        self.redis.start()

    def close(self) -> None:
        self._wanted_workers = 0
        for process in procs.marked(self.services_mark, self.mark):
            process.kill()
        for worker in self.workers:
            worker.wait()
        self.redis.close()
        try:
            procs.wait_until(
                lambda: not procs.marked(self.services_mark, self.mark), 5, "rq is gone"
            )
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, train: str, nasty: str = "") -> None:
        for name, text in (("baseline", train), ("other", train.replace("LR = 0.1", "LR = 0.2"))):
            place = self.folder / name
            place.mkdir()
            (place / "train.py").write_text(text)
            (place / "nasty.py").write_text(nasty)

    def open(self, wanted: int, *, workers: int = 1, deadline_seconds: float = 30.0) -> None:
        self.wanted = wanted
        for id in range(1, wanted + 1):
            self._queue().enqueue(
                self._function,
                kwargs={
                    "id": id,
                    "command": [sys.executable, "train.py", self.mark, str(id)],
                    "folder": str(self.folder / ("baseline" if id == 1 else "other")),
                    "deadline_seconds": deadline_seconds,
                },
                job_id=f"exp-{id}",
                job_timeout=int(deadline_seconds) + 5,
                retry=Retry(max=2),
                result_ttl=86400,
            )
        self._wanted_workers = workers
        self.tend()

    def tend(self) -> None:
        """And do what systemd's Restart=always does."""
        super().tend()
        self.workers = [w for w in self.workers if w.poll() is None]
        while len(self.workers) < self._wanted_workers:
            self.workers.append(self._start_worker())

    def trainings(self) -> list[procs.Process]:
        return [p for p in procs.marked(self.mark) if p.argv[1:3] == ["train.py", self.mark]]

    def candidates(self) -> list[procs.Process]:
        return procs.marked(self.mark)

    def experiment(self, training: procs.Process) -> int | None:
        words = training.argv[3:4]
        return int(words[0]) if words else None

    def results(self) -> Counter[int]:
        """Lines of the results file; without one, rq's own word that it failed for good counts."""
        path = self.folder / "results.tsv"
        lines = path.read_text().splitlines() if path.exists() else []
        counted = Counter(int(line.split("\t")[0]) for line in lines)
        for id in range(1, self.wanted + 1):
            if not counted[id] and self._status(id) == "failed":
                counted[id] = 1
        return counted

    def job_ids(self) -> list[str]:
        return [f"exp-{id}" for id in range(1, self.wanted + 1)]

    @property
    def queue_key(self) -> str:
        return f"rq:queue:{QUEUE}"

    def client(self) -> redis.Redis:
        return self.redis.client()

    def kill_worker(self) -> None:
        pids = {worker.pid for worker in self.workers}
        for process in procs.marked(self.services_mark):
            is_fork = self.mark not in process.argv and "worker" in process.argv
            if process.pid in pids or (self._horses and is_fork):
                process.kill()
        for worker in self.workers:
            worker.wait()

    def kill_redis(self) -> None:
        self.redis.kill()
        self.pause(1.0)
        self.redis.start()

    def kill_stack(self) -> None:
        self._stopped_workers, self._wanted_workers = self._wanted_workers, 0
        self.kill_worker()
        self.redis.kill()

    def start_again(self) -> None:
        self.redis.start()
        self._wanted_workers = self._stopped_workers
        self.tend()

    def plant(self, touch: str) -> None:
        with self.client() as client:
            plant(client, QUEUE, touch, ("planted-1", "planted-2"))

    def hopeless(self) -> bool:
        """Nothing waits, runs or is held to be running, for a while."""
        try:
            with self.client() as client:
                waits = client.llen(self.queue_key) or client.zcard(f"rq:wip:{QUEUE}")
                waits = waits or client.llen(f"{self.queue_key}:intermediate")
        except redis.RedisError:
            return False
        if waits or self.trainings():
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or time.monotonic()
        return time.monotonic() - self._idle_since > IDLE_SECONDS

    def note(self) -> str:
        results = self.results()
        missing = [id for id in range(1, self.wanted + 1) if not results[id]]
        words = Counter(self._status(id) for id in missing)
        return ", ".join(f"{count} {word}" for word, count in words.items())

    def _queue(self) -> Queue:
        return Queue(QUEUE, connection=self.redis.client(), serializer=self.serializer)

    def _status(self, id: int) -> str:
        try:
            with self.client() as client:
                job = Job.fetch(f"exp-{id}", connection=client, serializer=self.serializer)
                return str(job.get_status().value)
        except NoSuchJobError:
            return "unknown to rq"
        except redis.RedisError:
            return "Redis is away"

    def _start_worker(self) -> subprocess.Popen[bytes]:
        words = [
            "setpriv", "--pdeathsig", "KILL",  # nothing outlives the benchmark
            sys.executable, "-c", "from rq.cli import main; main()",
            "worker", "-u", self.redis.url, "-P", str(ROOT), "--quiet",
            "-S", "pickle" if self.serializer is DefaultSerializer else "json",
            "--worker-ttl", str(WORKER_TTL_SECONDS),
            "--job-monitoring-interval", str(INTERVAL_SECONDS),
            "--maintenance-interval", str(INTERVAL_SECONDS), QUEUE,
        ]  # fmt: skip
        with (self.folder / "worker.log").open("ab") as log:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "RQ_MARK": self.services_mark}, start_new_session=True,
            )  # fmt: skip
