"""Says whether a session's files are whole, and forges them for tests. Imports no service.

The rules are those of the product's own stand-alone checker, `recount.py`, which imports nothing
of the product either: what the protocol promises is written down a second time there, and only
there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from overnight.sessions.torture import recount
from overnight.sessions.torture.recount import canonical, row_hash

Row = dict[str, Any]

__all__ = ["canonical", "row_hash"]


def read_rows(root: Path) -> list[Row]:
    """All rows as they stand there; an unterminated last line is left out. Checks nothing."""
    path = root / "ledger.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def write_rows(root: Path, rows: list[Row], *, head: bool = True) -> None:
    """Put *rows* there with their chain computed anew: what a careful forger would do."""
    prev, lines = "0" * 64, []
    for number, row in enumerate(rows, start=1):
        forged = {**row, "seq": number, "prev": prev}
        forged["hash"] = prev = row_hash(forged)
        lines.append(canonical(forged) + "\n")
    (root / "ledger.jsonl").write_text("".join(lines))
    if head:
        (root / "ledger.head").write_text(canonical({"seq": len(rows), "hash": prev}) + "\n")


def final_of(rows: list[Row]) -> dict[int, Row]:
    """Experiment -> body of its one final accepted result. AssertionError if there are two."""
    ended = [body["id"] for body in recount.bodies(rows, "result") if recount.is_final(body)]
    assert len(ended) == len(set(ended)), f"two final results: {ended}"
    return recount.finals(rows)


def decision_of(rows: list[Row]) -> dict[int, Row]:
    """Experiment -> body of its decision, in order of the decisions."""
    decisions = recount.bodies(rows, "decision")
    found = {body["id"]: body for body in decisions}
    assert len(found) == len(decisions), "an experiment is decided twice"
    return found


def check_session(root: Path, candidates: int) -> list[Row]:
    """A session of so many candidates that is over: chain, protocol, decisions, exports, folders.

    Returns the rows. Raises AssertionError with what is not as promised.
    """
    found = recount.recount(root)
    assert found.findings == []
    proposed = [body["id"] for body in recount.bodies(found.rows, "proposed")]
    assert proposed == list(range(1, candidates + 2)), f"experiments are {proposed}"
    return found.rows
