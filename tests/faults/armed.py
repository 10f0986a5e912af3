"""The test suite's entry point of every service: `python -m tests.faults.armed MODULE [ARGS]`.

Runs a module of ours as the command line would, with a fault armed:

OVERNIGHT_FAULT=<service>:<step>:<kill|error|hang>  strikes once in each process that gets there
FAULT_FOLDER=DIR       the same word in the file DIR/armed strikes once, in whichever process gets
                       there first, and leaves DIR/fired; it may be put there while services run
OVERNIGHT_BREAK=NAME   a deliberate fault in the product, see breaks.py

The product itself reads none of the three.
"""

from __future__ import annotations

import errno
import os
import runpy
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults import breaks

from overnight import faultpoints
from overnight.contracts.errors import InfrastructureError
from overnight.faultpoints import Step
from overnight.sessions import supervisor

KINDS = ("kill", "error", "hang")
#: Steps at which the disk is what fails; elsewhere it is Redis or a service.
DISK = frozenset(
    {
        Step.RECORDER_TAIL, Step.RECORDER_STAGED, Step.RECORDER_WRITTEN, Step.RECORDER_REBUILD,
        Step.RUNNER_STAGED, Step.RUNNER_RECORDED, Step.RUNNER_EXPORTED, Step.RUNNER_COLLECTED,
        Step.REPAIR_KEPT, Step.REPAIR_CUT,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What is to happen where."""

    step: Step
    kind: str

    @classmethod
    def parse(cls, word: str) -> Fault:
        """`<service>:<step>:<kind>`. Raises ValueError."""
        step, _, kind = word.strip().rpartition(":")
        if kind not in KINDS:
            raise ValueError(f"{word!r}: the last part must be one of {KINDS}")
        return cls(Step(step), kind)

    def strike(self) -> None:
        """Here and now."""
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "error":
            if self.step in DISK:
                raise OSError(errno.EIO, f"injected at {self.step.value}")
            raise InfrastructureError(f"injected at {self.step.value}")
        while True:
            time.sleep(3600)


@dataclass
class Armed:
    """One process's hook."""

    service: str
    fixed: Fault | None
    folder: Path | None

    def __call__(self, step: Step) -> None:
        """The hook itself."""
        if step.service != self.service:
            return
        if self.fixed is not None and self.fixed.step is step:
            fault, self.fixed = self.fixed, None
            fault.strike()
        if self.folder is not None:
            self._look(step, self.folder)

    @staticmethod
    def _look(step: Step, folder: Path) -> None:
        try:
            fault = Fault.parse((folder / "armed").read_text())
            if fault.step is not step:
                return
            os.rename(folder / "armed", folder / "fired")
        except FileNotFoundError:
            return
        fault.strike()


def service_of(module: str) -> str:
    """The service whose steps a module's process reaches; verbs: supervisor or repair."""
    if module == "overnight.cli":
        return "repair" if sys.argv[1:3] == ["ledger", "repair"] else "supervisor"
    return module.removeprefix("overnight.")


def main() -> None:
    """Arm, then become the module."""
    del sys.argv[0]
    module = sys.argv[0]
    word, folder = os.environ.get("OVERNIGHT_FAULT"), os.environ.get("FAULT_FOLDER")
    faultpoints.arm(
        Armed(
            service_of(module),
            Fault.parse(word) if word else None,
            Path(folder) if folder else None,
        )
    )
    breaks.apply(os.environ.get("OVERNIGHT_BREAK"), service_of(module))
    supervisor.SERVICE_ENTRY = (sys.executable, "-m", "tests.faults.armed")
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
