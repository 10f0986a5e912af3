"""What a runner exports. One instance a process, on an explicit registry."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.status import Status

#: An attempt's result has one of these.
STATUSES = (
    Status.SCORED, Status.CRASH, Status.TIMEOUT, Status.HELD, Status.CANCELLED, Status.INFRA,
)  # fmt: skip


class RunnerMetrics:
    """Counters of attempts, idle time, kills. Labels come from closed sets only."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.attempts = Counter(
            "overnight_attempts",
            "Attempts that this runner ended, by status.",
            ["status"],
            registry=registry,
        )
        for status in STATUSES:  # 0 from the first scrape on: else the first one is no increase
            self.attempts.labels(status.value)
        self.busy = Gauge(
            "overnight_runner_busy", "1 while an attempt runs on this runner.", registry=registry
        )
        self.idle_seconds = Counter(
            "overnight_runner_idle_seconds",
            "Time without an attempt since this runner is ready.",
            registry=registry,
        )
        self.kill_latency = Histogram(
            "overnight_kill_latency_seconds",
            "From the deadline, or another reason to kill, to an empty sandbox.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            registry=registry,
        )
        self.survivors = Gauge(
            "overnight_survivors",
            "Processes alive after the last sandbox, counted from outside. 0 is right.",
            registry=registry,
        )
        self.quarantined = Gauge(
            "overnight_device_quarantined",
            "1 while the device takes no jobs: it is lost, rests, or something lives on it.",
            registry=registry,
        )
        self.wall_seconds = Histogram(
            "overnight_attempt_wall_seconds",
            "Wall clock from process start to exit or kill.",
            buckets=(1, 3, 10, 30, 60, 120, 300, 450, 600, 900, 1800, 3600),
            registry=registry,
        )
        self.redis_up = Gauge(
            "overnight_redis_up", "1 while Redis answers this service.", registry=registry
        )
        self._info = Info("overnight_runner", "What this runner is.", registry=registry)
        self._idle_since: float | None = None

    def about(self, *, device: str, hardware: str, isolation: str) -> None:
        """Said once: words of the machine and of whoever runs it, none of a candidate."""
        self._info.info({"device": device, "hardware": hardware, "isolation": isolation})

    def ready(self) -> None:
        """Idle from now on."""
        self._idle_since = time.monotonic()

    def tick(self) -> None:
        """Bring the idle time up to date; called often while waiting."""
        if self._idle_since is not None:
            now = time.monotonic()
            self.idle_seconds.inc(now - self._idle_since)
            self._idle_since = now

    def begin(self) -> None:
        """An attempt starts."""
        self.tick()
        self._idle_since = None
        self.busy.set(1)

    def end(self, result: ExperimentResult | None) -> None:
        """An attempt ended; None when it was dropped."""
        self.busy.set(0)
        self.ready()
        if result is None:
            return
        self.attempts.labels(result.status.value).inc()
        self.wall_seconds.observe(result.runtime_s)
        if result.kill_latency_s is not None:
            self.kill_latency.observe(result.kill_latency_s)
        self.survivors.set(result.survivors)


class DeviceMetrics:
    """What a runner's GPUs are and how. Labelled by UUID: a closed set, the host's own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.info = Gauge(
            "overnight_device_info",
            "1 for each GPU that this runner holds.",
            ["uuid", "name", "driver"],
            registry=registry,
        )
        self.healthy = Gauge(
            "overnight_device_healthy",
            "1 while NVML sees the GPU and answers for it; 0: it is lost.",
            ["uuid"],
            registry=registry,
        )
        self.memory = Gauge(
            "overnight_device_memory_bytes", "Memory of the GPU.", ["uuid"], registry=registry
        )
        self.memory_used = Gauge(
            "overnight_device_memory_used_bytes",
            "Memory of the GPU in use, whoever uses it.",
            ["uuid"],
            registry=registry,
        )
