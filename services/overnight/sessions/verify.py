"""`verify`: the whole history again, without Redis and without anything of the recorder."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import (
    FENCED_BY_EPOCH,
    GENESIS,
    LedgerMessage,
    Row,
    SessionOpened,
)
from overnight.contracts.status import RowKind
from overnight.ledger.admission import Admit, admit
from overnight.ledger.chain import BrokenRowError, OtherVersionRowError, body_of, from_line
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.head import head_problem, read_head
from overnight.orchestrator.policy import KNOWN_POLICIES, decide


@dataclass(frozen=True)
class Problem:
    """What is wrong and where. Lines count from 1."""

    line: int
    what: str


@dataclass
class Verification:
    """What `verify` found."""

    rows: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    def as_json(self) -> dict[str, wire.Json]:
        """The shape of the command line's `--json`."""
        problems: list[wire.Json] = [{"line": p.line, "what": p.what} for p in self.problems]
        return {"ok": self.ok, "rows": self.rows, "problems": problems}


class _Replay:
    """Folds twice: once as the recorder did, once lagging, as far as each decider had seen."""

    def __init__(self) -> None:
        self.state = SessionState()
        self._seen = SessionState()
        self._unseen: deque[Row] = deque()

    def problem_with(self, row: Row) -> str | None:
        """Was this row allowed here, and is it what the policy says? Then folds it."""
        body = body_of(row)
        what = self._not_allowed(row, body)
        if what is None and row.kind is RowKind.DECISION:
            what = self._not_derived(cast(Decision, body))
        if what is None:
            self.state.apply(row)
            self._unseen.append(row)
        return what

    def _not_allowed(self, row: Row, body: wire.Wire) -> str | None:
        if row.kind is RowKind.REPAIRED:
            return None
        epoch = None
        if isinstance(body, SessionOpened):
            epoch = body.epoch
            if body.policy_version not in KNOWN_POLICIES:
                return f"policy version {body.policy_version} is not known to this release"
        elif row.kind in FENCED_BY_EPOCH:
            epoch = self.state.epoch
        sent_as = RowKind.RESULT if row.kind is RowKind.SUPERSEDED else row.kind
        verdict = admit(
            self.state, LedgerMessage(key=row.key, kind=sent_as, body=row.body, epoch=epoch)
        )
        if isinstance(verdict, Admit) and verdict.kind is row.kind:
            return None
        reason = getattr(verdict, "reason", None) or f"it should not be a {row.kind.value} row"
        return f"this row could not have been written here: {reason}"

    def _not_derived(self, decision: Decision) -> str | None:
        while self._unseen and self._unseen[0].seq <= decision.basis_seq:
            self._seen.apply(self._unseen.popleft())
        experiment = self._seen.experiments.get(decision.id)
        if experiment is None or not experiment.ended:
            return f"decision on experiment {decision.id} came before its result was known"
        derived = decide(self._seen, decision.id)
        if derived == decision:
            return None
        said = f"{decision.verdict.value}, incumbent {decision.incumbent_after}"
        if isinstance(derived, Decision):
            right = f"{derived.verdict.value}, incumbent {derived.incumbent_after}"
            return f"decision on experiment {decision.id} says {said}; the policy says {right}"
        return f"decision on experiment {decision.id} says {said}; the policy wants more runs"


def verify(root: Path) -> Verification:
    """Check chain, head, every rule of the protocol and every decision of one session.

    Stops at the first broken line of the chain, since nothing after it can be trusted; goes on
    after a row that only broke a rule would make no sense either.

    Raises:
        LedgerError: there is no ledger at *root*.
    """
    files = SessionFiles(root)
    found = Verification()
    replay = _Replay()
    prev, hashes = GENESIS, deque[str](maxlen=2)
    try:
        file = files.ledger.open("rb")
    except OSError as error:
        raise LedgerError(f"{files.ledger}: {error.strerror}") from error
    with file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                found.problems.append(Problem(number, "row is torn: no newline at its end"))
                return found
            try:
                row = from_line(line[:-1], seq=number, prev=prev, session=replay.state.sid)
                what = replay.problem_with(row)
            except (BrokenRowError, OtherVersionRowError) as error:
                what = str(error)
            if what is not None:
                found.problems.append(Problem(number, what))
                return found
            prev = row.hash
            hashes.append(prev)
            found.rows = number
    _check_head(files, found, prev, hashes)
    return found


def _check_head(files: SessionFiles, found: Verification, last: str, hashes: deque[str]) -> None:
    try:
        head = read_head(files.head)
    except LedgerError as error:
        found.problems.append(Problem(found.rows, str(error)))
        return
    known = None
    if head is not None and head.seq == found.rows - 1:
        known = hashes[0]
    what = head_problem(head, found.rows, last, known)
    if what:
        line = found.rows + 1 if head is not None and head.seq > found.rows else found.rows
        found.problems.append(Problem(line, what))
