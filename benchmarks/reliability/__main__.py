"""Play the cases to plain rq and to Overnight, and say what was left, lost or doubled.

    python -m benchmarks.reliability               # all of it, half an hour
    python -m benchmarks.reliability --only stack  # one case
    python -m benchmarks.reliability --write       # and put the tables into docs/reliability.md
    python -m benchmarks.reliability --short       # Overnight alone, once each, about a minute

Exit code 1 when Overnight was not as promised: 0 left running, 0 without a result, 0 doubled,
nothing planted executed. Run it on a quiet machine: `PYTHONPATH=services python -m ...`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.reliability import cases, table
from benchmarks.reliability.cases import Case, NotReachedError
from benchmarks.reliability.outcome import Outcome, cell
from benchmarks.reliability.system import System

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
OURS = "Overnight"
TRIES = 3  #: for a moment that did not come


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    known = [case.name for case in (*cases.CHILDREN, *cases.FAULTS)]
    parser.add_argument("--only", action="append", choices=known, help="a case; may be repeated")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--seed", type=int, default=None, help="of the instants of faults")
    parser.add_argument("--short", action="store_true", help="Overnight alone, once each")
    parser.add_argument("--ours", action="store_true", help="Overnight alone")
    parser.add_argument("--json", action="store_true", help="print every repetition as JSON")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {DOCUMENT.name}")
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    if options.write and (options.short or options.only or options.ours):
        parser.error("--write needs a whole run: leave out --short, --only and --ours")
    if options.short:
        options.ours, options.repeat = True, 1
    return options


def _play(case: Case, make: type[System], seed: int) -> Outcome:
    for attempt in range(TRIES):
        with make() as system:
            try:
                outcome = case.play(system, random.Random(seed + attempt))
            except NotReachedError as error:
                _say(f"  the moment did not come, once more: {error}")
                continue
            return dataclasses.replace(outcome, seed=seed + attempt)
    raise SystemExit(f"{case.name}: the moment did not come {TRIES} times")


def _columns(
    case: Case, options: argparse.Namespace, rng: random.Random
) -> dict[str, list[Outcome]]:
    systems: dict[str, type[System]] = {} if options.ours else {
        f"plain rq: {name}" if name else "plain rq": make for name, make in case.rq.items()
    }  # fmt: skip
    systems[OURS] = cases.OVERNIGHT
    played: dict[str, list[Outcome]] = {}
    for name, make in systems.items():
        began = time.monotonic()
        seeds = [rng.randrange(2**32) for _ in range(options.repeat)]
        played[name] = [_play(case, make, seed) for seed in seeds]
        _say(f"{case.name:<16} {name:<34} {cell(played[name])}   seeds {seeds} "
             f"({time.monotonic() - began:.0f} s)")  # fmt: skip
    return played


def _joined(columns: dict[str, list[Outcome]]) -> dict[str, str]:
    """Variants of rq in one column, said one after the other."""
    theirs = {name: outcomes for name, outcomes in columns.items() if name != OURS}
    said = [
        f"{name.removeprefix('plain rq').removeprefix(': ')}: {cell(outcomes)}".removeprefix(": ")
        for name, outcomes in theirs.items()
    ]
    return {"plain rq": "<br>".join(said), OURS: cell(columns[OURS])}


def _machine() -> str:
    system = next(
        line.split("=", 1)[1].strip().strip('"')
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("PRETTY_NAME=")
    )
    server = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    redis_version = server.split("v=")[1].split()[0] if "v=" in server else "?"
    return (
        f"{os.cpu_count()} shared cores, {system}, Linux {os.uname().release}; "
        f"Python {sys.version.split()[0]}, rq {version('rq')}, Redis {redis_version}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """0: Overnight was as promised, 1: it was not."""
    options = _arguments()
    seed = random.randrange(2**32) if options.seed is None else options.seed
    rng = random.Random(seed)
    began = time.monotonic()
    _say(f"--seed {seed}   {_machine()}")
    results: dict[str, dict[str, list[Outcome]]] = {}
    chosen: Sequence[Case] = (*cases.CHILDREN, *cases.FAULTS)
    for case in chosen:
        if (options.only and case.name not in options.only) or (options.short and not case.short):
            continue
        results[case.name] = _columns(case, options, rng)
    if options.json:
        print(json.dumps({name: {column: [dataclasses.asdict(o) for o in outcomes]
                                 for column, outcomes in columns.items()}
                          for name, columns in results.items()}))  # fmt: skip
    text = _report(results, options.repeat, seed)
    if not options.json:
        print(text)
    if options.write:
        table.write(DOCUMENT, text)
    broken = [name for name, columns in results.items()
              if not all(outcome.as_promised for outcome in columns[OURS])]  # fmt: skip
    _say(f"{time.monotonic() - began:.0f} s; Overnight as promised in "
         f"{len(results) - len(broken)} of {len(results)} cases"
         + (f", not in: {', '.join(broken)}" if broken else ""))  # fmt: skip
    return 1 if broken else 0


def _report(results: dict[str, dict[str, list[Outcome]]], repeat: int, seed: int) -> str:
    children = {case.title: {name: cell(outcomes) for name, outcomes in results[case.name].items()}
                for case in cases.CHILDREN if case.name in results}  # fmt: skip
    faults = {case.title: _joined(results[case.name])
              for case in cases.FAULTS if case.name in results}  # fmt: skip
    today = datetime.datetime.now(datetime.UTC).date()
    parts = [f"Measured on {today}: {_machine()}. {repeat} repetitions a cell, `--seed {seed}`."]
    if children:
        parts.append(table.table("past its deadline, the script has started", children))
    if faults:
        parts.append(table.table("what happens", faults))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
