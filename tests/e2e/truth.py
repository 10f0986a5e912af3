"""Reads a session's files as plain JSON and says whether they are whole. Imports no service.

What the protocol promises is written down here a second time, in the checker's own words.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

Row = dict[str, Any]
NEVER_FINAL = ("infra", "cancelled")
NO_TSV_LINE = ("rejected", "infra", "cancelled")


def canonical(value: object) -> str:
    """Sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def row_hash(row: Row) -> str:
    """sha256(prev + canonical JSON of the row without hash)."""
    plain = {name: value for name, value in row.items() if name != "hash"}
    return hashlib.sha256((row["prev"] + canonical(plain)).encode()).hexdigest()


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
    finals: dict[int, Row] = {}
    for row in rows:
        body = row["body"]
        if row["kind"] != "result" or (
            body["status"] in NEVER_FINAL and body["reason"] != "gave_up"
        ):
            continue
        assert body["id"] not in finals, f"experiment {body['id']} has two final results"
        finals[body["id"]] = body
    return finals


def decision_of(rows: list[Row]) -> dict[int, Row]:
    """Experiment -> body of its decision, in order of the decisions."""
    decisions: dict[int, Row] = {}
    for row in rows:
        if row["kind"] == "decision":
            assert row["body"]["id"] not in decisions, f"{row['body']['id']} is decided twice"
            decisions[row["body"]["id"]] = row["body"]
    return decisions


def check_session(root: Path, candidates: int) -> list[Row]:
    """A session of so many candidates that is over: chain, protocol, decisions, exports, folders.

    Returns the rows. Raises AssertionError with what is not as promised.
    """
    text = (root / "ledger.jsonl").read_bytes()
    assert text.endswith(b"\n"), "the ledger's last row is torn"
    rows = read_rows(root)
    check_chain(root, rows)
    proposed = [row["body"]["id"] for row in rows if row["kind"] == "proposed"]
    assert proposed == list(range(1, candidates + 2)), f"experiments are {proposed}"
    _check_attempts(rows, proposed)
    finals, decisions = final_of(rows), decision_of(rows)
    assert sorted(finals) == proposed, f"no final result: {sorted(set(proposed) - set(finals))}"
    assert sorted(decisions) == proposed, f"undecided: {sorted(set(proposed) - set(decisions))}"
    check_decisions(rows)
    check_exports(root, rows)
    check_folders(root)
    return rows


def check_chain(root: Path, rows: list[Row]) -> None:
    """Each row hangs on the one before, and the head names the last."""
    prev = "0" * 64
    for number, row in enumerate(rows, start=1):
        assert row["seq"] == number, f"line {number} has seq {row['seq']}"
        assert row["prev"] == prev, f"line {number} does not hang on the row before"
        assert row["hash"] == row_hash(row), f"line {number}: the hash does not fit"
        prev = row["hash"]
    keys = Counter(row["key"] for row in rows)
    assert max(keys.values()) == 1, f"keys with two rows: {[k for k, n in keys.items() if n > 1]}"
    assert len({row["session"] for row in rows}) == 1
    assert json.loads((root / "ledger.head").read_text()) == {"seq": len(rows), "hash": prev}


def _check_attempts(rows: list[Row], experiments: list[int]) -> None:
    issued: dict[int, list[int]] = {i: [] for i in experiments}
    answered: Counter[tuple[int, int]] = Counter()
    for row in rows:
        body = row["body"]
        if row["kind"] == "attempt_issued":
            assert all(answered[(body["id"], n)] == 1 for n in issued[body["id"]]), (
                f"attempt {body['attempt']} of {body['id']} was issued before the last one ended"
            )
            issued[body["id"]].append(body["attempt"])
        elif row["kind"] == "result":
            assert body["attempt"] == issued[body["id"]][-1], "a result of an older attempt"
            answered[(body["id"], body["attempt"])] += 1
    for experiment, attempts in issued.items():
        assert attempts == list(range(1, len(attempts) + 1)), f"{experiment}: attempts {attempts}"
    assert set(answered.values()) == {1}, "an attempt has two accepted results"


def check_decisions(rows: list[Row]) -> None:
    """Strictly better than the best so far is kept, in the order of the decisions."""
    finals = final_of(rows)
    best: int | None = None
    for experiment, decision in decision_of(rows).items():
        final = finals[experiment]
        assert decision["incumbent_before"] == best, (
            f"decision on {experiment} forgot the incumbent"
        )
        if final["status"] != "scored":
            expected = final["status"]
        elif best is None or final["metric"] < finals[best]["metric"]:
            expected, best = "keep", experiment
        else:
            expected = "discard"
        assert decision["verdict"] == expected, f"{experiment}: {decision} is not {expected}"
        assert decision["incumbent_after"] == best, f"{experiment}: {decision}"


def check_exports(root: Path, rows: list[Row]) -> None:
    """results.tsv and experiments.jsonl say what the ledger says, one line an experiment."""
    finals, decisions = final_of(rows), decision_of(rows)
    proposals = {row["body"]["id"]: row["body"] for row in rows if row["kind"] == "proposed"}
    opened = next(row["body"] for row in rows if row["kind"] == "session_opened")
    table = ["\t".join(("commit", opened["config"]["metric"]["name"], "memory_gb", "status",
                        "description"))]  # fmt: skip
    for experiment, decision in decisions.items():
        if decision["verdict"] in NO_TSV_LINE:
            continue
        final, proposal = finals[experiment], proposals[experiment]
        label = f"iter{experiment}" if opened["branch"] is None else proposal["commit"][:7]
        failed = decision["verdict"] in ("crash", "timeout")
        status = "crash" if failed else "keep" if decision["verdict"] == "keep" else "discard"
        text = "baseline" if experiment == 1 else proposal["hypothesis"]
        text += " (timeout)" if decision["verdict"] == "timeout" else ""
        text += " (OOM)" if decision["reason"] == "oom" and failed else ""
        metric = 0.0 if failed else final["metric"]
        memory = 0.0 if failed else (final["peak_vram_mb"] or 0.0) / 1024
        table.append(f"{label}\t{metric:.6f}\t{memory:.1f}\t{status}\t{text}")
    assert (root / "results.tsv").read_text().splitlines() == table
    lines = [json.loads(line) for line in (root / "experiments.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(decisions), "experiments.jsonl"
    for line in lines:
        experiment = line["id"]
        assert list(line)[:6] == ["id", "branch", "hypothesis", "metric", "runtime_s", "notes"]
        scored = finals.get(experiment, {}).get("metric")
        assert line["metric"] == scored, f"experiments.jsonl: metric of {experiment}"
        assert line["status"] == decisions[experiment]["verdict"]
        assert line["hypothesis"] == proposals[experiment]["hypothesis"]


def check_folders(root: Path) -> None:
    """A run that is over leaves no stack, no claim, no undelivered result, no working folder."""
    left = [root / name for name in ("stack.json", "stack.tmp", "ledger.tmp")]
    for runner in (root / "runners").iterdir():
        left += [runner / "claimed", *runner.glob("work-*"), *runner.glob("outbox/**/*.json")]
    kept = [str(path) for path in left if path.exists()]
    assert kept == [], f"left behind: {kept}"
