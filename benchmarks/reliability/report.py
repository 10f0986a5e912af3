"""What was measured: as JSON, as two Markdown tables, and into docs/reliability.md."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.reliability import cases, table
from benchmarks.reliability.outcome import Outcome, cell

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
NAME = "docs/reliability.md"
OURS = "Overnight"

Results = dict[str, dict[str, list[Outcome]]]  #: case -> system -> repetitions


def dump(results: Results) -> str:
    """All repetitions, for `load`."""
    return json.dumps(
        {
            case: {name: [dataclasses.asdict(o) for o in played] for name, played in row.items()}
            for case, row in results.items()
        }
    )


def load(files: Sequence[Path]) -> Results:
    """What several runs have dumped; a later file's case replaces an earlier one's."""
    results: Results = {}
    for file in files:
        for case, row in json.loads(file.read_text("utf-8")).items():
            results[case] = {name: [Outcome(**o) for o in played] for name, played in row.items()}
    return results


def text(results: Results) -> str:
    """Machine, date and tables."""
    repetitions = {len(played) for row in results.values() for played in row.values()}
    today = datetime.datetime.now(datetime.UTC).date()
    times = " or ".join(str(number) for number in sorted(repetitions))
    parts = [f"Measured on {today}: {machine()}. {times} repetitions a cell."]
    children = {case.title: {name: cell(played) for name, played in results[case.name].items()}
                for case in cases.CHILDREN if case.name in results}  # fmt: skip
    faults = {case.title: _joined(results[case.name])
              for case in cases.FAULTS if case.name in results}  # fmt: skip
    if children:
        parts.append(table.table("past its deadline, the script has started", children))
    if faults:
        parts.append(table.table("what happens", faults))
    return "\n\n".join(parts) + "\n"


def write(results: Results) -> None:
    """Put the tables between the markers of the document."""
    table.write(DOCUMENT, text(results))


def machine() -> str:
    """One line; figures are compared within one table only."""
    lines = Path("/etc/os-release").read_text("utf-8").splitlines()
    names = [line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    server = subprocess.run(
        ["redis-server", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return (
        f"{os.cpu_count()} shared cores, {names[0]}, Linux {os.uname().release.split('-')[0]}, "
        f"Python {sys.version.split()[0]}, rq {version('rq')}, {' '.join(server.split()[:3])}"
    )


def _joined(row: dict[str, list[Outcome]]) -> dict[str, str]:
    """Variants of rq in one column, said one after the other."""
    said = [
        cell(played) if name == cases.PLAIN else f"{name}: {cell(played)}"
        for name, played in row.items()
        if name != OURS
    ]
    return {cases.PLAIN: "<br>".join(said) or "not run", OURS: cell(row[OURS])}
