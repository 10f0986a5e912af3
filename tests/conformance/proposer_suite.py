"""What every proposer must do, and a make-believe session to see it do that."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import pytest

from overnight.contracts.errors import ConfigError, ProposerError
from overnight.contracts.experiment import Proposal
from overnight.contracts.loop import MetricSpec
from overnight.contracts.proposing import History, Past, Proposer
from overnight.contracts.status import Role, Status
from overnight.contracts.wire import decode, encode

Factory = Callable[[dict[str, object]], Proposer]
Measure = Callable[[dict[str, str]], float | None]  #: files -> metric, None: it crashes

TRAIN = '''"""A training script that nobody runs."""
from prepare import TIME_BUDGET

LR = 1e-3           # peak
WEIGHT_DECAY = 0.0
BATCH = 8
DEPTH = 2
ACTIVATION = "gelu"  # gelu | relu2 | silu
ROPE = False
SEED = 1

print(LR, WEIGHT_DECAY, BATCH, DEPTH, ACTIVATION, ROPE, SEED, TIME_BUDGET)
'''
NOTES = "Not Python: LR = 5\n"
FILES = {"train.py": TRAIN, "notes.md": NOTES}


@dataclass
class Session:
    """Plays the orchestrator: keeps what is strictly better, hands the history on."""

    files: dict[str, str] = field(default_factory=lambda: dict(FILES))
    seed: int = 0
    baseline: float = 2.0
    pasts: list[Past] = field(default_factory=list)
    trees: dict[int, dict[str, str]] = field(default_factory=dict)
    incumbent: int = 1
    best: float = 2.0
    asks: dict[str, Any] = field(default_factory=dict)  #: strategy, steering ... of the history

    def __post_init__(self) -> None:
        self.best = self.baseline
        self.trees[1] = dict(self.files)
        self._add(1, Role.BASELINE, None, "the unmodified tree", "baseline", {})
        self.pasts[0] = replace(self.pasts[0], status=Status.KEEP, metric=self.baseline)

    def history(self) -> History:
        """As the orchestrator would fold it."""
        return History(
            tag="t",
            metric=MetricSpec(name="val_bpb"),
            baseline_metric=self.baseline,
            incumbent=self.incumbent,
            incumbent_metric=self.best,
            parent_files=dict(self.trees[self.incumbent]),
            experiments=tuple(self.pasts),
            next_id=len(self.pasts) + 1,
            seed=self.seed,
            baseline_files=dict(self.trees[1]),
            **self.asks,
        )

    def propose(self, proposer: Proposer) -> tuple[int, Proposal]:
        """Ask, and put the idea in flight. It goes through its JSON form, as in the ledger."""
        proposal = decode(Proposal, encode(proposer.propose(self.history())))
        number = len(self.pasts) + 1
        self.trees[number] = {**self.trees[proposal.parent], **proposal.changes}
        self._add(
            number, Role.CANDIDATE, proposal.parent, proposal.hypothesis, proposal.proposer,
            proposal.details,
        )  # fmt: skip
        return number, proposal

    def end(self, number: int, status: Status, metric: float | None, reason: str | None) -> None:
        """The result and decision of an experiment in flight."""
        self.pasts[number - 1] = replace(
            self.pasts[number - 1], status=status, metric=metric, reason=reason
        )
        if status is Status.KEEP and metric is not None:
            self.incumbent, self.best = number, metric

    def measure(self, number: int, measure: Measure) -> None:
        """End it as the plain policy would."""
        metric = measure(self.trees[number])
        if metric is None:
            self.end(number, Status.CRASH, None, "exit")
        elif metric < self.best:
            self.end(number, Status.KEEP, metric, None)
        else:
            self.end(number, Status.DISCARD, metric, None)

    def run(self, proposer: Proposer, count: int, measure: Measure) -> list[Proposal]:
        """*count* ideas, one after the other."""
        proposals = []
        for _ in range(count):
            number, proposal = self.propose(proposer)
            self.measure(number, measure)
            proposals.append(proposal)
        return proposals

    def _add(
        self, number: int, role: Role, parent: int | None, hypothesis: str, by: str,
        details: dict[str, Any],
    ) -> None:  # fmt: skip
        self.pasts.append(
            Past(
                id=number, role=role, parent=parent, status=None, reason=None, metric=None,
                hypothesis=hypothesis, proposer=by, details=details, runtime_s=None,
            )
        )  # fmt: skip


def by_chance(seed: int) -> Measure:
    """A metric out of nothing: sometimes better, often worse, now and then a crash."""
    rng = random.Random(seed)

    def measure(_: dict[str, str]) -> float | None:
        return None if rng.random() < 0.15 else 2.05 - rng.random() * 0.15

    return measure


class ProposerSuite:
    """Subclass it, provide the `factory` fixture. `COUNT` ideas are asked for at most."""

    COUNT = 60
    ON_THE_BASELINE = False  #: edits it always, instead of what was kept last

    def test_the_same_history_and_seed_give_the_same_proposal(self, factory: Factory) -> None:
        session = Session(seed=3)
        session.run(factory({}), 12, by_chance(3))
        busy = factory({})
        first = busy.propose(session.history())
        random.seed(99)  # a proposer that draws from the global generators would differ now
        numpy.random.seed(99)
        before = (random.getstate(), numpy.random.get_state()[1].tolist())

        assert busy.propose(session.history()) == first
        assert factory({}).propose(session.history()) == first
        assert before == (random.getstate(), numpy.random.get_state()[1].tolist())

    def test_another_seed_gives_other_proposals(self, factory: Factory) -> None:
        one, other = Session(seed=1), Session(seed=2)
        proposals = [session.run(factory({}), 12, lambda _: 2.5) for session in (one, other)]

        assert [p.changes for p in proposals[0]] != [p.changes for p in proposals[1]]

    @pytest.mark.parametrize("in_flight", [1, 4])
    def test_no_tree_comes_twice_even_with_others_in_flight(
        self, factory: Factory, in_flight: int
    ) -> None:
        session, proposer, measure = Session(seed=7), factory({}), by_chance(7)
        flying: list[int] = []
        for _ in range(self.COUNT):
            number, _ = session.propose(proposer)
            flying.append(number)
            if len(flying) == in_flight:
                session.measure(flying.pop(0), measure)
        trees = [tuple(sorted(tree.items())) for tree in session.trees.values()]

        assert len(trees) == self.COUNT + 1
        assert len(set(trees)) == len(trees)

    def test_only_editable_python_changes_and_it_still_parses(self, factory: Factory) -> None:
        session = Session(seed=5)
        for proposal in session.run(factory({}), 25, by_chance(5)):
            assert set(proposal.changes) == {"train.py"}
            new = proposal.changes["train.py"]
            ast.parse(new)
            assert "SEED = 1\n" in new
            assert len(new.splitlines()) == len(TRAIN.splitlines())

    def test_every_proposal_says_who_what_and_on_what(self, factory: Factory) -> None:
        session, proposer, measure = Session(seed=6), factory({}), by_chance(6)
        for _ in range(20):
            parent = 1 if self.ON_THE_BASELINE else session.incumbent
            number, proposal = session.propose(proposer)

            assert proposal.parent == parent
            assert proposal.proposer == proposer.name
            assert proposal.hypothesis.strip()
            assert "\n" not in proposal.analysis
            assert session.trees[number] != session.trees[parent]
            session.measure(number, measure)

    def test_a_resumed_session_goes_on_as_an_uninterrupted_one(self, factory: Factory) -> None:
        whole, resumed = Session(seed=8), Session(seed=8)
        through, again = by_chance(8), by_chance(8)
        proposer = factory({})
        for _ in range(20):
            number, proposal = whole.propose(proposer)
            whole.measure(number, through)
            number, same = resumed.propose(factory({}))  # a new process each time
            resumed.measure(number, again)

            assert same == proposal

    @pytest.mark.parametrize("seed", range(4))
    def test_no_ending_of_an_experiment_stops_it(self, factory: Factory, seed: int) -> None:
        rng = random.Random(seed)
        session, proposer = Session(seed=seed), factory({})
        for _ in range(20):
            number, _ = session.propose(proposer)
            status = rng.choice([*Status, None])
            if status is None:
                continue  # stays in flight for ever
            metric = 2.0 - rng.random() if status in (Status.KEEP, Status.DISCARD) else None
            if status is Status.KEEP and metric is not None:
                metric = session.best - 0.01
            session.end(number, status, metric, None)

        assert proposer.propose(session.history()).changes

    def test_foreign_and_broken_details_in_the_history_do_not_stop_it(
        self, factory: Factory
    ) -> None:
        session = Session()
        for details in (
            {"knobs": "none"}, {"knobs": {"train.py:LR": "high"}, "changed": "LR"},
            {"knobs": {"gone.py:X": 3}, "changed": ["gone.py:X"]}, {"anchors": [1]},
            {"knobs": {"train.py:LR": None}, "changed": [None, 3]}, {"prompt": "..."},
            {"knobs": {"train.py:LR": 7e9, "train.py:ROPE": 1}, "changed": ["train.py:LR"]},
        ):  # fmt: skip
            session._add(len(session.pasts) + 1, Role.CANDIDATE, 1, "by hand", "inbox", details)
            session.end(len(session.pasts), Status.DISCARD, 2.2, None)

        assert len(session.run(factory({}), 12, by_chance(1))) == 12

    @pytest.mark.parametrize("files", [{"train.py": "print(1)\n"}, {"notes.md": NOTES}, {}])
    def test_nothing_to_tune_is_one_clear_line(
        self, factory: Factory, files: dict[str, str]
    ) -> None:
        with pytest.raises(ProposerError, match=r"^nothing to tune in [^\n]*\Z"):
            factory({}).propose(Session(files=files).history())

    def test_all_settings_tried_is_said(self, factory: Factory) -> None:
        session = Session(files={"a.py": "DEEP = True\nLR = 0.5 # 0.5 | 1.0\n"})
        proposer = factory({})
        assert len(session.run(proposer, 3, lambda _: 2.5)) == 3

        with pytest.raises(ProposerError, match=r"^nothing left to try: [^\n]*\Z"):
            proposer.propose(session.history())

    def test_an_unknown_option_is_named(self, factory: Factory) -> None:
        with pytest.raises(ConfigError, match=r"proposer\.options\.temperatur\b"):
            factory({"temperatur": 1})

    @pytest.mark.parametrize("value", ["3", 1.5, -1, True, None])
    def test_a_seed_that_is_no_whole_number_is_named(self, factory: Factory, value: object) -> None:
        with pytest.raises(ConfigError, match=r"proposer\.options\.seed\b"):
            factory({"seed": value})
