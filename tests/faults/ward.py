"""A session that goes through one fault after the other, and is looked at after each.

What is looked at is the same every time, whatever was struck: every experiment has at most one
terminal row, nothing runs that nobody knows, a next experiment is decided soon, memory and disk
stay bounded. Reads files and /proc alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from tests.e2e import procs
from tests.e2e.stage import Finished, Play, Stage

from overnight.sessions.torture import recount

REPO = Path(__file__).resolve().parents[2]
#: Until a next experiment must be decided: ten times what it usually takes on a quiet machine.
SOON_SECONDS = float(os.environ.get("FAULT_SOON_SECONDS", "10"))  #: after a service's death
STACK_SECONDS = 3 * SOON_SECONDS  #: after the whole stack was started again
HANG_SECONDS = 2.0  #: a silent service is ended after this, and a runner's deadline
DEADLINE_SECONDS = 1.5
MOST_RSS_MB = 320  #: of any service; they have about 60 to 120
DISK_SLACK_BYTES = 8 * 1024**2
DISK_PER_EXPERIMENT_BYTES = 256 * 1024
ENVIRONMENT = {
    "OVERNIGHT_ORCHESTRATOR_MAX_ATTEMPTS": "1000",
    "OVERNIGHT_ORCHESTRATOR_LOST_AFTER_SECONDS": "3",
    "OVERNIGHT_ORCHESTRATOR_HANG_SECONDS": str(HANG_SECONDS),
    "OVERNIGHT_ORCHESTRATOR_POLL_SECONDS": "0.2",
    "OVERNIGHT_RUNNER_LEASE_SECONDS": "2",
    "OVERNIGHT_RUNNER_RENEW_SECONDS": "0.5",
    "OVERNIGHT_RUNNER_RESEND_SECONDS": "0.5",
    "OVERNIGHT_RUNNER_HANG_SECONDS": str(HANG_SECONDS),
    "OVERNIGHT_RECORDER_HANG_SECONDS": str(HANG_SECONDS),
    "OVERNIGHT_SUPERVISOR_CRASH_LOOP": "1000",
    "OVERNIGHT_SUPERVISOR_BACKOFF_SECONDS": "0.05",
    "OVERNIGHT_SUPERVISOR_BACKOFF_MAX_SECONDS": "0.1",
}
NEVER_FINAL = ("infra", "cancelled")


class Problem(Exception):
    """A check that is red."""

    def __init__(self, check: str, what: str) -> None:
        super().__init__(f"{check}: {what}")
        self.check = check


@dataclass
class Tail:
    """The ledger's whole rows, read on from where we were."""

    path: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    _offset: int = 0

    def poll(self) -> list[dict[str, Any]]:
        """All rows by now."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offset += len(whole)
            self.rows += [json.loads(line) for line in whole.splitlines()]
        return self.rows


@dataclass
class Ward:
    """One stage, its run, and the faults' folder."""

    stage: Stage
    broken: str | None = None
    play: Play = field(init=False)
    tail: Tail = field(init=False)
    began_bytes: int = 0

    def __post_init__(self) -> None:
        self.folder = self.stage.folder / "faults"
        self.folder.mkdir()
        stage, paths = self.stage, (REPO, REPO / "services", REPO / "tests" / "faults" / "plugins")
        stage.entry = ("-m", "tests.faults.armed", "overnight.cli")
        stage.environment = {
            **ENVIRONMENT,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "FAULT_FOLDER": str(self.folder),
            **({"OVERNIGHT_BREAK": self.broken} if self.broken else {}),
        }
        stage.toy(
            0.04, deadline_seconds=DEADLINE_SECONDS, proposer={"name": "moody"},
            pools={"default": {"runners": 1}},
        )  # fmt: skip
        self.tail = Tail(stage.root / "ledger.jsonl")
        self.start()
        self.expect_next(time.monotonic() + 60, seq=0)
        self.began_bytes = _disk(stage.folder)

    # -- what a user does -------------------------------------------------------------------------

    def start(self) -> None:
        """The same command, every time."""
        words = ("run", str(self.stage.repo), "--max", "1000000", "--json")
        self.play = self.stage.start(*words)

    def restart(self) -> None:
        """What is left of the last run is dead, and it is started again."""
        if not self.play.over:
            self.play.kill()
        self.play.process.wait()
        self.all_dead()
        self.start()

    def all_dead(self) -> None:
        """Nothing outlives a supervisor."""
        until = time.monotonic() + 5
        while left := self.stage.alive():
            if time.monotonic() > until:
                words = [(p.pid, p.state(), p.argv[:6]) for p in left]
                for process in left:
                    process.kill()
                raise Problem("no orphan", f"outlived their supervisor: {words}")
            time.sleep(0.02)

    # -- what is done to it -----------------------------------------------------------------------

    def arm(self, word: str) -> None:
        """The next process that gets there is struck, once."""
        (self.folder / "fired").unlink(missing_ok=True)
        (self.folder / "next").write_text(word)
        os.replace(self.folder / "next", self.folder / "armed")

    @property
    def fired(self) -> bool:
        """Has the fault struck?"""
        return (self.folder / "fired").exists()

    def service(self, name: str) -> procs.Process:
        """The live process of a service, when it is there."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = self.stage.service(name)
            if found is not None:
                return found
            if self.play.over:
                self.restart()
            time.sleep(0.02)
        raise Problem("next experiment", f"{name} does not run")

    def redis(self) -> redis.Redis:
        """A client of the session's server."""
        stack = self.stage.stack()
        if stack is None:
            raise Problem("next experiment", "there is no stack")
        return redis.Redis.from_url(stack["redis_url"], socket_timeout=5)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.play.process.send_signal(signal.SIGINT)

    # -- what must hold ---------------------------------------------------------------------------

    def seq(self) -> int:
        """Rows by now."""
        return len(self.tail.poll())

    def next_decided(self, seq: int) -> bool:
        """Was an experiment that was proposed after row *seq* decided by its own merit?"""
        fresh = {r["body"]["id"] for r in self.tail.poll()[seq:] if r["kind"] == "proposed"}
        return any(
            row["kind"] == "decision"
            and row["body"]["id"] in fresh
            and row["body"]["verdict"] in ("keep", "discard")
            for row in self.tail.rows[seq:]
        )

    def expect_next(self, until: float, seq: int) -> None:
        """Until *until* (monotonic) a fresh experiment is decided; a dead run is started again."""
        while not self.next_decided(seq):
            if self.play.over:
                self.restart()
                until = time.monotonic() + STACK_SECONDS
            if time.monotonic() > until:
                raise Problem("next experiment", "none was decided in time; " + self._state())
            time.sleep(0.02)

    def check_rows(self) -> None:
        """One terminal row an experiment, each message one row, at most one decision."""
        finals: Counter[int] = Counter()
        decisions: Counter[int] = Counter()
        for row in self.tail.poll():
            body = row["body"]
            if row["kind"] == "result" and (
                body["status"] not in NEVER_FINAL or body["reason"] == "gave_up"
            ):
                finals[body["id"]] += 1
            elif row["kind"] == "decision":
                decisions[body["id"]] += 1
        doubled = [i for i, n in (finals | decisions).items() if n > 1]
        keys = Counter(row["key"] for row in self.tail.rows)
        doubled_keys = [key for key, n in keys.items() if n > 1]
        if doubled or doubled_keys:
            raise Problem("one terminal row", f"experiments {doubled}, keys {doubled_keys}")

    def check_processes(self) -> None:
        """Every process of the session hangs below its supervisor."""
        until = time.monotonic() + 3
        while strays := self._strays():
            if time.monotonic() > until:
                raise Problem("no orphan", str([(p.pid, p.argv[:6]) for p in strays]))
            time.sleep(0.05)

    def _strays(self) -> list[procs.Process]:
        top = self.play.process.pid
        alive = [p for p in self.stage.alive() if p.pid != top]
        return [p for p in alive if top not in procs.ancestors(p.pid) and p.alive]

    def check_bounds(self) -> None:
        """Memory of each service, and disk by the number of experiments."""
        stack = self.stage.stack() or {"children": {}}
        for name, pid in stack["children"].items():
            rss = procs.status(pid).get("VmRSS", "0 kB").split()[0]
            if int(rss) > MOST_RSS_MB * 1024:
                raise Problem("memory", f"{name} has {int(rss) // 1024} MB")
        experiments = sum(1 for row in self.tail.rows if row["kind"] == "proposed")
        used = _disk(self.stage.folder) - self.began_bytes
        allowed = DISK_SLACK_BYTES + experiments * DISK_PER_EXPERIMENT_BYTES
        if used > allowed:
            raise Problem("disk", f"{used} bytes more than at first, {experiments} experiments")

    def finish(self) -> None:
        """Drain it like a user, and recount all that it leaves."""
        if self.play.over:
            self.restart()
            self.expect_next(time.monotonic() + STACK_SECONDS, self.seq())
        self.stage.environment.pop("OVERNIGHT_BREAK", None)
        self.stage.entry = ("-m", "overnight.cli")
        drained = self.stage.ask("drain", "--dir", str(self.stage.root))
        finished = ended(self.stage, self.play, 60, "the drained run")
        if drained.code != 0 or finished.code != 0:
            raise Problem("verify", f"drain: {drained}; the run ended with {finished}")
        verified = self.stage.ask("verify", "--dir", str(self.stage.root), "--json")
        if verified.code != 0:
            raise Problem("verify", verified.output[-2000:] + verified.errors[-500:])
        found = recount.recount(self.stage.root).findings
        if found:
            raise Problem("verify", "; ".join(f"{f.kind}: {f.what}" for f in found[:5]))
        try:
            self.stage.check_nothing_is_left()
        except AssertionError as error:
            raise Problem("no orphan", str(error)) from error

    def _state(self) -> str:
        stack = self.stage.stack()
        kinds = [row["kind"] for row in self.tail.rows[-6:]]
        return f"last rows {kinds}, stack {stack and stack['children']}"


def ended(stage: Stage, verb: Play, seconds: float, what: str) -> Finished:
    """A verb that must end in so many seconds. Raises Problem with its session's last words."""
    try:
        return verb.wait(seconds)
    except subprocess.TimeoutExpired as late:
        words = f"{what} did not end in {seconds:g} s: {last_words(stage)}"
        raise Problem("next experiment", words) from late


def last_words(stage: Stage, lines: int = 3) -> str:
    """The last lines of each service's log, a service a line."""
    found = []
    for log in sorted((stage.root / "logs").glob("*.log")):
        text = log.read_text(errors="replace").splitlines()[-lines:]
        found.append(f"{log.stem}: {' | '.join(line[-300:] for line in text)}")
    return "\n".join(found) or "it has no logs"


def _disk(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except OSError:
                continue  # gone meanwhile
    return total
