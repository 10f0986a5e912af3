"""Where a session keeps what: the one place that knows file names below a session's folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REFUSED = "refused"  #: folder in an outbox: results that became no row
SCORE, GUARD = "score", "guard"  #: the commands after a run: of their logs and steps
WHY = ".why"  #: file beside each of them: the recorder's reason


@dataclass(frozen=True)
class SessionFiles:
    """Paths of one session. `root` is sandbox_root; nothing is stored outside it."""

    root: Path

    @property
    def ledger(self) -> Path:
        """The hash-chained rows."""
        return self.root / "ledger.jsonl"

    @property
    def head(self) -> Path:
        """Seq and hash of the newest row."""
        return self.root / "ledger.head"

    @property
    def ledger_lock(self) -> Path:
        """Held by the one recorder."""
        return self.root / "ledger.lock"

    @property
    def session_lock(self) -> Path:
        """Held by the one supervisor; its text is the holder's pid."""
        return self.root / "session.lock"

    @property
    def orchestrator_lock(self) -> Path:
        """Held by the one orchestrator."""
        return self.root / "orchestrator.lock"

    @property
    def identity(self) -> Path:
        """sid and tag, written once."""
        return self.root / "session.json"

    @property
    def opening(self) -> Path:
        """What the next orchestrator start opens the session with."""
        return self.root / "opening.json"

    @property
    def program(self) -> Path:
        """program.md as the session began with it; not there where there was none."""
        return self.root / "program.md"

    @property
    def stack(self) -> Path:
        """The embedded stack that runs now: pids, Redis address, metric endpoints."""
        return self.root / "stack.json"

    @property
    def quarantine(self) -> Path:
        """Whatever was moved away instead of being deleted."""
        return self.root / "quarantine"

    @property
    def service_logs(self) -> Path:
        """One log a service."""
        return self.root / "logs"

    def make_folder(self, folder: Path) -> None:
        """Make *folder*, which lies below the root. The root itself is never made again: where it
        is gone, it was moved, and what is put in its old place is found by nobody.

        Raises:
            OSError: the root is gone, or the disk refuses.
        """
        os.stat(self.root)
        folder.mkdir(parents=True, exist_ok=True)

    def iteration(self, experiment_id: int) -> Path:
        """Folder of one experiment."""
        return self.root / f"iter{experiment_id}"

    def run_log(self, experiment_id: int, attempt: int) -> Path:
        """stdout and stderr of one attempt, in order."""
        name = "run.log" if attempt == 1 else f"run.{attempt}.log"
        return self.iteration(experiment_id) / name

    def check_log(self, experiment_id: int, name: str) -> Path:
        """What a command after the run said: GUARD, or SCORE for the metric's."""
        return self.iteration(experiment_id) / f"{name}.log"

    def runner(self, slot: str) -> Path:
        """Private folder of one runner slot."""
        return self.root / "runners" / slot

    def refused_results(self) -> list[Path]:
        """Of all runners."""
        return sorted(self.root.glob(f"runners/*/outbox/{REFUSED}/*.json"))
