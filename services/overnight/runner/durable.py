"""What a runner must not forget: its outbox and the attempt that it claimed. Fsynced files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, WireError
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.untrusted import one_line
from overnight.faultpoints import Step, reach
from overnight.ledger.files import REFUSED, WHY

log = structlog.get_logger()


def write_durably(path: Path, text: str) -> None:
    """Whole or not at all, and on the disk when it returns. Raises InfrastructureError."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(exist_ok=True)  # not what is above it: see SessionFiles.make_folder
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        reach(Step.RUNNER_STAGED)
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        _remove(temporary)
        raise InfrastructureError(f"{path}: {error.strerror}") from error


def _remove(path: Path) -> None:
    """What can't be removed does no harm: the recorder knows a result that comes twice."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("file_not_removed", file=str(path), reason=str(error))


@dataclass(frozen=True)
class Outbox:
    """Results that the recorder has not acked yet, one file each."""

    folder: Path

    def put(self, message: LedgerMessage) -> None:
        """Keep *message* until it is acked. Raises InfrastructureError."""
        write_durably(self._file(message.key), wire.encode(message))

    def waiting(self) -> Iterator[LedgerMessage]:
        """All that still wait, oldest name first. An unreadable file is set aside."""
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.glob("*.json")):
            try:
                yield wire.decode(LedgerMessage, path.read_text("utf-8"))
            except (WireError, UnicodeDecodeError, OSError) as error:
                log.error("outbox_file_unreadable", file=str(path), reason=str(error))
                self._set_aside(path, str(error))

    def done(self, message: LedgerMessage) -> None:
        """The recorder has it."""
        _remove(self._file(message.key))

    def refused(self, message: LedgerMessage, reason: str) -> None:
        """It will never become a row: keep it beside and say so."""
        log.error("result_refused", key=message.key, reason=reason)
        self._set_aside(self._file(message.key), reason)

    def _set_aside(self, path: Path, reason: str) -> None:
        """With its reason beside it, for `deadletter list`. Takes the place of no earlier one."""
        beside = self.folder / REFUSED
        number = 1
        while (aside := beside / f"{path.stem}{f'.{number}' if number > 1 else ''}.json").exists():
            number += 1
        try:
            beside.mkdir(exist_ok=True)
            os.replace(path, aside)
        except OSError as error:
            log.error("outbox_file_stays", file=str(path), reason=str(error))
            return
        with contextlib.suppress(OSError):  # a full disk costs the reason, which the log has too
            aside.with_suffix(WHY).write_text(one_line(reason, 2000) + "\n", "utf-8")

    def _file(self, key: str) -> Path:
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in key)
        return self.folder / f"{safe}.json"


@dataclass(frozen=True)
class ClaimFile:
    """The attempt that this slot holds; what a restarted runner reports as lost at once."""

    path: Path

    def write(self, job: ExperimentJob) -> None:
        """Before anything of it starts. Raises InfrastructureError."""
        write_durably(self.path, wire.encode(job))

    def read(self) -> ExperimentJob | None:
        """The attempt of a runner that died; None when there is none."""
        try:
            return wire.decode(ExperimentJob, self.path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (WireError, UnicodeDecodeError, OSError) as error:
            log.error("claim_unreadable", reason=str(error))
            with contextlib.suppress(OSError):
                os.replace(self.path, self.path.with_name("claimed.bad"))
            return None

    def clear(self) -> None:
        """It is over: its result lies in the outbox, or it was dropped."""
        _remove(self.path)
