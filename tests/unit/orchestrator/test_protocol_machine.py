"""The protocol as a state machine: a queue that drops, doubles, reorders and forgets, and services
that die after any step. One final accepted result an experiment, decisions replay, nothing acked is
lost, and when the faults end the session ends with exactly what was asked for."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from overnight.contracts.experiment import ExperimentResult
from overnight.contracts.rows import GENESIS, Ack
from overnight.contracts.status import ENVIRONMENT, FREE_SUSPENSIONS, Role, RowKind, Status
from overnight.ledger import chain
from overnight.ledger.fold import RunState, SessionState, is_final
from overnight.orchestrator.policy.environment import checked, failed
from overnight.sessions.verify import _Replay
from tests.unit.orchestrator.world import World

RUNNERS = st.integers(0, 1)


class Protocol(RuleBasedStateMachine):
    """Rules are what can happen; the invariant is checked after each."""

    def new_world(self, **asked: int) -> World:
        return World(**asked)

    @initialize(experiments=st.integers(0, 6), max_attempts=st.sampled_from([3, 50]))
    def begin(self, experiments: int, max_attempts: int) -> None:
        self.world = self.new_world(experiments=experiments, max_attempts=max_attempts)
        self.asked, self.max_attempts = experiments, max_attempts
        self.replay, self.checked, self.prev = _Replay(), 0, GENESIS

    @rule(steps=st.integers(1, 8))
    def everything_works_for_a_while(self, steps: int) -> None:
        for _ in range(steps):
            self.world.step_orchestrator()
            self.world.step_recorder()
            self.world.step_runner(0)
            self.world.step_runner(1, metric=0.9)

    @rule(steps=st.integers(5, 60), mended=st.booleans())
    def nothing_runs_for_a_while(self, steps: int, mended: bool) -> None:
        """Nothing but the baseline, or there would be no session."""
        for step in range(steps):
            self.world.step_orchestrator()
            self.world.step_recorder()
            for index in range(2):
                job = self.world.runners[index].job
                works = (mended and step > 30) or (job is not None and job.id == 1)
                self.world.step_runner(index, outcome="scored" if works else "crash")

    @rule()
    def somebody_goes_on(self) -> None:
        if self.world.writer.state.run_state is RunState.PAUSED:
            self.world.wish("resume")

    @rule()
    def orchestrator(self) -> None:
        self.world.step_orchestrator()

    @rule(crash=st.sampled_from([None, None, "append", "ack"]))
    def recorder(self, crash: str | None) -> None:
        self.world.step_recorder(crash)

    @rule(
        index=RUNNERS,
        metric=st.floats(0.1, 2.0),
        outcome=st.sampled_from(
            ["scored", "scored", "crash", "timeout", "infra", "cancelled", "suspended"]
        ),
    )
    def runner(self, index: int, metric: float, outcome: str) -> None:
        self.world.step_runner(index, metric, outcome)

    @rule()
    def orchestrator_dies(self) -> None:
        self.world.crash_orchestrator()

    @rule(steps=st.integers(1, 30))
    def its_twin_goes_on(self, steps: int) -> None:
        self.world.twin_orchestrator()
        for _ in range(steps):
            self.world.step_twin()
            self.world.step_recorder()
            if steps % 3:
                self.world.step_orchestrator()

    @rule(index=RUNNERS)
    def a_runner_hangs_while_the_rest_goes_on(self, index: int) -> None:
        """Long enough for its lease to run out and for others to take its work."""
        self.world.runners[index].frozen = True
        for _ in range(60):
            self.world.step_orchestrator()
            self.world.step_recorder()
            self.world.step_runner(1 - index)
            self.world.tick(1.0)

    @rule(index=RUNNERS)
    def it_comes_back(self, index: int) -> None:
        self.world.runners[index].frozen = False
        self.world.step_runner(index, 0.5)
        self.world.step_runner(index)
        self.world.step_recorder()

    @rule(index=RUNNERS)
    def runner_dies(self, index: int) -> None:
        self.world.crash_runner(index)

    @rule()
    def redis_forgets_all(self) -> None:
        self.world.flush()

    @rule(at=st.integers(0, 9), what=st.sampled_from(["drop", "double", "overtake"]))
    def a_message_is_dropped_doubled_or_overtaken(self, at: int, what: str) -> None:
        self.world.meddle_with_stream(at, what)

    @rule(at=st.integers(0, 9), double=st.booleans())
    def a_job_is_dropped_or_doubled(self, at: int, double: bool) -> None:
        self.world.meddle_with_queue(at, double)

    @rule(at=st.integers(0, 9), action=st.sampled_from(["requeue", "requeue", "drop"]))
    def somebody_sees_to_the_dead_letter(self, at: int, action: str) -> None:
        """Twice, as somebody does who gets no answer; also once the session is closed."""
        there = [e.id for e in self.world.writer.state.experiments.values() if e.in_dead_letter]
        for _ in range(2 if there else 0):
            self.world.wish(action, there[at % len(there)])

    @rule(seconds=st.sampled_from([0.5, 2.5, 6.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.tick(seconds)

    @invariant()
    def the_ledger_is_whole_and_replays(self) -> None:
        if not hasattr(self, "world"):
            return
        for row in self.world.disk[self.checked :]:
            line = chain.to_line(row)[:-1]
            chain.from_line(line, seq=self.checked + 1, prev=self.prev, session=None)
            assert self.replay.problem_with(row) is None
            self.checked, self.prev = row.seq, row.hash
        for key, seq in self.world.acked_ever.items():
            assert self.world.disk[seq - 1].key == key

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.check_the_end()
            finally:
                self.world.close()

    def check_the_end(self) -> None:
        """No more faults: it must come to the right end by itself."""
        if self.world.twin is not None or len(self.world.disk) % 2:
            self.world.crash_orchestrator()
        self.world.settle()
        while self.world.stream:
            self.world.step_recorder()
        if self.world.writer.state.running:  # requeued after the session was closed
            self.world.wish("resume")
            self.world.step_recorder()
            self.world.crash_orchestrator()
            self.world.settle()
        self.the_ledger_is_whole_and_replays()
        finals: Counter[int] = Counter()
        state = SessionState()
        for row in self.world.disk:
            state.apply(row)
            if row.kind is RowKind.RESULT:
                result = chain.body_of(row)
                assert isinstance(result, ExperimentResult)
                finals[result.id] += is_final(result)
        requeued = Counter(
            row.body["id"] for row in self.world.disk if row.body.get("action") == "requeue"
        )
        assert finals == Counter({number: 1 + requeued[number] for number in finals}), finals
        assert all(e.decision is not None for e in state.experiments.values())
        assert all(not r.refused for r in self.world.runners)
        if state.incumbent is not None:
            ideas = [e for e in state.experiments.values() if e.proposed.role is Role.CANDIDATE]
            lost = [e for e in ideas if e.decision and e.decision.reason == ENVIRONMENT]
            assert state.candidates == self.asked
            assert len(finals) == self.asked + 1 + len(state.replicates) + len(lost)
            for number in state.replicates:
                self.check_the_re_run(state, number)
        else:
            assert state.closed is not None
            assert state.closed.outcome == "baseline_failed"

    def check_the_re_run(self, state: SessionState, number: int) -> None:
        """It failed, and so the crashes that it was to explain are no crashes; or it did not."""
        re_run = state.experiments[number]
        ids, _ = checked(re_run)
        assert len(ids) >= 3
        infra = {state.experiments[i].status is Status.INFRA for i in ids}
        assert infra == {failed(re_run)}, (number, ids)


Protocol.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestProtocol = Protocol.TestCase


def test_a_host_that_sleeps_costs_no_idea_its_attempts() -> None:
    """Far more suspensions than attempts, then it runs."""
    world = World(experiments=1, runners=1, max_attempts=2)
    for _ in range(4000):
        asleep = 1 <= world.runners[0].ran <= 15
        world.step_orchestrator()
        world.step_recorder()
        metric = 0.5 if world.runners[0].ran else 1.0
        world.step_runner(0, metric, "suspended" if asleep else "scored")
        world.tick(1.0)
        if world.orchestrator.outcome is not None:
            break

    results = [row.body for row in world.disk if row.kind is RowKind.RESULT]
    assert [r["reason"] for r in results].count("suspended") == 15
    assert [r["status"] for r in results if r["id"] == 2][-1] == "scored"
    assert world.orchestrator.state.experiments[2].status == "keep"


def test_a_host_that_never_stops_sleeping_is_given_up_in_the_end() -> None:
    world = World(experiments=1, runners=1, max_attempts=2)
    for _ in range(4000):
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(0, 0.5, "suspended" if world.runners[0].ran else "scored")
        world.tick(1.0)
        if world.orchestrator.outcome is not None:
            break

    reasons = [row.body["reason"] for row in world.disk if row.kind is RowKind.RESULT]
    assert reasons.count("suspended") == FREE_SUSPENSIONS + 2
    assert reasons[-1] == "gave_up"


def test_an_orchestrator_that_stood_still_calls_nothing_lost() -> None:
    """The attempt was missing for a moment when the orchestrator was stopped for a minute."""
    world = World(experiments=0, runners=1)
    while world.runners[0].job is None:
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(0)
    for _ in range(10):  # longer than things are pushed again after a start
        world.step_orchestrator()
        world.tick(1.0)
    world.leases.clear()
    for _ in range(3):  # it sees that nobody has it
        world.step_orchestrator()
        world.now += 0.6
    world.now += 90.0
    world.step_orchestrator()
    world.renew()
    world.settle()

    assert [row.body["status"] for row in world.disk if row.kind is RowKind.RESULT] == ["scored"]


def test_an_undisturbed_session_takes_no_attempt_twice() -> None:
    world = World(experiments=6)
    world.settle()

    kinds = Counter(row.kind for row in world.disk)
    assert kinds[RowKind.ATTEMPT_ISSUED] == 7
    assert kinds[RowKind.RESULT] == kinds[RowKind.DECISION] == 7
    assert kinds[RowKind.SUPERSEDED] == 0


def test_a_flush_costs_no_attempt() -> None:
    """Queued jobs come back from the ledger, leases from their runners."""
    world = World(experiments=6)
    for _ in range(400):
        world.step_orchestrator()
        world.step_recorder()
        if world.now % 40 == 0:
            world.flush()
        for index in range(2):
            if world.now % 7 == index:
                world.step_runner(index)
        world.tick(1.0)
    world.settle()

    kinds = Counter(row.kind for row in world.disk)
    assert kinds[RowKind.ATTEMPT_ISSUED] == 7
    assert kinds[RowKind.SUPERSEDED] == 0


def test_a_late_result_of_a_lost_attempt_is_superseded() -> None:
    world = World(experiments=1, runners=2)
    while world.runners[0].job is None:
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(0)
    world.runners[0].frozen = True
    for _ in range(60):
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(1)
        world.tick(1.0)
    world.runners[0].frozen = False
    for _ in range(4):
        world.step_runner(0)
        world.step_recorder()
    world.settle()

    kinds = Counter(row.kind for row in world.disk)
    assert kinds[RowKind.SUPERSEDED] == 1
    assert kinds[RowKind.DECISION] == 2


def test_an_orchestrator_of_an_older_epoch_writes_nothing() -> None:
    world = World(experiments=3)
    for _ in range(20):
        world.step_orchestrator()
        world.step_recorder()
        world.step_runner(0)
    world.twin_orchestrator()
    while world.orchestrator.state.epoch != 2:
        world.step_orchestrator()
        world.step_recorder()
    written = len(world.disk)
    for _ in range(50):
        world.step_twin()
        world.step_recorder()
        world.tick(3.0)

    assert world.twin is None
    assert len(world.disk) == written
    world.settle()


def test_an_ack_of_another_ledger_is_not_taken_for_a_row() -> None:
    """As where a ledger was put back from a copy while a Redis still has yesterday's answers."""
    world = World(experiments=3)
    world.acks = {f"attempt:{number}:1": Ack(refused=False, seq=1) for number in range(1, 5)}
    for key in [*world.acks]:
        world.acks[key.replace("attempt", "decision")] = Ack(refused=False, seq=1)
    world.settle()
    assert world.writer.state.closed is not None
    assert all(e.decision for e in world.writer.state.experiments.values())
