"""Play the cases to plain rq and to Overnight, and say what was left, lost or doubled.

    python -m benchmarks.reliability               # all of it, three quarters of an hour
    python -m benchmarks.reliability --only stack  # one case
    python -m benchmarks.reliability --write       # and put the tables into docs/reliability.md
    python -m benchmarks.reliability --short       # Overnight alone, once each, about a minute
    python -m benchmarks.reliability --json >a     # what --from takes, also from several runs

Exit code 1 when Overnight was not as promised: 0 left running, 0 lost, 0 doubled, nothing planted
executed. In a clone without installation: `PYTHONPATH=services python -m ...`.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.reliability import cases, report
from benchmarks.reliability.cases import Case, NotReachedError
from benchmarks.reliability.outcome import Outcome, cell
from benchmarks.reliability.report import OURS
from benchmarks.reliability.session import Overnight
from benchmarks.reliability.system import LONG_SECONDS

TRIES = 3  #: for a moment that did not come
SHORT_JOBS = 4  #: cases at the same time in the short form: they mostly wait


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    known = [case.name for case in cases.ALL]
    parser.add_argument("--only", action="append", choices=known, help="a case; may be repeated")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--seed", type=int, default=None, help="of the instants of faults")
    parser.add_argument("--long-seconds", type=float, default=LONG_SECONDS, metavar="S",
                        help="a training at which a worker is killed (default 8)")  # fmt: skip
    parser.add_argument("--short", action="store_true", help="Overnight alone, once each")
    parser.add_argument("--ours", action="store_true", help="Overnight alone")
    parser.add_argument("--json", action="store_true", help="print every repetition as JSON")
    parser.add_argument("--from", dest="earlier", action="append", metavar="FILE", type=Path,
                        help="play nothing, take what --json printed; may be repeated")  # fmt: skip
    parser.add_argument("--write", action="store_true", help=f"put the tables into {report.NAME}")
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    if options.write and (options.short or options.only or options.ours):
        parser.error("--write needs a whole run: leave out --short, --only and --ours")
    return options


def main() -> int:
    """0: Overnight was as promised, 1: it was not."""
    options = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whatever runs is ended then
    seed = random.randrange(2**32) if options.seed is None else options.seed
    began = time.monotonic()
    if options.short:
        return _short(seed, began, options.only)
    if options.earlier:
        results = report.load(options.earlier)
    else:
        _say(f"--seed {seed}   {report.machine()}")
        rng = random.Random(seed)
        results = {case.name: _columns(case, options, rng) for case in cases.ALL
                   if not options.only or case.name in options.only}  # fmt: skip
    print(report.dump(results) if options.json else report.text(results))
    if options.write:
        report.write(results)
    broken = [name for name, columns in results.items()
              if not all(outcome.as_promised for outcome in columns[OURS])]  # fmt: skip
    return _verdict(len(results), broken, began)


def short_cases(only: list[str] | None) -> list[Case]:
    """What the short form plays, the longest first: its own choice, or what is asked for."""
    return [case for case in (*cases.FAULTS, *cases.CHILDREN)
            if (case.name in only if only else case.short)]  # fmt: skip


def _short(seed: int, began: float, only: list[str] | None) -> int:
    """Each case in a process of its own, so that several play at the same time."""
    chosen = short_cases(only)
    rng = random.Random(seed)
    _say(f"--seed {seed}   {report.machine()}")
    calls = [
        [sys.executable, "-m", "benchmarks.reliability", "--ours", "--json", "--repeat", "1",
         "--long-seconds", "4", "--only", case.name, "--seed", str(rng.randrange(2**32))]
        for case in chosen
    ]  # fmt: skip
    with ThreadPoolExecutor(SHORT_JOBS) as pool:
        codes = list(pool.map(_alone, chosen, calls))
    broken = [case.name for case, code in zip(chosen, codes, strict=True) if code]
    return _verdict(len(chosen), broken, began)


def _alone(case: Case, call: list[str]) -> int:
    """Its exit code. Of what it says only what is the case's own, all when it goes wrong."""
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()
    for line in said:
        if done.returncode or line.split(maxsplit=1)[:1] in ([case.name], [f"{case.name}:"]):
            _say(line)
    return done.returncode


def _verdict(played: int, broken: list[str], began: float) -> int:
    _say(f"{time.monotonic() - began:.0f} s; Overnight as promised in {played - len(broken)} of "
         f"{played} cases" + (f", not in: {', '.join(broken)}" if broken else ""))  # fmt: skip
    return 1 if broken else 0


def _columns(
    case: Case, options: argparse.Namespace, rng: random.Random
) -> dict[str, list[Outcome]]:
    """One case, played to each system so many times."""
    systems: dict[str, cases.Make] = {} if options.ours else dict(case.rq)
    systems[OURS] = Overnight
    played: dict[str, list[Outcome]] = {}
    for name, make in systems.items():
        began = time.monotonic()
        seeds = [rng.randrange(2**32) for _ in range(options.repeat)]
        played[name] = [_play(case, make, seed, options.long_seconds) for seed in seeds]
        _say(f"{case.name:<16} {name:<28} {cell(played[name])}   seeds {seeds} "
             f"({time.monotonic() - began:.0f} s)")  # fmt: skip
    return played


def _play(case: Case, make: cases.Make, seed: int, long_seconds: float) -> Outcome:
    for attempt in range(TRIES):
        with make() as system:
            system.long_seconds = long_seconds
            try:
                outcome = case.play(system, random.Random(seed + attempt))
            except NotReachedError as error:
                _say(f"  {case.name}: the moment did not come, once more: {error}")
                continue
            return dataclasses.replace(outcome, seed=seed + attempt)
    raise SystemExit(f"{case.name}: the moment did not come {TRIES} times")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
