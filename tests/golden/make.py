"""Writes the golden files that are not there yet: `python -m tests.golden.make`.

What stands in this folder is what a release wrote, so a file here is never written again. When a
format changes, its version goes up and the new one gets files of its own. For each contract: one
whole value of this version and of those before, and what the next release might write in its place.
ledger-v<N>.jsonl: a whole session, with a row of each kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.ledger.history_of import SID, opening, result
from tests.unit.orchestrator.world import MemoryWriter

from overnight.contracts import wire
from overnight.contracts.experiment import Decision, ExperimentJob, ExperimentResult
from overnight.contracts.rows import (
    GENESIS,
    ROW_VERSION,
    Ack,
    LedgerMessage,
    Opening,
    Repaired,
    Row,
)
from overnight.contracts.status import RowKind
from overnight.jobqueue.jobs import Parked
from overnight.ledger.admission import Admit, admit
from overnight.ledger.chain import to_line
from overnight.ledger.identity import Identity
from overnight.ledger.older import version_of
from overnight.orchestrator.policy import decide

HERE = Path(__file__).parent
AT = "2026-03-05T01:02:03.456Z"

RESULT: dict[str, Any] = {
    "v": version_of(ExperimentResult),
    "id": 7, "attempt": 2, "sender": "r0", "status": "scored", "reason": None,
    "detail": "a detail", "metric": 0.9979, "trust": "printed",
    "claims": [{"name": "val_bpb", "value": "0.9979"}], "flags": ["metric_on_stderr"],
    "signature": "ValueError: x", "runtime_s": 300.25, "cpu_s": 299.5, "cpu_source": "cgroup",
    "cpu_share": 0.99, "deadline_s": 600.0, "peak_vram_mb": 45060.2, "max_rss_mb": 900.5,
    "exit_code": 0, "signal": None, "isolation": "container", "survivors": 0,
    "image": "sha256:" + "e" * 64, "devices": ["GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"],
    "kill_latency_s": 0.01, "hardware": "cpu x4", "runner": "r0", "tree_digest": "d" * 64,
    "measures": {"peak_vram_mb": 45060.2}, "guard": "passed", "log_tail": "the last lines",
    "timings": {"run": 300.25}, "log_bytes": 1234, "log_truncated": False, "at": AT,
}  # fmt: skip
JOB: dict[str, Any] = {
    "v": version_of(ExperimentJob),
    "sid": SID, "tag": "mar5", "id": 7, "attempt": 2, "commit": "c" * 40,
    "tree_digest": "d" * 64, "run_cmd": ["python", "train.py", "\u00e9"], "metric": "val_bpb",
    "editable_files": ["train.py"], "frozen_files": ["prepare.py"], "budget": 300.0,
    "gate": "time", "wall_seconds": 600.0, "cpu_seconds": 590.5, "env": {"A": "1"},
    "pass_env": ["HF_HOME"], "reads": ["/data"], "links": {"data": "/data"},
    "python": "/usr/bin/python3", "network": "none", "memory_mb": 1024, "plausible_min": 0.1,
    "plausible_max": 9.5, "seed": 3, "maximize": False,
    "source": {"regex": "val_bpb=([0-9.]+)", "take": "last"},
    "constraints": [{"name": "peak_vram_mb", "min": None, "max": 79000.0, "regex": None}],
    "guard": ["python", "check.py"], "guard_unless_worse_than": 1.5,
    "image": "sha256:" + "e" * 64, "gpus": 2,
}  # fmt: skip
ROW: dict[str, Any] = {
    "v": ROW_VERSION, "seq": 1, "ts": AT, "session": SID, "kind": "control", "key": "control:1",
    "body": {"action": "pause", "by": "cli", "why": "dinner"}, "prev": GENESIS,
}  # fmt: skip
ROW["hash"] = wire.digest(GENESIS + wire.canonical(ROW))

#: Name -> contract, and a plain value in which every field stands.
VALUES: dict[str, tuple[type[wire.Wire], dict[str, Any]]] = {
    "job": (ExperimentJob, JOB),
    "result": (ExperimentResult, RESULT),
    "row": (Row, ROW),
    "message": (
        LedgerMessage,
        {
            "v": version_of(LedgerMessage), "key": "result:7:2:r0", "kind": "result",
            "body": RESULT, "epoch": None,
        },
    ),
    "ack": (Ack, {"v": 1, "seq": None, "refused": True, "reason": "it has not ended"}),
    "opening": (
        Opening,
        {
            "v": version_of(Opening), "session": wire.dump(opening(2)), "repo": "/home/u/repo",
            "argv": ["/usr/bin/python3", "train.py"], "python": "/usr/bin/python3", "runners": 2,
            "image": "sha256:" + "e" * 64, "resumes": 7,
        },
    ),
    "session": (Identity, {"v": 1, "sid": SID, "tag": "mar5"}),
    "parked": (
        Parked,
        {
            "v": 1, "job": f"{SID}-7-2", "pool": "default", "reason": "not strict JSON",
            "payload": "{", "at": AT,
        },
    ),
}  # fmt: skip


VERSIONS = {name: version_of(cls) for name, (cls, _) in VALUES.items()}
LEDGER = HERE / f"ledger-v{ROW_VERSION}.jsonl"


def golden(name: str, step: int = 0) -> str:
    """A contract's golden text: of this version, or of one so many steps before or after it."""
    return (HERE / f"{name}-v{VERSIONS[name] + step}.json").read_text()


def session() -> bytes:
    """A ledger: a baseline, a kept idea, one that is given up, a late result, a repair."""
    writer = MemoryWriter([])

    def row(kind: RowKind, key: str, body: dict[str, Any], epoch: int | None = None) -> None:
        message = LedgerMessage(key=key, kind=kind, body=body, epoch=epoch)
        verdict = admit(writer.state, message)
        assert isinstance(verdict, Admit), verdict
        writer.append(verdict.kind, key, verdict.body)

    def proposed(number: int) -> None:
        tree = {"commit": f"{number:040x}", "tree_digest": f"{number:064x}"}
        words = {"hypothesis": f"idea {number}", "branch": f"iter{number}", "proposer": "random"}
        place = {"role": "candidate" if number > 1 else "baseline"}
        body = {"id": number, "parent": 1 if number > 1 else None, "seen_seq": writer.state.seq}
        row(RowKind.PROPOSED, f"proposed:{number}", {**body, **tree, **words, **place}, 1)

    def attempt(number: int, attempt: int, sender: str = "r0", **fields: Any) -> None:
        body = {"id": number, "attempt": attempt, "wall_seconds": 600.0}
        row(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:{attempt}", body, 1)
        ended = wire.dump(result(number, attempt, sender=sender, **fields))
        row(RowKind.RESULT, f"result:{number}:{attempt}:{sender}", ended)

    def decided(number: int) -> None:
        decision = decide(writer.state, number)
        assert isinstance(decision, Decision)
        row(RowKind.DECISION, f"decision:{number}:1", wire.dump(decision), 1)

    row(RowKind.SESSION_OPENED, "open:1", wire.dump(opening()), 1)
    proposed(1)
    attempt(1, 1, metric=1.0)
    decided(1)
    proposed(2)
    attempt(2, 1, status="cancelled")
    row(RowKind.CONTROL, "control:a", {"action": "pause", "by": "cli", "why": "dinner"})
    row(RowKind.CONTROL, "control:b", {"action": "resume", "by": "cli"})
    attempt(2, 2, metric=0.5)
    decided(2)
    proposed(3)
    for number in (1, 2, 3):
        attempt(3, number, status="infra", reason="lost")
    attempt(3, 4, sender="orchestrator", status="infra", reason="gave_up")
    decided(3)
    late = wire.dump(result(3, 1, sender="r1", metric=0.1))
    row(RowKind.RESULT, "result:3:1:r1", late)
    repaired = Repaired(quarantine="ledger-1.jsonl", lines=1, reason="line 9: row is torn")
    writer.append(RowKind.REPAIRED, "repaired:1", repaired)
    row(RowKind.SESSION_CLOSED, "close:1", {"outcome": "done", "detail": "2 ideas"}, 1)
    return b"".join(to_line(line) for line in writer.disk)


def main() -> None:
    """Write what is not there."""
    texts = {LEDGER.name: session().decode()}
    for name, (_, value) in VALUES.items():
        now, newer = VERSIONS[name], VERSIONS[name] + 1
        texts[f"{name}-v{now}.json"] = wire.canonical(value)
        texts[f"{name}-v0.json"] = wire.canonical({"v": 0, "experiment": value.get("id", 1)})
        texts[f"{name}-v{newer}.json"] = wire.canonical(
            {**value, "v": newer, f"since_v{newer}": ["new"]}
        )
    for file, text in texts.items():
        if not (HERE / file).exists():
            (HERE / file).write_text(text)


if __name__ == "__main__":
    main()
