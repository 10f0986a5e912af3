"""A crashed idea is mended a few times by a proposer that can; a rewind edits an earlier tree."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from overnight.contracts import wire
from overnight.contracts.errors import EditRejectedError, ProposerError
from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History
from overnight.contracts.status import Role, Status, Strategy
from overnight.ledger.fold import ExperimentState
from overnight.orchestrator.ports import Tree
from overnight.sessions.verify import _Replay
from tests.unit.ledger.history_of import opening
from tests.unit.orchestrator.world import World


class Workshop(World):
    """One runner. Trees hold two files; those with `typo` in them crash."""

    repairs = True

    def __init__(self, *, experiments: int = 6, tries: int = 2) -> None:
        self.trees: dict[str, dict[str, str]] = {"b" * 40: {"train.py": "base", "model.py": "m"}}
        self.told: list[History] = []
        super().__init__(runners=1, experiments=experiments)
        policy = {"limits": {"experiments": experiments}, "repair_tries": tries, "prefetch": 0}
        self.opening = opening(policy=policy)
        self.bounds = type(self.bounds)(in_flight=1)
        self.orchestrator = self._new_orchestrator()

    def files_of(self, commit: str) -> dict[str, str]:
        return self.trees[commit]

    def write(
        self, experiment_id: int, parent_commit: str, proposal: Proposal, tried: Mapping[str, int]
    ) -> Tree:
        if proposal.hypothesis == "refused":
            raise EditRejectedError("size", "too long")
        commit = f"{experiment_id:040x}"
        self.trees[commit] = {**self.trees[parent_commit], **proposal.changes}
        return Tree(commit, f"{experiment_id:064x}", 1, 1, 1)

    def propose(self, history: History) -> Proposal:
        self.told.append(history)
        return self.answer(history)

    def answer(self, history: History) -> Proposal:
        """By default a typo in every idea, and a mend that does not help."""
        if history.repair is not None:
            return self.mend(history, "typo still")
        return self.edit(history, "typo")

    def edit(self, history: History, text: str, **fields: object) -> Proposal:
        plain = {"hypothesis": text, "changes": {"train.py": f"{text} {history.next_id}"}}
        parent = {"parent": history.incumbent, "proposer": "scripted"}
        return wire.build(Proposal, {**plain, **parent, **fields})

    def mend(self, history: History, text: str) -> Proposal:
        assert history.repair is not None
        return self.edit(history, text, repairs=history.repair.id)

    def step_runner(self, index: int, metric: float = 1.0, outcome: str = "scored") -> None:
        job = self.runners[index].job
        broken = job is not None and "typo" in self.trees[job.commit]["train.py"]
        better = metric / job.id if job is not None else metric
        super().step_runner(index, better, "crash" if broken else outcome)

    def run(self) -> list[ExperimentState]:
        """To its end; every row checked as `verify` does. Without the baseline."""
        self.settle()
        replay = _Replay()
        assert [replay.problem_with(row) for row in self.disk] == [None] * len(self.disk)
        return list(self.writer.state.experiments.values())[1:]


def _repairs(experiments: list[ExperimentState]) -> list[int | None]:
    return [e.proposed.repairs for e in experiments if e.proposed.role is Role.CANDIDATE]


def test_an_idea_is_mended_twice_then_its_crash_stands_and_the_next_one_comes() -> None:
    shop = Workshop(experiments=6)
    found = shop.run()

    assert _repairs(found) == [None, 2, 3, None, 5, 6]
    assert {e.status for e in found} == {Status.CRASH}
    left = [(h.repair.id, h.repair.tries_left) for h in shop.told if h.repair is not None]
    assert left == [(2, 2), (3, 1), (5, 2), (6, 1)]
    assert shop.writer.state.candidates == 6, "a repair is a candidate and counts"


def test_the_proposer_sees_the_files_as_they_crashed_and_what_was_said() -> None:
    shop = Workshop(experiments=2)
    shop.run()
    crash = shop.told[1].repair

    assert crash is not None
    assert crash.files == {"train.py": "typo 2", "model.py": "m"}
    assert shop.told[1].parent_files == {"train.py": "base", "model.py": "m"}
    assert shop.told[1].experiments[1].status is Status.CRASH


def test_a_repair_builds_on_the_parent_with_the_crashed_files_and_the_mend() -> None:
    class Helps(Workshop):
        def answer(self, history: History) -> Proposal:
            if history.repair is not None:
                return self.mend(history, "mended")
            if history.next_id > 2:
                return self.edit(history, "good")
            both = {"train.py": "typo", "model.py": "wider"}
            return self.edit(history, "typo", changes=both)

    shop = Helps(experiments=3)
    first, mended, after = shop.run()

    assert (mended.proposed.repairs, mended.proposed.parent) == (2, first.proposed.parent)
    assert shop.trees[f"{3:040x}"] == {"train.py": "mended 3", "model.py": "wider"}
    assert mended.status is Status.KEEP
    assert after.proposed.parent == 3
    assert after.proposed.asked_to_mend is None


def test_an_idea_that_is_passed_over_is_shown_no_more() -> None:
    class PassesOver(Workshop):
        def answer(self, history: History) -> Proposal:
            return self.edit(history, "typo" if history.next_id == 2 else "good")

    shop = PassesOver(experiments=4)
    found = shop.run()

    assert _repairs(found) == [None] * 4
    assert [h.repair.id if h.repair else None for h in shop.told] == [None, 2, None, None]
    assert [e.proposed.asked_to_mend for e in found] == [None, 2, None, None]


def test_a_repair_that_is_refused_was_a_try() -> None:
    class Clumsy(Workshop):
        def answer(self, history: History) -> Proposal:
            if history.repair is not None:
                return self.mend(history, "refused")
            return self.edit(history, "typo" if history.next_id == 2 else "good")

    found = Clumsy(experiments=2).run()

    assert [e.status for e in found] == ["crash", "rejected", "rejected", "keep"]
    assert [e.proposed.repairs for e in found] == [None, 2, 2, None]


def test_a_mend_of_something_else_is_an_ordinary_idea() -> None:
    class Confused(Workshop):
        def answer(self, history: History) -> Proposal:
            text = "typo" if history.next_id == 2 else "good"
            return self.edit(history, text, repairs=1)

    found = Confused(experiments=2).run()

    assert _repairs(found) == [None, None]


@pytest.mark.parametrize(("tries", "mends"), [(0, 0), (1, 1), (3, 3)])
def test_the_bindings_say_how_often(tries: int, mends: int) -> None:
    shop = Workshop(experiments=4, tries=tries)
    shop.run()

    first = next((n for n, h in enumerate(shop.told[1:]) if h.repair is None), 3)
    assert first == mends


def test_a_proposer_that_cannot_mend_is_not_asked_to() -> None:
    class Plain(Workshop):
        repairs = False

    shop = Plain(experiments=3)
    found = shop.run()

    assert all(h.repair is None for h in shop.told)
    assert _repairs(found) == [None] * 3


def test_a_proposer_that_has_no_mend_is_asked_for_an_idea() -> None:
    class Silent(Workshop):
        def answer(self, history: History) -> Proposal:
            if history.repair is not None:
                raise ProposerError("no idea how to mend it")
            return self.edit(history, "typo" if history.next_id == 2 else "good")

    found = Silent(experiments=3).run()

    assert [e.status for e in found] == ["crash", "keep", "keep"]


def test_a_rewind_edits_the_earlier_tree_and_the_branch_goes_on_from_what_wins() -> None:
    class Stuck(Workshop):
        """Two gains, then nothing gets better, until something is tried from further back."""

        def answer(self, history: History) -> Proposal:
            return self.edit(history, "good")

        def step_runner(self, index: int, metric: float = 1.0, outcome: str = "scored") -> None:
            job = self.runners[index].job
            proposed = self.writer.state.experiments[job.id].proposed if job is not None else None
            if proposed is None or proposed.id <= 3:
                metric = 1.0 / (proposed.id if proposed else 1)
            else:
                metric = 0.1 if proposed.strategy is Strategy.REWIND else 2.0
            World.step_runner(self, index, metric, outcome)

    shop = Stuck(experiments=17)
    found = shop.run()

    (back,) = [e for e in found if e.proposed.strategy is Strategy.REWIND]
    assert back.proposed.parent == 2
    assert back.status is Status.KEEP
    told = next(h for h in shop.told if h.strategy is Strategy.REWIND)
    assert (told.parent, told.incumbent) == (2, 3)
    assert told.parent_files == {"train.py": "good 2", "model.py": "m"}
    later = [e.proposed.parent for e in found if e.id > back.id]
    assert later
    assert set(later) == {back.id}


def test_where_nothing_is_left_back_there_the_best_is_edited() -> None:
    class Nothing(Workshop):
        def answer(self, history: History) -> Proposal:
            if history.strategy is Strategy.REWIND:
                raise ProposerError("all was tried")
            return self.edit(history, "good" if history.next_id < 4 else "typo")

    shop = Nothing(experiments=20)
    shop.repairs = False
    found = shop.run()

    assert any(h.strategy is Strategy.REWIND for h in shop.told)
    assert all(e.proposed.strategy is not Strategy.REWIND for e in found)
    assert shop.writer.state.candidates == 20


class Broken(Workshop):
    """Nothing but the baseline runs until somebody went on."""

    repairs = False

    def __init__(self, *, experiments: int) -> None:
        super().__init__(experiments=experiments)
        self.bounds = type(self.bounds)(in_flight=3)
        self.orchestrator = self._new_orchestrator()
        self.tried: list[set[int]] = []

    def answer(self, history: History) -> Proposal:
        return self.edit(history, "good")

    def write(
        self, experiment_id: int, parent_commit: str, proposal: Proposal, tried: Mapping[str, int]
    ) -> Tree:
        self.tried.append(set(tried.values()))
        return super().write(experiment_id, parent_commit, proposal, tried)

    def step_runner(self, index: int, metric: float = 1.0, outcome: str = "scored") -> None:
        job = self.runners[index].job
        works = job is None or job.id == 1 or bool(self.writer.state.resumes)
        World.step_runner(self, index, 1.0, "scored" if works else "crash")


def test_what_a_broken_environment_ended_may_be_proposed_again() -> None:
    shop = Broken(experiments=4)
    shop.settle()
    lost = {e.id for e in shop.writer.state.experiments.values() if e.status is Status.INFRA}

    assert len(lost) >= 4, "three ideas and the best"
    ideas = lost - set(shop.writer.state.replicates)
    assert not ideas & shop.tried[-1]
    assert 1 in shop.tried[-1]


def test_no_idea_is_asked_for_while_the_best_is_run_again() -> None:
    shop = Broken(experiments=20)
    shop.settle()
    (re_run,) = shop.writer.state.replicates
    row = next(r for r in shop.disk if r.body.get("id") == re_run and r.kind.value == "proposed")
    ended = next(r for r in shop.disk if r.body.get("id") == re_run and r.kind.value == "decision")
    between = [r.kind.value for r in shop.disk if row.seq < r.seq < ended.seq]

    assert "proposed" not in between
