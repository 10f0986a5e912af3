"""Every exception that we raise on purpose. A candidate's failure is a value, never one."""

from __future__ import annotations

from overnight import __version__
from overnight.contracts.untrusted import one_line

WIRE_CHARACTERS = 300  #: of a WireError's message; others wrap it with a path and the fix


class OvernightError(Exception):
    """Root of all errors of ours. The message is one line that names the fix."""

    exit_code: int = 3  #: what the command line exits with
    retryable: bool = False  #: trying the same again may help


class UsageError(OvernightError):
    """The user asked for something that can't be: a bad flag, file or value."""

    exit_code = 2


class ConfigError(UsageError):
    """loop.run.yaml, a track or an environment override is wrong; names the key."""


class WireError(OvernightError):
    """A message, row or job is not what the contract says. Never retried as it is.

    Its message quotes what somebody else wrote: one short line, whatever that was.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message, WIRE_CHARACTERS))


class VersionError(WireError):
    """Whole, but written by an older or a newer version: not ours to read, change or drop."""

    def __init__(self, what: str, written: int, known: int) -> None:
        age, fix = "a newer", ""
        if written < known:
            age, fix = "an older", "copy it by `overnight migrate`, or "
        super().__init__(
            f"{what} v{str(written)[:20]} was written by {age} version of Overnight; this is "
            f"{__version__}, which reads v{known}: {fix}finish this session with the version that "
            "wrote it, or open another with --tag"
        )
        self.what = what
        self.written = written
        self.known = known

    def __reduce__(self) -> tuple[type[VersionError], tuple[str, int, int]]:
        return type(self), (self.what, self.written, self.known)


class LedgerError(OvernightError):
    """The ledger can't be trusted as it lies: names the line and the verb that mends it."""


class InfrastructureError(OvernightError):
    """Something of ours failed (Redis, disk, a service), never the idea."""

    retryable = True


class SandboxUnavailableError(InfrastructureError):
    """The sandbox could not start or was lost. The command may not have run."""

    def __init__(self, executor: str, reason: str) -> None:
        super().__init__(f"{executor}: {reason}")
        self.executor = executor
        self.reason = reason

    def __reduce__(self) -> tuple[type[SandboxUnavailableError], tuple[str, str]]:
        return type(self), (self.executor, self.reason)


class SandboxAwayError(SandboxUnavailableError):
    """What makes sandboxes is away: the engine, the spawner, the image. Waiting for it may help."""


class SnapshotError(InfrastructureError):
    """A tree could not be written, exported or does not have the digest it should have."""


class EditRejectedError(OvernightError):
    """A proposal's edit can't become a candidate. A value in the end: status `rejected`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason  #: what stands after `rejected:`, e.g. `paths`
        self.detail = detail

    def __reduce__(self) -> tuple[type[EditRejectedError], tuple[str, str]]:
        return type(self), (self.reason, self.detail)


class ProposerError(OvernightError):
    """A proposer can't go on: nothing to tune, nothing left to try, no answer."""

    exit_code = 2


class SessionHeldError(OvernightError):
    """Another process holds this session, ledger or device."""
