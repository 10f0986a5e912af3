"""Sessions for reports: a list of outcomes becomes a folded ledger, by the real rules."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.unit.ledger.history_of import opening, result
from tests.unit.orchestrator.world import MemoryWriter

from overnight.contracts import wire
from overnight.contracts.experiment import Decision
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import RowKind
from overnight.ledger.admission import Admit, admit
from overnight.ledger.fold import SessionState
from overnight.orchestrator.policy import decide
from overnight.sessions.report.entries import Facts, facts


@dataclass(frozen=True, kw_only=True)
class Idea:
    """One experiment and how it ended. metric None: it crashed."""

    metric: float | None = None
    knobs: dict[str, Any] = field(default_factory=dict)  #: what it moved
    hypothesis: str = ""
    parent: int | None = None  #: default: the incumbent
    of: int | None = None  #: a re-run of that one
    status: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    ended: bool = True


START = {"LR": 0.1, "DEPTH": 4, "ACTIVATION": "gelu"}


def session(
    *ideas: Idea,
    baseline: float | None = 2.0,
    start: dict[str, Any] | None = None,
    baseline_result: dict[str, Any] | None = None,
    policy_version: int = 1,
    **config: Any,
) -> SessionState:
    """The fold of such a session. *start*: the knobs' values in the baseline; {}: none known."""
    writer = MemoryWriter([])
    knobs: dict[int, dict[str, Any]] = {1: dict(START if start is None else start)}

    def row(kind: RowKind, key: str, body: dict[str, Any], epoch: int | None = 1) -> None:
        verdict = admit(writer.state, LedgerMessage(key=key, kind=kind, body=body, epoch=epoch))
        assert isinstance(verdict, Admit), verdict
        writer.append(verdict.kind, key, verdict.body)

    opened = {**wire.dump(opening(**config)), "policy_version": policy_version}
    row(RowKind.SESSION_OPENED, "open:1", opened)
    for number, idea in enumerate(
        [Idea(metric=baseline, result=baseline_result or {}), *ideas], start=1
    ):
        parent = (idea.of or idea.parent or writer.state.incumbent) if number > 1 else None
        role = "baseline" if number == 1 else "replicate" if idea.of else "candidate"
        row(RowKind.PROPOSED, f"proposed:{number}", {
            "id": number, "role": role, "of": idea.of, "parent": parent, "commit": f"{number:040x}",
            "tree_digest": f"{idea.of or number:064x}", "branch": f"iter{number}",
            "hypothesis": idea.hypothesis or _hypothesis(idea, knobs.get(parent or 1, {})),
            "proposer": "search", "seen_seq": writer.state.seq,
            "details": _details(idea, number, parent, knobs),
        })  # fmt: skip
        row(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1",
            {"id": number, "attempt": 1, "wall_seconds": 600.0})  # fmt: skip
        if not idea.ended:
            continue
        status = idea.status or ("scored" if idea.metric is not None else "crash")
        fields = {"status": status, "metric": idea.metric, "runner": "r0", "runtime_s": 10.0,
                  "hardware": "cpu x2", "isolation": "namespaces", **idea.result}  # fmt: skip
        row(RowKind.RESULT, f"result:{number}:1:r0", wire.dump(result(number, 1, **fields)), None)
        decision = decide(writer.state, number)
        assert isinstance(decision, Decision), decision
        row(RowKind.DECISION, f"decision:{number}:1", wire.dump(decision))
    return writer.state


def facts_of(*ideas: Idea, **keywords: Any) -> Facts:
    """The same, as a report sees it."""
    told = facts(session(*ideas, **keywords), "mar5")
    assert told is not None
    return told


def anything(seed: int) -> Facts:
    """Some session, with every odd number and value that a ledger may hold."""
    rng = random.Random(seed)
    odd = [0.0, -0.0, 1e-320, 1e308, -1e308, 1.0, 2.0, -3.0, 1e-9]
    moved: list[dict[str, Any]] = [
        {}, {"LR": rng.choice([0.1, 1, True, "x", 10**400, 1e308, -1e308, 0])}, {"NEW": -1},
        {"LR": rng.random(), "DEPTH": rng.randrange(9)},
    ]  # fmt: skip
    ideas = [
        Idea(metric=rng.choice([None, *odd, rng.random()]), knobs=rng.choice(moved),
             parent=rng.choice([None, 1]))
        for _ in range(rng.randrange(40))
    ]  # fmt: skip
    baseline = rng.choice([None, *odd])
    return facts_of(
        *(ideas if baseline is not None else []), baseline=baseline,
        metric={"name": "m", "direction": rng.choice(["minimize", "maximize"])},
        start=rng.choice([{}, {"LR": 0.1, "DEPTH": 2}, None]),
    )  # fmt: skip


def _details(
    idea: Idea, number: int, parent: int | None, knobs: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    if number == 1 or not knobs[1]:
        return {}
    knobs[number] = {**knobs.get(parent or 1, knobs[1]), **idea.knobs}
    if not idea.knobs:
        return {}
    return {
        "knobs": {f"train.py:{name}": value for name, value in knobs[number].items()},
        "changed": [f"train.py:{name}" for name in idea.knobs],
        "anchors": {f"train.py:{name}": value for name, value in knobs[1].items()},
    }


def _hypothesis(idea: Idea, before: dict[str, Any]) -> str:
    steps = ", ".join(f"{n} {before.get(n)} -> {v}" for n, v in idea.knobs.items())
    return f"{steps}: it may help" if steps else "a change"
