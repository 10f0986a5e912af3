"""Workers in threads, and jobs to feed them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.wire import decode
from overnight.jobqueue.connection import connect
from overnight.jobqueue.worker import PoolWorker
from redis_server import RedisServer

SID = "0123456789ab"


def make_job(id: int, attempt: int = 1, wall_seconds: float = 2.0) -> ExperimentJob:
    return ExperimentJob(
        sid=SID,
        tag="mar5",
        id=id,
        attempt=attempt,
        commit="0" * 40,
        tree_digest="0" * 64,
        run_cmd=("python", "train.py"),
        metric="val_bpb",
        editable_files=("train.py",),
        budget=1.0,
        gate="time",
        wall_seconds=wall_seconds,
        cpu_seconds=None,
    )


class WorkerThread:
    """One PoolWorker in a thread of its own; remembers the ids that its handler was given."""

    def __init__(
        self,
        url: str,
        on_job: Callable[[ExperimentJob], None] | None = None,
        name: str = "slot-0",
    ) -> None:
        self.ids: list[int] = []
        self.times: list[float] = []
        self.died: BaseException | None = None
        self._on_job = on_job
        self._stop = threading.Event()
        self.worker = PoolWorker(connect(url), "default", name, self._handle, self._stop.is_set)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def stop(self) -> float:
        """Ask it to end, wait for it; how long that took."""
        started = time.monotonic()
        self._stop.set()
        self.thread.join(15)
        assert not self.thread.is_alive()
        return time.monotonic() - started

    def _run(self) -> None:
        try:
            self.worker.work()
        except BaseException as error:  # noqa: BLE001 - what ended it is for the test to judge
            self.died = error

    def _handle(self, payload: str) -> None:
        job = decode(ExperimentJob, payload)
        self.times.append(time.perf_counter())
        self.ids.append(job.id)
        if self._on_job is not None:
            self._on_job(job)


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.005)


@pytest.fixture(name="make_job")
def _make_job() -> Callable[..., ExperimentJob]:
    return make_job


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., None]:
    return wait_until


@pytest.fixture
def start_worker(redis_server: RedisServer) -> Iterator[Callable[..., WorkerThread]]:
    """start_worker(url=None, on_job=None, name="slot-0"); every worker ends with its test."""
    started: list[WorkerThread] = []

    def start(
        url: str | None = None,
        on_job: Callable[[ExperimentJob], None] | None = None,
        name: str = "slot-0",
    ) -> WorkerThread:
        started.append(WorkerThread(url or redis_server.url, on_job, name))
        return started[-1]

    yield start
    for worker in started:
        worker.stop()
