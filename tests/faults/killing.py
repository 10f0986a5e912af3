"""Ways to kill a part of a running session at the moment that hurts most. SIGKILL only."""

from __future__ import annotations

import json
import random
import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e import procs
from tests.e2e.stage import Play, Stage, until

PATIENCE_SECONDS = 60.0  #: for a moment to come
BEHIND_REDIS = ("recorder", "orchestrator", "r0", "r1")


@dataclass
class Killer:
    """Kills parts of one session; counts what it hit and when."""

    stage: Stage
    candidates: int
    rng: random.Random
    train_seconds: float
    play: Play = field(init=False)
    histogram: Counter[tuple[str, str]] = field(default_factory=Counter)  #: (victim, moment)
    restarts_seconds: list[float] = field(default_factory=list)  #: of whole stacks
    lasted_seconds: list[float] = field(default_factory=list)  #: after the supervisor's death

    def __post_init__(self) -> None:
        self.play = self.start()

    def start(self) -> Play:
        """The same command, every time."""
        words = ("run", str(self.stage.repo), "--max", str(self.candidates), "--json")
        return self.stage.start(*words)

    def decided(self) -> int:
        """Experiments that have their decision by now."""
        path = self.stage.root / "ledger.jsonl"
        return path.read_bytes().count(b'"kind":"decision"') if path.exists() else 0

    def wait_for(self, decided: int) -> None:
        """Until so many experiments are decided."""
        until(lambda: self.decided() >= decided, PATIENCE_SECONDS * 2,
              f"{decided} decisions (there are {self.decided()})", self.play)  # fmt: skip

    def service(self, name: str) -> procs.Process:
        """Wait until the service runs, and give it."""
        until(lambda: self.stage.service(name), PATIENCE_SECONDS, f"{name} runs", self.play)
        found = self.stage.service(name)
        return found if found is not None else self.service(name)

    def runner_while_training(self) -> None:
        """At a random instant of a candidate's training."""
        until_seconds = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until_seconds:
            training = self.stage.training()
            if not training:
                time.sleep(0.02)
                continue
            candidate = self.rng.choice(training)
            above = procs.ancestors(candidate.pid)
            time.sleep(self.rng.uniform(0, 0.9 * self.train_seconds))
            name = self.rng.choice(("r0", "r1"))
            for slot in (name, "r0", "r1"):
                runner = self.stage.service(slot)
                if runner and runner.pid in above and candidate.alive and runner.kill():
                    self.histogram[("runner", "while training")] += 1
                    return
        raise AssertionError("no runner was seen training")

    def recorder_while_writing(self) -> None:
        """Stopped first, so that it surely stands between the row's first byte and its head."""
        staged = self.stage.root / "ledger.tmp"
        until_seconds = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until_seconds:
            recorder = self.service("recorder")
            look_again = time.monotonic() + 1.0
            while time.monotonic() < look_again and not staged.exists():
                pass  # a row is written in a few milliseconds: no time to sleep
            time.sleep(self.rng.uniform(0, 0.003))
            recorder.kill(signal.SIGSTOP)
            procs.wait_until(lambda r=recorder: r.state() in "TX", 5, "the recorder stands still",
                             0.0005)  # fmt: skip
            if staged.exists() and recorder.kill():
                ahead = _rows(self.stage.root) > _head(self.stage.root)
                moment = "row written, head not" if ahead else "head staged, row not written"
                self.histogram[("recorder", f"while a row is written: {moment}")] += 1
                return
            recorder.kill(signal.SIGCONT)
        raise AssertionError("the recorder was not caught writing")

    def something_while_redis_is_down(self) -> None:
        """Redis first, then another service before the supervisor has started Redis again."""
        until_seconds = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until_seconds:
            victims = {name: self.service(name) for name in BEHIND_REDIS}
            redis = self.service("redis")
            stack = self.stage.stack()
            if stack is None or not redis.kill():
                continue
            self.histogram[("redis", "itself, to take it down")] += 1
            time.sleep(self.rng.uniform(0, 0.12))
            name = self.rng.choice(BEHIND_REDIS)
            if not _answers(stack["redis_url"]) and victims[name].kill():
                victim = "runner" if name.startswith("r") and name != "recorder" else name
                self.histogram[(victim, "while Redis is down")] += 1
                return
        raise AssertionError("Redis came back faster than we could kill")

    def supervisor(self) -> None:
        """And the same command again once nothing of it is left."""
        time.sleep(self.rng.uniform(0, self.train_seconds))
        trained = bool(self.stage.training())
        self.play.kill()
        moment = "while training" if trained else "at another time"
        self.histogram[("supervisor", moment)] += 1
        self.lasted_seconds.append(self._all_dead(2.0))
        began = time.monotonic()
        self.play = self.start()
        until(lambda: self._all_run(), PATIENCE_SECONDS, "the stack runs again", self.play)
        self.restarts_seconds.append(time.monotonic() - began)

    def _all_dead(self, seconds: float) -> float:
        """How long it took after the supervisor's death."""
        began = time.monotonic()
        while left := self.stage.alive():
            words = [(p.pid, p.state(), p.argv) for p in left]
            assert time.monotonic() - began < seconds, f"outlived their supervisor: {words}"
            time.sleep(0.02)
        return time.monotonic() - began

    def _all_run(self) -> bool:
        stack = self.stage.stack()
        return stack is not None and stack["pid"] == self.play.process.pid

    def report(self) -> str:
        """The histogram, one line a kind."""
        lines = [f"{count:5d}  {victim:<12} {moment}"
                 for (victim, moment), count in sorted(self.histogram.items())]  # fmt: skip
        return "\n".join(lines)


def _rows(root: Path) -> int:
    return (root / "ledger.jsonl").read_bytes().count(b"\n")


def _head(root: Path) -> int:
    path = root / "ledger.head"
    return int(json.loads(path.read_text())["seq"]) if path.exists() else 0


def _answers(redis_url: str) -> bool:
    """Does anybody listen at the socket?"""
    path = redis_url.removeprefix("unix://").split("?")[0]
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True
