"""Small builders of session history for tests."""

from __future__ import annotations

from typing import Any

from overnight.contracts import wire
from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.rows import SessionOpened
from overnight.orchestrator.policy import POLICY_VERSION

SID = "0123456789ab"
CONFIG: dict[str, Any] = {
    "metric": {"name": "val_bpb", "direction": "minimize"},
    "run_cmd": ["python", "train.py"],
    "editable_files": ["train.py"],
}


def opening(epoch: int = 1, **config: Any) -> SessionOpened:
    """A session_opened body; keyword arguments replace bindings."""
    return wire.build(
        SessionOpened,
        {
            "epoch": epoch,
            "tag": "mar5",
            "config": {**CONFIG, **config},
            "config_digest": "c" * 64,
            "track_digest": "d" * 64,
            "base_commit": "b" * 40,
            "base_digest": "b" * 64,
            "base_head": None,
            "branch": None,
            "code_version": "0.1.0",
            "policy_version": POLICY_VERSION,
        },
    )


def result(experiment_id: int, attempt: int = 1, **fields: Any) -> ExperimentResult:
    """A scored result of 1.0 by runner r0 unless told otherwise."""
    plain: dict[str, Any] = {
        "id": experiment_id,
        "attempt": attempt,
        "sender": "r0",
        "status": "scored",
        "metric": 1.0,
    }
    plain.update(fields)
    if plain["status"] not in ("scored", "held"):
        plain["metric"] = None
    return wire.build(ExperimentResult, plain)
