"""Deliberate faults in the product, one for each check of the matrix: a check that stays green
under its own break checks nothing. Applied by the armed entry point, in the processes named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Break:
    """One of them."""

    name: str
    red: str  #: the check that must turn red
    case: str  #: a fault under which it shows
    service: str  #: whose processes are broken
    patch: Callable[[], None]


def apply(name: str | None, service: str) -> None:
    """Break this process, if it is the named break's. Raises KeyError for an unknown name."""
    if name and BREAKS[name].service == service:
        BREAKS[name].patch()


def _step_is_skipped() -> None:
    from overnight.ledger import writer

    writer.reach = lambda step: None


def _messages_are_never_duplicates() -> None:
    """The recorder writes a message as often as it reads it."""
    from overnight.contracts import wire
    from overnight.contracts.rows import BODIES
    from overnight.ledger import admission
    from overnight.recorder import service

    def admit(state: object, message: object) -> object:
        if message.key in state.keys:  # type: ignore[attr-defined]
            body = wire.build(BODIES[message.kind], message.body)  # type: ignore[attr-defined]
            return admission.Admit(message.kind, body)  # type: ignore[attr-defined]
        return admission.admit(state, message)  # type: ignore[arg-type]

    service.admit = admit  # type: ignore[assignment]


def _nobody_watches_for_hangs() -> None:
    from overnight import lifeline

    lifeline.Lifeline.watch = lambda self, patience_seconds: None  # type: ignore[method-assign]


def _a_helper_process_is_forgotten() -> None:
    """Each start leaves a process behind that outlives the whole stack."""
    subprocess.Popen(["sleep", "600"], start_new_session=True, env=dict(os.environ))


def _messages_are_hoarded() -> None:
    from overnight.recorder import service

    handle, hoard = service.Recorder.handle, []

    def hoarding(self: object, message: object) -> object:
        hoard.append(b"x" * (16 * 1024**2))
        return handle(self, message)  # type: ignore[arg-type]

    service.Recorder.handle = hoarding  # type: ignore[assignment, method-assign]


def _working_folders_pile_up() -> None:
    """The runner forgets to remove what each attempt worked in."""
    from overnight.runner import attempt

    run = attempt.run_attempt

    def messy(bench: object, job: object, on_sandbox: object) -> object:
        left = Path(bench.folder) / f"left-{os.urandom(4).hex()}"  # type: ignore[attr-defined]
        left.write_bytes(os.urandom(4 * 1024**2))
        return run(bench, job, on_sandbox)  # type: ignore[arg-type]

    from overnight.runner import service

    service.run_attempt = messy  # type: ignore[assignment]


def _worse_is_kept() -> None:
    """The decider keeps what is worse. The chain is whole all the same."""
    from overnight.contracts.experiment import Decision
    from overnight.contracts.status import Status
    from overnight.orchestrator import service

    decide = service.decide

    def wrong(state: object, experiment_id: int) -> object:
        decision = decide(state, experiment_id)  # type: ignore[arg-type]
        if not isinstance(decision, Decision) or decision.verdict is not Status.DISCARD:
            return decision
        kept = {"verdict": Status.KEEP, "incumbent_after": experiment_id}
        return decision.model_copy(update=kept)

    service.decide = wrong  # type: ignore[assignment]


BREAKS = {
    b.name: b
    for b in (
        Break("point-skipped", "reached", "recorder:staged:kill", "recorder", _step_is_skipped),
        Break("duplicates-written", "one terminal row", "recorder:ack:kill", "recorder",
              _messages_are_never_duplicates),
        Break("no-watchdog", "next experiment", "recorder:ack:hang", "recorder",
              _nobody_watches_for_hangs),
        Break("process-forgotten", "no orphan", "runner:claimed:kill", "runner",
              _a_helper_process_is_forgotten),
        Break("memory-hoarded", "memory", "runner:claimed:error", "recorder",
              _messages_are_hoarded),
        Break("folders-pile-up", "disk", "runner:claimed:error", "runner",
              _working_folders_pile_up),
        Break("worse-kept", "verify", "runner:claimed:kill", "orchestrator", _worse_is_kept),
    )
}  # fmt: skip
