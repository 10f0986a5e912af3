"""`deadletter` over a folder: what lies on the disk is listed and moved without a stack."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from tests.golden.make import LEDGER, VALUES, golden

from overnight.cli.__main__ import main
from overnight.cli.summary import Ending, ending_lines
from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.contracts.rows import AttemptIssued, Head, Proposed
from overnight.contracts.status import RowKind
from overnight.jobqueue.connection import connect
from overnight.jobqueue.jobs import Jobs, Parked
from overnight.ledger.files import SessionFiles
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter
from overnight.sessions.deadletter import drop, letters, requeue
from overnight.sessions.experiments import log_tail
from overnight.sessions.locate import Found, find_session, read_state
from overnight.sessions.stack import Stack
from redis_server import RedisServer

HOSTILE = "\x1b]0;gotcha\x07\x1b[2Jrefused\nfor good"


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """The golden session, in which experiment 3 was given up, with two refused results."""
    files = SessionFiles(tmp_path)
    shutil.copy(LEDGER, files.ledger)
    files.identity.write_text(golden("session"))
    last = LedgerTail(files.ledger).poll()[-1]
    files.head.write_text(wire.encode(Head(seq=last.seq, hash=last.hash)) + "\n")
    refused = files.runner("r1") / "outbox" / "refused"
    refused.mkdir(parents=True)
    (refused / "result_7_2_r1.json").write_text(golden("message", 1))
    (refused / "result_7_2_r1.why").write_text(HOSTILE)
    (refused / "odd.json").write_text("{")
    return find_session(tmp_path)


def test_what_lies_on_the_disk_is_listed_without_a_stack(found: Found) -> None:
    given_up, odd, result = letters(found)

    assert (given_up.ref, given_up.kind, given_up.experiment, given_up.attempt) == (
        "3", "experiment", 3, 3,
    )  # fmt: skip
    assert given_up.why == "lost"
    assert (odd.kind, odd.experiment, odd.attempt) == ("result", None, None)
    assert (result.kind, result.experiment, result.attempt) == ("result", 7, 2)
    assert result.since.startswith("20")


def test_the_table_can_not_drive_a_terminal(
    found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deadletter", "list", "--dir", str(found.files.root)]) == 0

    text = capsys.readouterr().out
    assert "experiment 3, 3 attempts" in text
    assert "refused for good" in text
    assert "\x1b" not in text
    assert "overnight deadletter requeue REF" in text


def test_the_end_of_a_run_says_where_to_look(found: Found) -> None:
    state = read_state(found.files)
    lines = ending_lines(
        Ending(
            files=found.files, state=state, closed=state.closed, seconds=1.0,
            here=found.files.root, failed=False,
        )
    )  # fmt: skip

    (line,) = (line for line in lines if line.startswith("  gave up "))
    told = "gave up 1, each attempt failed by our fault see overnight deadletter list --dir ."
    assert " ".join(line.split()) == told


def test_the_log_of_what_was_given_up_is_that_of_its_last_real_attempt(found: Found) -> None:
    experiment = read_state(found.files).experiments[3]
    with pytest.raises(UsageError, match="no log of attempt 4"):
        log_tail(found.files, experiment)
    for attempt in (1, 2):
        path = found.files.run_log(3, attempt)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"attempt {attempt}")

    tail = log_tail(found.files, experiment)

    assert (tail.attempt, tail.text) == (2, "attempt 2")


def test_a_refused_result_is_dropped_into_quarantine(found: Found) -> None:
    *_, result = letters(found)
    text = (found.files.refused_results()[1]).read_bytes()

    assert drop(found, result.ref) == result

    assert result not in letters(found)
    kept = found.files.quarantine / "refused-r1-result_7_2_r1-1.json"
    assert kept.read_bytes() == text
    assert kept.with_suffix(".why").read_text() == HOSTILE
    with pytest.raises(UsageError, match="not in the dead letter"):
        requeue(found, "99")


def test_a_refused_result_can_not_be_requeued(found: Found) -> None:
    *_, result = letters(found)
    with pytest.raises(UsageError, match="refused for good"):
        requeue(found, result.ref)
    assert result in letters(found)


@pytest.mark.parametrize("ref", ["", "jub-12345678", "job-1234", "../../etc", "-1", "result-0"])
def test_what_can_not_be_a_name_is_told_so_without_a_stack(found: Found, ref: str) -> None:
    for act in (requeue, drop):
        with pytest.raises(UsageError, match=re.escape(f"{ref!r} is not in the dead letter")):
            act(found, ref)


@pytest.mark.parametrize("ref", ["3", "job-12345678"])
def test_what_needs_a_stack_says_how_to_start_one(found: Found, ref: str) -> None:
    for act in (requeue, drop):
        with pytest.raises(InfrastructureError) as caught:
            act(found, ref)
        assert str(caught.value) == "no stack runs for this session: overnight up"


@pytest.mark.parametrize(
    ("ref", "code"), [("1", 2), ("99", 2), ("3" * 30, 2), ("\u0663", 2), ("job-12345678", 3)]
)
def test_what_is_not_in_the_dead_letter_is_one_line(
    found: Found, capsys: pytest.CaptureFixture[str], ref: str, code: int
) -> None:
    """A name that could be a job's is not known without a stack."""
    where = ["--dir", str(found.files.root)]
    for verb in ("requeue", "drop"):
        assert main(["deadletter", verb, ref, *where]) == code
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.fixture
def waiting(found: Found) -> str:
    """An attempt of experiment 4 that was issued and has no result; its job."""
    writer = LedgerWriter(found.files, found.sid)
    writer.open()
    proposed = {
        "id": 4, "role": "candidate", "parent": 1, "commit": "c" * 40, "tree_digest": "d" * 64,
        "branch": "iter4", "hypothesis": "idea 4", "proposer": "random", "seen_seq": 1,
    }  # fmt: skip
    writer.append(RowKind.PROPOSED, "proposed:4", wire.build(Proposed, proposed))
    issued = AttemptIssued(id=4, attempt=1, wall_seconds=9.0)
    writer.append(RowKind.ATTEMPT_ISSUED, "attempt:4:1", issued)
    writer.close()
    job = VALUES["job"][1] | {"id": 4, "attempt": 1}
    return wire.canonical(job)


@pytest.mark.parametrize("pool", ["default", "no pool!"])
def test_a_parked_job_that_is_waited_for_is_pushed_again(
    found: Found, redis_server: RedisServer, waiting: str, pool: str
) -> None:
    """As after its runners got the release that can read it."""
    Stack(pid=os.getpid(), redis_url=redis_server.url).write(found.files)
    jobs = Jobs(connect(redis_server.url))
    jobs.park(Parked(job=f"{found.sid}-4-1", pool=pool, reason="v2", payload=waiting))
    (job,) = (letter for letter in letters(found) if letter.kind == "job")

    if pool == "default":
        assert requeue(found, job.ref) == job
        assert jobs.queued("default") == {(found.sid, 4, 1)}
        assert jobs.parked() == []
    else:
        with pytest.raises(UsageError, match="can't be queued"):
            requeue(found, job.ref)
        assert len(jobs.parked()) == 1


def test_a_parked_job_of_a_session_is_listed_and_dropped(
    found: Found, redis_server: RedisServer
) -> None:
    Stack(pid=os.getpid(), redis_url=redis_server.url).write(found.files)
    jobs = Jobs(connect(redis_server.url))
    job = f"{found.sid}-7-2"
    for payload in (golden("job", 1), golden("job")):
        jobs.park(Parked(job=job, pool="default", reason="v2", payload=payload))

    over, unreadable = (letter for letter in letters(found) if letter.kind == "job")
    assert (over.experiment, over.attempt, over.why) == (7, 2, "v2")
    with pytest.raises(UsageError, match="can't be read, as before: ExperimentJob v"):
        requeue(found, unreadable.ref)
    with pytest.raises(UsageError, match="attempt 2 of experiment 7 is over"):
        requeue(found, over.ref)
    for letter in (over, unreadable):
        drop(found, letter.ref)
    assert [letter.kind for letter in letters(found)] == ["experiment", "result", "result"]
