"""A random part of the fault matrix, and one of its checks seen red. The whole of it is
`python -m tests.faults.matrix`, run by scripts/accept/nothing-lost.sh.

MATRIX_SEED repeats a run.
"""

from __future__ import annotations

import os
import random

import pytest
from tests.faults import matrix, provoke
from tests.faults.breaks import BREAKS

from overnight.faultpoints import Step

CASES = 8


@pytest.mark.timeout(400)
def test_a_session_recovers_from_faults_at_random_steps() -> None:
    seed = int(os.environ.get("MATRIX_SEED") or random.randrange(2**32))
    rng = random.Random(seed)
    cases = rng.sample(matrix.all_cases(), CASES)
    print(f"\nMATRIX_SEED={seed} {[case.word for case in cases]}", flush=True)

    outcomes = matrix.play(cases, lambda outcome: print(outcome, flush=True))

    assert [o for o in outcomes if o.problem is not None] == []
    assert [o.case for o in outcomes] == cases


@pytest.mark.timeout(200)
def test_a_check_of_the_matrix_turns_red_in_a_broken_product() -> None:
    problem = matrix.play_broken("process-forgotten")

    assert problem is not None
    assert problem.check == BREAKS["process-forgotten"].red


@pytest.mark.timeout(200)
def test_a_run_that_does_not_end_is_a_red_case_that_shows_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provoke, "AGAIN_SECONDS", 0.5)

    with matrix.ward() as session:
        case = matrix.Case(Step.SUPERVISOR_BASE, "kill")
        outcome = matrix._outcome(session, case, matrix.play_case)

    assert outcome.problem is not None
    assert "opened again, it did not end in 0.5 s" in str(outcome.problem)


@pytest.mark.parametrize(
    "words", [["--only", "nosuch"], ["--only", "recorder:ack", "--write", "x.md"]]
)
def test_nothing_played_is_no_green_run_and_a_part_is_no_table(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        matrix.main(words)

    assert ended.value.code == 2
    assert "--only" in capsys.readouterr().err.splitlines()[-1]
