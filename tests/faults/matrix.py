"""The fault matrix: every step of every service, killed, failing and hanging, one after the other.

    python -m tests.faults.matrix [--only WORD] [--sessions N] [--write FILE] [--break NAME]

Cases are spread over a few sessions that run side by side. A case arms one fault, does what makes a
service get there, and then looks at everything (ward.py). Exit 1 when a check is red.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.stage import Stage
from tests.faults import provoke
from tests.faults.breaks import BREAKS
from tests.faults.ward import (
    DEADLINE_SECONDS,
    HANG_SECONDS,
    SOON_SECONDS,
    STACK_SECONDS,
    Problem,
    Ward,
    last_words,
)

from overnight.faultpoints import Step

KINDS = ("kill", "error", "hang")
REACH_SECONDS = 25.0


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    step: Step
    kind: str

    @property
    def word(self) -> str:
        """As OVERNIGHT_FAULT has it."""
        return f"{self.step.value}:{self.kind}"


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    case: Case
    seconds: float  #: from the strike to the next decided experiment
    problem: Problem | None


def all_cases() -> list[Case]:
    """Enumerated from the code: each step, in each kind."""
    return [Case(step, kind) for step in Step for kind in KINDS]


def play_case(ward: Ward, case: Case) -> float:
    """Strike once, and see the session recover; how long that took. Raises Problem."""
    if case.step.service == "repair":
        return provoke.repair(ward, case.word, case.kind)
    if case.step in provoke.OPENING:
        return provoke.opening(ward, case.word, case.kind)
    ward.arm(case.word)
    provoke.way_to(case.step)(ward)
    until = time.monotonic() + REACH_SECONDS
    while not ward.fired:
        if time.monotonic() > until:
            (ward.folder / "armed").unlink(missing_ok=True)
            raise Problem("reached", f"nothing came by {case.step.value}")
        if ward.play.over:
            ward.restart()
        time.sleep(0.01)
    struck = time.monotonic()
    seq = ward.seq()
    if case.step.service == "supervisor" and case.kind == "hang":
        time.sleep(0.3)
        ward.restart()  # nobody watches the supervisor; its user does this
    provoke.aftermath(case.step)(ward)
    patience = HANG_SECONDS + DEADLINE_SECONDS + 1 if case.kind == "hang" else 0.0
    soon = STACK_SECONDS if case.step.service == "supervisor" else SOON_SECONDS
    ward.expect_next(time.monotonic() + soon + patience, seq)
    seconds = time.monotonic() - struck
    ward.check_rows()
    ward.check_processes()
    ward.check_bounds()
    return seconds


@contextlib.contextmanager
def ward(broken: str | None = None) -> Iterator[Ward]:
    """A session in a short folder, ended and removed whatever happens."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="ovf-")))
    stage.repo.mkdir()
    try:
        yield Ward(stage, broken)
    finally:
        stage.close()


def play(cases: list[Case], tell: Callable[[Outcome], None]) -> list[Outcome]:
    """All *cases* in one session, and its end. A red case gets the next ones a new session."""
    outcomes: list[Outcome] = []
    rest = list(cases)
    while rest:
        with ward() as session:
            while rest:
                case = rest.pop(0)
                outcomes.append(_outcome(session, case, play_case))
                tell(outcomes[-1])
                if outcomes[-1].problem is not None:
                    break
            else:
                end = _outcome(session, case, lambda s, _: _finish(s))
                if end.problem is not None:
                    outcomes.append(end)
                    tell(end)
    return outcomes


def _finish(session: Ward) -> float:
    session.finish()
    return 0.0


def _outcome(session: Ward, case: Case, act: Callable[[Ward, Case], float]) -> Outcome:
    try:
        return Outcome(case, act(session, case), None)
    except Problem as problem:
        return Outcome(case, 0.0, problem)
    except subprocess.TimeoutExpired as late:  # a verb that should answer at once
        words = f"{late}: {last_words(session.stage)}"
        return Outcome(case, 0.0, Problem("next experiment", words))


def play_broken(name: str) -> Problem | None:
    """The case of a break, in a broken product: the problem that was found, None if none was."""
    wanted = BREAKS[name]
    step, _, kind = wanted.case.rpartition(":")
    try:
        with ward(name) as session:
            for _ in range(3):
                play_case(session, Case(Step(step), kind))
            session.finish()
    except Problem as problem:
        return problem
    return None


def table(outcomes: list[Outcome]) -> str:
    """Step by kind, in Markdown."""
    cells = {o.case: f"{o.seconds:.1f} s" if o.problem is None else "RED" for o in outcomes}
    lines = ["| step | killed | fails | hangs |", "|---|---|---|---|"]
    for step in Step:
        row = [cells.get(Case(step, kind), "") for kind in KINDS]
        lines.append(f"| `{step.value}` | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def summary(outcomes: list[Outcome]) -> str:
    """Medians by kind."""
    parts = []
    for kind in KINDS:
        found = [o.seconds for o in outcomes if o.case.kind == kind and o.problem is None]
        if found:
            parts.append(f"{kind}: {len(found)}, median {statistics.median(found):.1f} s, "
                         f"longest {max(found):.1f} s")  # fmt: skip
    return "; ".join(parts)


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.faults.matrix")
    parser.add_argument("--only", default="", help="cases whose word contains this")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every Nth case from the Ith")
    parser.add_argument("--sessions", type=int, default=3, help="side by side")
    parser.add_argument("--write", type=Path, help="a file whose table is replaced")
    parser.add_argument(
        "--break", dest="broken", choices=("all", *sorted(BREAKS)), help="break the product"
    )
    options = parser.parse_args(argv)
    if options.write and (options.only or options.part != "1/1"):
        parser.error("--write needs all cases: leave out --only and --part")
    if options.broken == "all":
        return _all_breaks(options.sessions)
    if options.broken:
        problem = play_broken(options.broken)
        print(f"{options.broken}: {problem or 'nothing was found'}")
        return 1 if problem else 0
    part, parts = (int(word) for word in options.part.split("/"))
    cases = [case for case in all_cases() if options.only in case.word][part - 1 :: parts]
    if not cases:
        parser.error(f"--only {options.only}: no case has that; the steps are in faultpoints.py")
    began = time.monotonic()

    def tell(outcome: Outcome) -> None:
        word = outcome.problem or f"{outcome.seconds:5.1f} s"
        print(f"{time.monotonic() - began:6.0f} s  {outcome.case.word:<45} {word}", flush=True)

    count = max(1, min(options.sessions, len(cases)))
    with ThreadPoolExecutor(count) as pool:
        played = pool.map(lambda n: play(cases[n::count], tell), range(count))
        outcomes = [outcome for some in played for outcome in some]
    red = [o for o in outcomes if o.problem is not None]
    print(f"{len(outcomes)} faults in {time.monotonic() - began:.0f} s, {len(red)} red; "
          f"until the next experiment is decided: {summary(outcomes)}")  # fmt: skip
    if options.write and not red:
        _write(options.write, outcomes, time.monotonic() - began)
    return 1 if red else 0


def _all_breaks(sessions: int) -> int:
    """Every break turns its own check red: 0 when all do."""
    blind = 0
    with ThreadPoolExecutor(sessions) as pool:
        for name, problem in zip(BREAKS, pool.map(play_broken, BREAKS), strict=True):
            seen = problem is not None and problem.check == BREAKS[name].red
            print(f"{'red as it must be' if seen else 'NOT SEEN':<18} {name}: {problem}"[:200])
            blind += not seen
    return 1 if blind else 0


def _write(path: Path, outcomes: list[Outcome], seconds: float) -> None:
    mark = "<!-- made by: python -m tests.faults.matrix --write -->\n"
    head, _, _ = path.read_text().partition(mark)
    words = f"{len(outcomes)} faults in {seconds:.0f} s. {summary(outcomes)}.\n\n"
    path.write_text(head + mark + words + table(outcomes))


if __name__ == "__main__":
    sys.exit(main())
