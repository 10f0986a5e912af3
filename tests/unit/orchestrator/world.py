"""A whole Overnight in memory with a Redis that forgets.

The real fold, rules, recorder and orchestrator stand around a fake stream, a fake queue and fake
runners, each of which may die at any step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from overnight.contracts import wire
from overnight.contracts.errors import SessionHeldError
from overnight.contracts.experiment import ExperimentJob, ExperimentResult, Proposal
from overnight.contracts.loop import Policy
from overnight.contracts.proposing import History
from overnight.contracts.rows import Ack, LedgerMessage, Row
from overnight.contracts.status import RowKind
from overnight.ledger import chain
from overnight.ledger.fold import RunState, SessionState
from overnight.orchestrator.jobs import Launch
from overnight.orchestrator.planning import Bounds, Fence, prefetch
from overnight.orchestrator.ports import Look, Ports, Tree
from overnight.orchestrator.service import Orchestrator, Timing
from overnight.recorder.service import Recorder
from tests.unit.ledger.history_of import SID, opening

LEASE_SECONDS = 15.0
LAUNCH = Launch(argv=("python", "train.py"), python=None, env={})


class MemoryWriter:
    """The ledger's disk. `state` is what the recorder folded; a restart folds again."""

    def __init__(self, disk: list[Row]) -> None:
        self.disk = disk
        self.state = SessionState()
        for row in disk:
            self.state.apply(row)

    def settle(self) -> Row | None:
        """As LedgerWriter.settle: memory leaves no row half-written."""
        return None

    def append(self, kind: RowKind, key: str, body: wire.Wire) -> Row:
        """As LedgerWriter.append."""
        row = chain.link(
            seq=self.state.seq + 1,
            ts="t",
            session=SID,
            kind=kind,
            key=key,
            body=body,
            prev=self.state.hash,
        )
        self.disk.append(row)
        self.state.apply(row)
        return row


@dataclass
class Runner:
    """One slot. claimed and outbox are on its disk; job and lease knowledge die with it."""

    name: str
    job: ExperimentJob | None = None
    claimed: ExperimentJob | None = None
    outbox: dict[str, LedgerMessage] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    ran: int = 0
    frozen: bool = False  #: suspended or cut off: renews nothing, does nothing, knows of nothing

    def post(self, job: ExperimentJob, **fields: object) -> None:
        """A terminal result into the outbox, as the real runner does: file first."""
        plain = {"id": job.id, "attempt": job.attempt, "sender": self.name, **fields}
        result = wire.build(ExperimentResult, plain)
        key = f"result:{job.id}:{job.attempt}:{self.name}"
        body = wire.dump(result)
        self.outbox[key] = LedgerMessage(key=key, kind=RowKind.RESULT, body=body)


class World:
    """Everything, with a logical clock."""

    def __init__(
        self,
        *,
        runners: int = 2,
        experiments: int = 4,
        max_attempts: int = 50,
        policy: Mapping[str, object] | None = None,
        program: str | None = None,
        **config: object,
    ) -> None:
        self.disk: list[Row] = []
        self.stream: list[tuple[int, str]] = []
        self.entry_ids = itertools.count(1)
        self.acks: dict[str, Ack] = {}
        self.acked_ever: dict[str, int] = {}
        self.queue: list[ExperimentJob] = []
        self.leases: dict[Fence, tuple[str, float]] = {}
        self.marker = False
        self.now = 0.0
        self.runners = [Runner(f"r{i}") for i in range(runners)]
        wanted = {"limits": {"experiments": experiments}, **(policy or {})}
        self.opening = opening(policy=wanted, **config)
        ahead = prefetch(wire.build(Policy, wanted))
        self.bounds = Bounds(in_flight=runners + ahead, max_attempts=max_attempts)
        self.program = program
        self.told: list[History] = []  #: what the proposer was told, each time
        self.writer = MemoryWriter(self.disk)
        self.recorder = Recorder(self.writer, lambda row: None)  # type: ignore[arg-type]
        self.twin: Orchestrator | None = None
        self.orchestrator = self._new_orchestrator()

    # -- the ports of the orchestrator ------------------------------------------------------

    def _new_orchestrator(self) -> Orchestrator:
        def rows() -> list[Row]:
            done = getattr(rows, "done", 0)
            rows.done = len(self.disk)  # type: ignore[attr-defined]
            return self.disk[done:]

        parts = {"ledger": self, "queue": self, "trees": self, "proposer": self}
        ports = Ports(rows=rows, program=self.program, **parts)  # type: ignore[arg-type]
        starter = f"start-{next(self.entry_ids)}"
        return Orchestrator(
            ports, self.opening, bounds=self.bounds, timing=Timing(), launch=LAUNCH, starter=starter
        )

    def send(self, message: LedgerMessage) -> None:
        """LedgerPort."""
        self.stream.append((next(self.entry_ids), wire.encode(message)))

    def ack(self, key: str) -> Ack | None:
        """LedgerPort."""
        return self.acks.get(key)

    def push(self, job: ExperimentJob) -> None:
        """QueuePort."""
        if all((j.id, j.attempt) != (job.id, job.attempt) for j in self.queue):
            self.queue.append(job)

    def remove(self, fence: Fence) -> None:
        """QueuePort."""
        self.queue = [j for j in self.queue if (j.id, j.attempt) != fence]

    def look(self, fences: Iterable[Fence]) -> Look:
        """QueuePort."""
        intact, self.marker = self.marker, True
        wanted = set(fences)
        queued = {(j.id, j.attempt) for j in self.queue} & wanted
        leased = {f for f in wanted if self.owner(f) is not None}
        return Look(frozenset(queued), frozenset(leased), intact)

    def stopping(self, on: bool) -> None:
        """QueuePort."""
        self.stop = on

    def files_of(self, commit: str) -> dict[str, str]:
        """TreePort."""
        return {"train.py": commit}

    def write(
        self, experiment_id: int, parent_commit: str, proposal: Proposal, tried: Mapping[str, int]
    ) -> Tree:
        """TreePort."""
        return Tree(f"{experiment_id:040x}", f"{experiment_id:064x}", 1, 1)

    def branch_for(self, experiment_id: int, hypothesis: str) -> str:
        """TreePort."""
        return f"iter{experiment_id}"

    def follow(self, state: SessionState) -> None:
        """TreePort."""

    name = "scripted"

    def propose(self, history: History) -> Proposal:
        """Proposer."""
        number = history.next_id
        self.told.append(history)
        plain = {"hypothesis": f"idea {number}", "changes": {"train.py": str(number)}}
        return wire.build(Proposal, {**plain, "parent": history.incumbent, "proposer": "scripted"})

    def close(self) -> None:
        """Nothing is open here."""

    # -- steps --------------------------------------------------------------------------------

    def owner(self, fence: Fence) -> str | None:
        """Who holds an unexpired lease."""
        held = self.leases.get(fence)
        return held[0] if held and held[1] > self.now else None

    def step_orchestrator(self) -> bool:
        """One step; one that was fenced off is started again."""
        try:
            return self.orchestrator.step(self.now)
        except SessionHeldError:
            self.crash_orchestrator()
            return True

    def step_recorder(self, crash_after: str | None = None) -> None:
        """Handle one entry; may die after the append or after the ack."""
        if not self.stream:
            return
        entry, text = self.stream[0]
        message = wire.decode(LedgerMessage, text)
        ack = self.recorder.handle(message)
        if crash_after == "append":
            return self.crash_recorder()
        self.acks[message.key] = ack
        if ack.seq is not None:
            self.acked_ever[message.key] = ack.seq
        if crash_after == "ack":
            return self.crash_recorder()
        self.stream = [e for e in self.stream if e[0] != entry]
        return None

    def step_runner(self, index: int, metric: float = 1.0, outcome: str = "scored") -> None:
        """Deliver what is in the outbox; else end the job it runs; else take one."""
        runner = self.runners[index]
        if runner.frozen:
            return None
        if runner.outbox:
            return self._deliver(runner)
        if runner.job is not None:
            job, runner.job = runner.job, None
            runner.ran += 1
            score: dict[str, object] = {"metric": metric} if outcome == "scored" else {}
            if outcome == "crash":
                score = {"reason": "import", "signature": "import:train.py:1"}
            if outcome == "suspended":
                outcome, score = "infra", {"reason": "suspended"}
            runner.post(job, status=outcome, **score)
            return None
        self.take(runner)
        return None

    def take(self, runner: Runner) -> None:
        """The oldest job, if its attempt is nobody's."""
        if not self.queue:
            return
        job = self.queue.pop(0)
        fence = (job.id, job.attempt)
        if self.owner(fence) is None:
            self.leases[fence] = (runner.name, self.now + LEASE_SECONDS)
            runner.job = runner.claimed = job

    def release(self, fence: Fence) -> None:
        """Its runner gives it back."""
        self.leases.pop(fence, None)

    def _deliver(self, runner: Runner) -> None:
        for key, message in list(runner.outbox.items()):
            ack = self.ack(key)
            if ack is None:
                self.send(message)
                continue
            if ack.refused:
                runner.refused.append(key)
            del runner.outbox[key]
            if runner.claimed is not None:
                self.release((runner.claimed.id, runner.claimed.attempt))
                runner.claimed = None

    def renew(self) -> None:
        """What each living runner's lease thread does."""
        for runner in self.runners:
            if (
                runner.frozen
                or runner.claimed is None
                or (runner.job is None and not runner.outbox)
            ):
                continue
            fence = (runner.claimed.id, runner.claimed.attempt)
            if self.owner(fence) in (None, runner.name):
                self.leases[fence] = (runner.name, self.now + LEASE_SECONDS)
            else:
                runner.job = runner.claimed = None

    def crash_recorder(self) -> None:
        """It comes back and folds the disk."""
        self.writer = MemoryWriter(self.disk)
        self.recorder = Recorder(self.writer, lambda row: None)  # type: ignore[arg-type]

    def crash_orchestrator(self) -> None:
        """It comes back with the next epoch."""
        self.orchestrator = self._new_orchestrator()

    def twin_orchestrator(self) -> None:
        """It was only thought dead: the old one goes on beside the new one."""
        self.twin = self.orchestrator
        self.orchestrator = self._new_orchestrator()

    def step_twin(self) -> None:
        """The old one may try whatever it likes until it is told."""
        if self.twin is not None:
            try:
                self.twin.step(self.now)
            except SessionHeldError:
                self.twin = None

    def crash_runner(self, index: int) -> None:
        """It comes back, finds its claim and reports it lost at once."""
        runner = self.runners[index]
        claimed, runner.job, runner.frozen = runner.claimed, None, False
        if claimed is not None and not runner.outbox:
            runner.post(claimed, status="infra", reason="lost")

    def flush(self) -> None:
        """FLUSHALL, or a restart without persistence."""
        self.stream, self.queue = [], []
        self.acks, self.leases = {}, {}
        self.marker = False

    def meddle_with_stream(self, at: int, what: str) -> None:
        """Drop, double or overtake one waiting message."""
        if not self.stream:
            return
        entry = self.stream.pop(at % len(self.stream))
        if what == "overtake":
            self.stream.insert(0, entry)
        elif what == "double":
            self.stream += [entry, (next(self.entry_ids), entry[1])]

    def meddle_with_queue(self, at: int, double: bool) -> None:
        """Drop or double one waiting job."""
        if not self.queue:
            return
        at %= len(self.queue)
        if double:
            self.queue.append(self.queue[at])
        else:
            del self.queue[at]

    def wish(self, action: str, experiment: int | None = None, why: str = "") -> None:
        """A person's control message; of the dead letter as the ledger stands now."""
        body: dict[str, object] = {"action": action, "by": "cli", "why": why}
        key = f"control:{next(self.entry_ids)}"
        if experiment is not None and action in ("approve", "reject"):
            key, body = f"control:{action}:{experiment}", {**body, "id": experiment}
        elif experiment is not None:
            seq = self.writer.state.experiments[experiment].final_seq
            key, body = f"control:{action}:{experiment}:{seq}", {**body, "id": experiment}
        self.send(LedgerMessage(key=key, kind=RowKind.CONTROL, body=body))

    def tick(self, seconds: float) -> None:
        """Time passes; living runners renew every 5 s."""
        for _ in range(max(1, int(seconds // 5))):
            self.now += min(seconds, 5.0)
            self.renew()

    def settle(self, limit: int = 4000) -> None:
        """No more faults: run until the session is closed. Raises AssertionError when it hangs."""
        for runner in self.runners:
            runner.frozen = False
        for _ in range(limit):
            if self.orchestrator.outcome is not None:
                return
            if self.writer.state.run_state is RunState.PAUSED and not self.stream:
                self.wish("resume")  # a person read why, and mended it
            self.step_orchestrator()
            self.step_recorder()
            for index in range(len(self.runners)):
                self.step_runner(index)
            self.tick(1.0)
        raise AssertionError("the session did not end")
