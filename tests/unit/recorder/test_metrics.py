"""What the recorder exports is what the fold says; what there is none of is absent, not 0."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from tests.unit.ledger.history_of import opening, result
from tests.unit.orchestrator.world import MemoryWriter

from overnight.contracts import wire
from overnight.contracts.rows import AttemptIssued, Proposed
from overnight.contracts.status import RowKind
from overnight.orchestrator.policy import decide
from overnight.recorder.metrics import RecorderMetrics


def _experiment(writer: MemoryWriter, **fields: object) -> None:
    number = writer.state.next_id
    proposed = {
        "id": number,
        "role": "baseline" if number == 1 else "candidate",
        "parent": None if number == 1 else 1,
        "commit": f"{number:040x}",
        "tree_digest": f"{number:064x}",
        "branch": f"iter{number}",
        "hypothesis": "h",
        "proposer": "test",
        "seen_seq": 0,
    }
    writer.append(RowKind.PROPOSED, f"proposed:{number}", wire.build(Proposed, proposed))
    issued = AttemptIssued(id=number, attempt=1, wall_seconds=1.0)
    writer.append(RowKind.ATTEMPT_ISSUED, f"attempt:{number}:1", issued)
    if fields:
        writer.append(RowKind.RESULT, f"result:{number}:1:r0", result(number, **fields))
        decision = decide(writer.state, number)
        writer.append(RowKind.DECISION, f"decision:{number}:1", decision)  # type: ignore[arg-type]


def test_the_gauges_follow_the_fold() -> None:
    writer = MemoryWriter([])
    registry = CollectorRegistry()
    metrics = RecorderMetrics(registry, lambda: writer.state)
    metrics.fsync_seconds.observe(0.002)
    writer.append(RowKind.SESSION_OPENED, "open:1", opening())
    before = generate_latest(registry).decode()
    _experiment(writer, status="scored", metric=1.5)
    _experiment(writer, status="crash", reason="oom")
    _experiment(writer)

    after = generate_latest(registry).decode()

    assert "overnight_incumbent_metric" not in before
    assert "overnight_baseline_metric" not in before
    assert 'overnight_experiments{status="keep"} 0.0' in before
    for line in (
        'overnight_experiments{status="keep"} 1.0',
        'overnight_experiments{status="crash"} 1.0',
        "overnight_incumbent_metric 1.5",
        "overnight_experiments_ended_total 2.0",
        "overnight_keeps_total 1.0",
        "overnight_incumbent_experiment 1.0",
        'overnight_session_state{state="running"} 1.0',
        "overnight_in_flight 1.0",
        "overnight_approvals_waiting 0.0",
        "overnight_open_deadline_seconds 1.0",
        "overnight_ledger_rows 11.0",
        "overnight_queue_depth 0.0",
        "overnight_ledger_fsync_seconds_count 1.0",
    ):
        assert line in after, line


def test_labels_come_from_closed_sets() -> None:
    """However hostile its text, a candidate adds no series."""
    writer = MemoryWriter([])
    registry = CollectorRegistry()
    RecorderMetrics(registry, lambda: writer.state)
    writer.append(RowKind.SESSION_OPENED, "open:1", opening())
    _experiment(writer, status="scored", metric=1.5)
    series = generate_latest(registry).count(b"\n")
    for number in range(20):
        _experiment(writer, status="crash", reason="exit_code", detail=f"evil {number}\n# HELP x")

    assert generate_latest(registry).count(b"\n") == series


def test_attempts_that_failed_by_our_fault_are_counted_by_reason_and_strange_reasons_together() -> (
    None
):
    writer = MemoryWriter([])
    registry = CollectorRegistry()
    RecorderMetrics(registry, lambda: writer.state)
    writer.append(RowKind.SESSION_OPENED, "open:1", opening())
    _experiment(writer, status="scored", metric=1.5)
    _experiment(writer)
    for attempt, reason in enumerate(("lost", "sandbox", "of_another_plugin", "lost"), 1):
        ended = result(2, attempt, status="infra", reason=reason)
        writer.append(RowKind.RESULT, f"result:2:{attempt}:r0", ended)
        issued = AttemptIssued(id=2, attempt=attempt + 1, wall_seconds=1.0)
        writer.append(RowKind.ATTEMPT_ISSUED, f"attempt:2:{attempt + 1}", issued)

    served = generate_latest(registry).decode()

    for reason, found in (("lost", 2), ("sandbox", 1), ("other", 1), ("disk", 0)):
        assert f'overnight_infra_attempts_total{{reason="{reason}"}} {found}.0' in served


def test_an_idea_that_waits_for_a_person_is_not_in_flight() -> None:
    writer = MemoryWriter([])
    registry = CollectorRegistry()
    RecorderMetrics(registry, lambda: writer.state)
    writer.append(
        RowKind.SESSION_OPENED, "open:1", opening(policy={"approval": "hypothesis", "prefetch": 0})
    )
    _experiment(writer, status="scored", metric=1.5)
    proposed = {
        "id": 2, "role": "candidate", "parent": 1, "commit": "2" * 40, "tree_digest": "2" * 64,
        "branch": "iter2", "hypothesis": "h", "proposer": "test", "seen_seq": 0,
    }  # fmt: skip
    writer.append(RowKind.PROPOSED, "proposed:2", wire.build(Proposed, proposed))

    served = generate_latest(registry).decode()

    assert "overnight_in_flight 0.0" in served
    assert "overnight_approvals_waiting 1.0" in served
