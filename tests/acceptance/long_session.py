"""Writes a whole long session by hand: its ledger with a real chain, two real trees, a long log.

The rows are made without the ledger's own code; `verify` has to agree with each of them. Verdicts
follow policy version 1: strictly better is kept.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from tests.unit.ledger.history_of import SID, opening

from overnight.contracts import wire
from overnight.contracts.rows import ROW_VERSION
from overnight.snapshots.edits import CandidateEdit
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.tree import scan

LOG_BYTES = 9 * 1024 * 1024
TRAIN = "LR = 0.1\nDEPTH = 4\nprint('val_bpb: 1.0')\n"
KNOBS = {f"train.py:K{n}": 1.5 * n for n in range(6)}
WORDS = "because the run is short and what learns fast wins over what is large, or so one hopes; "


class Writer:
    """Rows in, a chained file out; nothing is kept but the last hash."""

    def __init__(self, root: Path) -> None:
        self._file = (root / "ledger.jsonl").open("w")
        self._root = root
        self.seq, self.prev = 0, "0" * 64

    def row(self, kind: str, key: str, body: dict[str, Any]) -> int:
        """Its number."""
        self.seq += 1
        row = {"v": ROW_VERSION, "seq": self.seq, "ts": "2026-11-29T00:00:00.000Z", "session": SID,
               "kind": kind, "key": key, "body": body, "prev": self.prev}  # fmt: skip
        row["hash"] = hashlib.sha256((self.prev + _canonical(row)).encode()).hexdigest()
        self.prev = str(row["hash"])
        self._file.write(_canonical(row) + "\n")
        return self.seq

    def close(self) -> None:
        """With the head that names the last row."""
        self._file.close()
        head = _canonical({"seq": self.seq, "hash": self.prev}) + "\n"
        (self._root / "ledger.head").write_text(head)


def write(repo: Path, experiments: int, seed: int = 1) -> int:
    """A closed session of so many experiments in *repo*/sandbox. The number of the best."""
    root = repo / "sandbox"
    root.mkdir(parents=True)
    (repo / "train.py").write_text(TRAIN)
    (repo / "loop.run.yaml").write_text(
        "metric: val_bpb\nrun_cmd: python train.py\neditable_files: train.py\n"
    )
    (root / "session.json").write_text(_canonical({"v": 1, "sid": SID, "tag": "mar5"}))
    commits = _trees(repo)
    best = _ledger(root, experiments, commits, random.Random(seed))
    folder = root / f"iter{best}"
    folder.mkdir()
    line = "step 00001 loss 2.345 some more words of a log that nobody reads to its end\r"
    (folder / "run.log").write_text((line * (LOG_BYTES // len(line))) + "\nval_bpb: 1.0\n")
    return best


def _trees(repo: Path) -> tuple[str, str]:
    """The baseline's commit, and one that changes a constant."""
    store = SnapshotStore(repo / "sandbox")
    store.create()
    base = store.write_base(scan(repo, repo / "sandbox"))
    edit = CandidateEdit(id=2, parent_commit=base.commit, editable=("train.py",), hypothesis="x",
                         changes={"train.py": TRAIN.replace("0.1", "0.3")})  # fmt: skip
    return base.commit, store.write_candidate(edit).commit


def _ledger(root: Path, experiments: int, commits: tuple[str, str], rng: random.Random) -> int:
    writer = Writer(root)
    writer.row("session_opened", "open:1", wire.dump(opening()))
    best: tuple[float, int, int] | None = None  #: metric, id, seq of its result
    for number in range(1, experiments + 1):
        kind = "scored" if number == 1 else rng.choices(
            ["scored", "crash", "timeout", "rejected", "lost"], [80, 9, 3, 5, 3])[0]  # fmt: skip
        seq = writer.seq
        knob = rng.choice(sorted(KNOBS))
        writer.row("proposed", f"proposed:{number}", {
            "id": number, "role": "candidate" if number > 1 else "baseline", "of": None,
            "parent": best[1] if best else None, "branch": f"iter{number}",
            "commit": None if kind == "rejected" else commits[number > 1],
            "tree_digest": None if kind == "rejected" else f"{number:064x}",
            "rejection": "size" if kind == "rejected" else None,
            "hypothesis": f"{knob[9:]} 1.5 -> {number}: {_reason(number)}",
            "analysis": WORDS, "proposer": "search", "seen_seq": seq,
            "details": {"knobs": {**KNOBS, knob: number}, "changed": [knob], "anchors": KNOBS}
            if number > 1 else {},
        })  # fmt: skip
        verdict, metric, ended = _run(writer, number, kind, experiments, rng)
        kept = metric is not None and (best is None or metric < best[0])
        before = best
        if metric is not None:
            verdict = ("keep", None) if kept else ("discard", "worse")
            best = (metric, number, ended) if kept else best
        rests = [ended] + ([before[2]] if before and kind != "rejected" else [])
        writer.row("decision", f"decision:{number}:1", {
            "id": number, "verdict": verdict[0], "reason": verdict[1],
            "incumbent_before": before[1] if before else None,
            "incumbent_after": best[1] if best else None,
            "rests_on": sorted(rests), "basis_seq": writer.seq,
        })  # fmt: skip
    writer.row("session_closed", "close:1", {"outcome": "done", "detail": f"{experiments} ideas"})
    writer.close()
    assert best is not None  # the baseline is scored
    return best[1]


def _reason(number: int) -> str:
    """Mostly short; every fiftieth as long as one may be."""
    return (WORDS * (45 if number % 50 == 0 else 3))[:3900]


def _run(
    writer: Writer, number: int, kind: str, experiments: int, rng: random.Random
) -> tuple[tuple[str, str | None], float | None, int]:
    """Attempts and results: the verdict where there is no metric, the metric, the last row."""
    if kind == "rejected":
        return ("rejected", "size"), None, writer.seq
    attempts = ["infra", "scored"] if kind == "lost" else [kind]
    metric, reason, ended = None, None, 0
    for attempt, status in enumerate(attempts, start=1):
        writer.row("attempt_issued", f"attempt:{number}:{attempt}",
                   {"id": number, "attempt": attempt, "wall_seconds": 600.0})  # fmt: skip
        metric = 2.0 - number / experiments + rng.random() if status == "scored" else None
        reason = {"infra": "lost", "crash": rng.choice(["oom", "exit_code"]),
                  "timeout": "train", "scored": None}[status]  # fmt: skip
        ended = writer.row("result", f"result:{number}:{attempt}:r0", {
            "id": number, "attempt": attempt, "sender": "r0", "status": status,
            "reason": reason, "metric": metric, "runner": "r0", "runtime_s": 300.5,
            "claims": [{"name": f"claim{n}", "value": str(n)} for n in range(3)],
            "log_tail": WORDS * 10 if status == "crash" else "",
            "signature": "KeyError: 'x'" if status == "crash" else None, "isolation": "namespaces",
            "hardware": "cpu x2", "peak_vram_mb": 512.0, "timings": {"run": 300.5, "start": 0.1},
        })  # fmt: skip
    return (attempts[-1], reason), metric, ended


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
