"""Torture: faults by the seed until the time is over, then everything is healed and recounted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.untrusted import one_line
from overnight.ledger.stamp import utc_label
from overnight.sessions.torture import leftovers, recount
from overnight.sessions.torture.faults import Fault, draw
from overnight.sessions.torture.observer import Observer
from overnight.sessions.torture.repository import prepare, surroundings
from overnight.sessions.torture.victim import MissedError, Victim

TICK_SECONDS = 0.05
PACE_SECONDS = 0.9  #: between two faults, on the average
AIM_SECONDS = 5.0  #: a fault waits so long for what it is aimed at to be up
BASELINE_SECONDS = 90.0
HEAL_SECONDS = 60.0  #: for what stands still or is full to be as it was
LIVELY_DECISIONS = 3  #: after the last fault, to show that the session goes on
LIVELY_SECONDS = 90.0
DRAIN_SECONDS = 120.0
CHECK_SECONDS = 300.0
RESUME_SECONDS = 5.0
MEMORY_SECONDS = 5.0  #: between two looks
MOST_MEMORY_MB = 512.0  #: of a service; more is a leak, or a buffer without bound


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked for."""

    minutes: float
    seed: int
    folder: Path  #: empty, or not there yet
    environ: Mapping[str, str]


@dataclass
class Report:
    """What came of it. Counts of findings; their texts are in `problems`."""

    seed: int
    session_dir: str
    seconds: float = 0.0
    faults: int = 0
    experiments: int = 0  #: decided
    lost: int = 0
    doubled: int = 0
    orphans: int = 0
    problems: list[str] = field(default_factory=list)
    by_kind: dict[str, int] = field(default_factory=dict)
    missed: int = 0  #: faults that found nothing to hit, not counted above
    starts: int = 0  #: of the whole stack
    rows: int = 0
    attempts: int = 0
    superseded: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    longest_wait_s: float = 0.0  #: between two decisions
    memory_mb: dict[str, float] = field(default_factory=dict)  #: most of each service
    disk_mb: float = 0.0  #: the session's folder at the end

    @property
    def ok(self) -> bool:
        """Nothing lost, doubled, left, or otherwise wrong."""
        return not (self.lost or self.doubled or self.orphans or self.problems)

    def as_json(self) -> dict[str, Any]:
        """The shape of `--json`."""
        return {"ok": self.ok, **asdict(self)}


#: Told what just happened ("" = time has passed), the figures so far, and whether it matters.
Tell = Callable[[str, Report, bool], None]


class Torture:
    """One torture. `run` must be called from the main thread."""

    def __init__(self, plan: Plan, tell: Tell) -> None:
        self._plan = plan
        self._tell = tell
        self._rng = random.Random(plan.seed)  # noqa: S311 - to be drawn again from the seed
        self._victim = Victim(plan.folder, {})
        self._observer = Observer(
            self._victim.mark, self._victim.files.root, surroundings(plan.folder).records
        )
        self.report = Report(seed=plan.seed, session_dir=str(self._victim.files.root))
        self._began = time.monotonic()
        self._looked_at = 0.0
        self._interrupts = 0

    def run(self) -> Report:
        """All of it, to the figures.

        Raises:
            InfrastructureError: there is nothing to torture: the session did not begin.
            KeyboardInterrupt: interrupted twice; everything was killed.
        """
        victim = self._victim
        previous = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            victim.environ = prepare(victim, self._plan.seed, self._plan.environ)
            self._observer.start()
            victim.start()
            self._wait_for_baseline()
            self._strike_until(time.monotonic() + self._plan.minutes * 60)
            self._tell("the faults are over: healing", self._figures(), True)
            self._heal()
            self._end()
            self._observer.stop_looking()
            self._recount()
            return self._figures()
        finally:
            victim.kill()
            victim.sweep()
            self._observer.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt

    def _figures(self) -> Report:
        report, victim = self.report, self._victim
        report.seconds = round(time.monotonic() - self._began, 1)
        report.experiments = victim.decided()
        report.starts = victim.starts
        report.longest_wait_s = round(victim.longest_wait_seconds, 1)
        return report

    def _problem(self, what: str) -> None:
        self.report.problems.append(what)
        self._tell(f"PROBLEM: {what}", self._figures(), True)

    # -- before ---------------------------------------------------------------------------------

    def _wait_for_baseline(self) -> None:
        victim = self._victim
        until = time.monotonic() + BASELINE_SECONDS
        while not victim.decided():
            if victim.ended() is not None:
                raise InfrastructureError(f"the session did not begin: {victim.last_words()}")
            if time.monotonic() > until:
                raise InfrastructureError(f"no baseline after {BASELINE_SECONDS:g} s")
            if self._interrupts:
                raise KeyboardInterrupt
            time.sleep(TICK_SECONDS)
        isolation = victim.stack().get("isolation")
        if isolation != "namespaces":
            raise InfrastructureError(
                f"torture runs hostile code: it needs namespaces, this host gives {isolation}"
            )
        victim.decided_at = time.monotonic()
        self._tell("the baseline stands, faults begin", self._figures(), True)

    # -- the faults -----------------------------------------------------------------------------

    def _strike_until(self, until: float) -> None:
        """The seed's sequence of faults; each waits a while for something to hit."""
        rng, next_at = self._rng, time.monotonic()
        fault, aim = draw(rng), rng.getrandbits(64)
        while (now := time.monotonic()) < until and not self._interrupts:
            self._tend()
            hit = now >= next_at and self._strike(fault, aim)
            if hit or now > next_at + AIM_SECONDS:
                self.report.missed += 0 if hit else 1
                fault, aim = draw(rng), rng.getrandbits(64)
                next_at = time.monotonic() + rng.uniform(0, 2 * PACE_SECONDS)
            self._tell("", self._figures(), False)
            time.sleep(TICK_SECONDS)

    def _strike(self, fault: Fault, aim: int) -> bool:
        """False when it found nothing to hit."""
        try:
            said = fault.strike(self._victim, random.Random(aim))  # noqa: S311
        except (MissedError, InfrastructureError, OSError, ValueError):
            return False
        report = self.report
        report.faults += 1
        report.by_kind[fault.name] = report.by_kind.get(fault.name, 0) + 1
        with (self._victim.folder / "faults.log").open("a", encoding="utf-8") as log:
            log.write(f"{utc_label()} {one_line(said, 300)}\n")
        self._tell(said, self._figures(), False)
        return True

    def _tend(self) -> None:
        """Undo what is due; start what ended by itself, which it must not do."""
        victim = self._victim
        victim.do_what_is_due()
        if time.monotonic() - self._looked_at > MEMORY_SECONDS:
            self._looked_at = time.monotonic()
            most = self.report.memory_mb
            most |= {n: max(mb, most.get(n, 0.0)) for n, mb in victim.memory_mb().items()}
        code = victim.ended()
        if code is not None:
            self._problem(f"the session ended by itself with {code}: {victim.last_words()}")
            time.sleep(1.0)
            victim.start()

    # -- after ----------------------------------------------------------------------------------

    def _heal(self) -> None:
        """All as it was; then the session must go on by itself."""
        victim = self._victim
        until = time.monotonic() + HEAL_SECONDS
        while not victim.do_what_is_due(all_of_it=True) and time.monotonic() < until:
            time.sleep(TICK_SECONDS)
        wanted = victim.decided() + LIVELY_DECISIONS
        until = time.monotonic() + LIVELY_SECONDS
        resume_at = time.monotonic() + RESUME_SECONDS
        while victim.decided() < wanted:
            self._tend()
            if time.monotonic() > until:
                self._problem(f"not {LIVELY_DECISIONS} decisions {LIVELY_SECONDS:g} s after it all")
                return
            if time.monotonic() > resume_at:  # a last `pause` of ours may have come late
                resume_at = time.monotonic() + RESUME_SECONDS
                victim.ask("resume")
            time.sleep(TICK_SECONDS)

    def _end(self) -> None:
        victim = self._victim
        until = time.monotonic() + DRAIN_SECONDS
        while (code := victim.ask_and_wait("drain", DRAIN_SECONDS)) != 0:
            if victim.ended() is not None or time.monotonic() > until:
                self._problem(f"`overnight drain` gave {code}")
                break
            time.sleep(1.0)
        while victim.ended() is None and time.monotonic() < until:
            victim.do_what_is_due()
            time.sleep(TICK_SECONDS)
        if victim.ended() is None:
            self._problem(f"the session did not drain within {DRAIN_SECONDS:g} s")
            victim.kill()
            time.sleep(2.0)  # for what dies with it
        elif victim.ended() != 0:
            self._problem(f"the drained session gave {victim.ended()}: {victim.last_words()}")

    def _recount(self) -> None:
        """By the stand-alone checkers, each a process of its own that knows no service."""
        victim, report = self._victim, self.report
        root = str(victim.files.root)
        seen = victim.folder / "seen.json"
        around = surroundings(victim.folder)
        facts = leftovers.Seen(
            marks=victim.marks, namespaces=self._observer.namespaces,
            tokens=tuple(sorted(self._observer.tokens)), records=str(around.records),
            sockets=str(around.sockets), locks=str(around.locks),
        )  # fmt: skip
        seen.write_text(json.dumps(asdict(facts)))
        left = _checked(leftovers.__file__, root, "--seen", str(seen))
        found = _checked(
            recount.__file__, root, "--forged", victim.forged, "--canary", str(victim.canary)
        )
        if not self._observer.tokens:
            self._problem("the observer saw no sandbox")
        for name, mb in report.memory_mb.items():
            if mb > MOST_MEMORY_MB:
                self._problem(f"{name} took {mb:g} MB of memory")
        sizes = (path.lstat().st_size for path in victim.files.root.rglob("*"))
        report.disk_mb = round(sum(sizes) / 1024**2, 1)
        for kind in ("lost", "doubled", "problems"):
            report.problems += [str(what) for what in found[kind]]
        report.problems += [f"left: {what}" for what in left["orphans"]]
        report.problems += victim.problems
        report.lost, report.doubled = len(found["lost"]), len(found["doubled"])
        report.orphans = len(left["orphans"]) + len(victim.problems)
        report.rows, report.attempts = found["rows"], found["attempts"]
        report.superseded, report.verdicts = found["superseded"], found["verdicts"]
        if found["experiments"] > victim.decided():  # a later decision may replace one
            self._problem(f"{found['experiments']} proposed, {victim.decided()} seen decided")


def _checked(script: str, *words: str) -> dict[str, Any]:
    """What one of the checkers says."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, *words],
        capture_output=True, text=True, timeout=CHECK_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1) or not done.stdout:
        raise InfrastructureError(f"{os.path.basename(script)}: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
