"""The repository under torture, and what its command is told: places and clocks of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from overnight.configuration import LOOP_FILE, socket_dir
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.sessions.demo import bundled_track
from overnight.sessions.torture.victim import Victim

TRACK = "torture"
RUNNERS = 2
#: What its faults do far more often than life does must not end it; clocks run five times faster.
CLOCKS = {
    "OVERNIGHT_ORCHESTRATOR_MAX_ATTEMPTS": "1000",
    "OVERNIGHT_ORCHESTRATOR_LOST_AFTER_SECONDS": "3",
    "OVERNIGHT_ORCHESTRATOR_REJECTED_PAUSE": "1000",
    "OVERNIGHT_RUNNER_LEASE_SECONDS": "3",
    "OVERNIGHT_RUNNER_RENEW_SECONDS": "1",
    "OVERNIGHT_SUPERVISOR_CRASH_LOOP": "1000",
    "OVERNIGHT_SUPERVISOR_BACKOFF_MAX_SECONDS": "1",
}


@dataclass(frozen=True)
class Surroundings:
    """Where a session's things lie outside of its own folder."""

    state: Path
    sockets: Path
    locks: Path
    records: Path


def surroundings(folder: Path) -> Surroundings:
    """Of the session under torture in *folder*."""
    state = folder / "state"
    return Surroundings(
        state=state,
        sockets=socket_dir({"OVERNIGHT_STATE": str(state)}),
        locks=folder / "locks",
        # The executor's own default: its user ids are the host's.
        records=Path(f"/tmp/overnight-locks-{os.geteuid()}"),  # noqa: S108
    )


def require_empty(folder: Path) -> None:
    """Have an empty *folder*. Raises UsageError when it is anything else, or can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            return
        problem = "is not empty"
    except FileExistsError:
        problem = "is not a folder"
    except OSError as error:
        problem = f"can't be used ({error.strerror})"
    raise UsageError(f"{folder} {problem}: give --dir another folder")


def prepare(victim: Victim, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Write the repository; returns the environment of its command.

    Raises:
        UsageError: the folder can't be used (see `require_empty`).
        InfrastructureError: it can't be written.
    """
    require_empty(victim.folder)
    around = surroundings(victim.folder)
    source = bundled_track(TRACK)
    try:
        shutil.copytree(source, victim.repo, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        (victim.repo / LOOP_FILE).write_text(json.dumps(_bindings(victim, seed), indent=1))
    except OSError as error:
        raise InfrastructureError(f"{victim.folder}: {error.strerror}") from error
    # REDIS_URL above all: nobody's own Redis is tortured.
    kept = {k: v for k, v in environ.items() if k != "REDIS_URL" and not k.startswith("OVERNIGHT_")}
    return {
        **kept,
        **CLOCKS,
        "TORTURE_MARK": victim.mark,
        "OVERNIGHT_STATE": str(around.state),
        "OVERNIGHT_DEVICE_LOCKS": str(around.locks),
    }


def _bindings(victim: Victim, seed: int) -> dict[str, object]:
    """loop.run.yaml, beside the track's own bindings. JSON is YAML."""
    return {
        "run_cmd": ["python", "train.py", victim.mark],
        "python": sys.executable,
        "proposer": {"name": "random"},
        "seed": seed % 2**31,
        "pools": {"default": {"runners": RUNNERS}},
        "env": {
            "TORTURE_MARK": victim.mark,
            "TORTURE_LEDGER": str(victim.files.ledger),
            "TORTURE_HOST": str(os.stat("/proc/self/ns/pid").st_ino),
        },
    }
