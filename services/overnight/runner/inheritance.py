"""What runners of slots that nobody serves any more left: results, claims, working folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError
from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import RowKind
from overnight.runner.attempt import infra_result
from overnight.runner.durable import ClaimFile, Outbox
from overnight.runner.hardware import SlotLock

log = structlog.get_logger()


def result_message(result: ExperimentResult) -> LedgerMessage:
    """A result on its way to the recorder; the same result always has the same key."""
    key = f"result:{result.id}:{result.attempt}:{result.sender}"
    return LedgerMessage(key=key, kind=RowKind.RESULT, body=wire.dump(result))


def report_lost(slot: str, claim: ClaimFile, outbox: Outbox) -> None:
    """The attempt that a dead runner of *slot* held becomes `infra:lost`, unless it had ended."""
    claimed = claim.read()
    if claimed is None:
        return
    message = result_message(infra_result(slot, claimed, "lost", "its runner died"))
    if all(waiting.key != message.key for waiting in outbox.waiting()):
        outbox.put(message)
    claim.clear()


def inherit(runners: Path, own: str, outbox: Outbox) -> None:
    """Take over what dead slots of this session left, into *outbox*. A live slot is left alone.

    Raises InfrastructureError when the disk does not take it.
    """
    for folder in sorted(runners.iterdir()) if runners.is_dir() else ():
        lock = SlotLock(folder)
        if folder.name == own or not folder.is_dir() or not _is_free(lock):
            continue
        try:
            theirs = Outbox(folder / "outbox")
            report_lost(folder.name, ClaimFile(folder / "claimed"), theirs)
            for message in list(theirs.waiting()):
                log.info("result_inherited", key=message.key, slot=folder.name)
                outbox.put(message)
                theirs.done(message)
            clear_work(folder)
        finally:
            lock.release()


def clear_work(folder: Path) -> None:
    """Remove the working folders that a dead runner left in its slot's *folder*."""
    for work in folder.glob("work-*"):
        shutil.rmtree(work, ignore_errors=True)


def _is_free(lock: SlotLock) -> bool:
    try:
        return lock.try_acquire()
    except InfrastructureError as error:
        log.warning("slot_left_alone", reason=str(error))
        return False
