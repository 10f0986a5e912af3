"""Every ending of a candidate gets the one status and reason that fits, from real outputs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.execution import Execution, Exit
from overnight.contracts.experiment import Claim, ExperimentJob, ExperimentResult
from overnight.contracts.loop import MetricSpec, Plausible
from overnight.contracts.status import Direction, Status
from overnight.contracts.wire import decode, encode
from overnight.runner.parse import MetricParser, Parsed
from overnight.runner.verdict import Verdict, classify

JOB = ExperimentJob(
    sid="0123456789ab",
    tag="mar5",
    id=2,
    attempt=1,
    commit="a" * 40,
    tree_digest="b" * 64,
    run_cmd=("python", "train.py"),
    metric="val_bpb",
    editable_files=("train.py",),
    budget=5.0,
    gate="time",
    wall_seconds=10.0,
    cpu_seconds=None,
)
CPU_JOB = JOB.model_copy(update={"gate": "cpu_time", "wall_seconds": 50.0, "cpu_seconds": 10.0})
OK = Execution(
    exit=Exit.EXITED,
    exit_code=0,
    signal=None,
    wall_seconds=3.0,
    cpu_seconds=2.5,
    cpu_source="cgroup",
    cpu_share=0.83,
    kill_latency_seconds=None,
    survivors=0,
    max_rss_bytes=1000,
    isolation="namespaces",
    log_bytes=10,
    log_truncated=False,
    start_seconds=0.01,
)


def parse(stdout: bytes, stderr: bytes = b"") -> Parsed:
    parser = MetricParser("val_bpb")
    parser.feed("stderr", stderr)
    parser.feed("stdout", stdout)
    return parser.finish()


def judge(stdout: bytes = b"", stderr: bytes = b"", **execution: Any) -> Verdict:
    return classify(replace(OK, **execution), parse(stdout, stderr), JOB)


def run(folder: Path, script: str, *, prelude: str = "") -> Verdict:
    """Run *script* as a real train.py and judge what it really left."""
    (folder / "train.py").write_text(script)
    command = [sys.executable, "train.py"]
    if prelude:
        command = ["bash", "-c", f"{prelude}; exec {sys.executable} train.py"]
    ended = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    code = ended.returncode
    execution = replace(
        OK, exit_code=None if code < 0 else code, signal=-code if code < 0 else None
    )
    return classify(execution, parse(ended.stdout, ended.stderr), JOB)


def short(verdict: Verdict) -> str:
    return f"{verdict.status}:{verdict.reason}" if verdict.reason else str(verdict.status)


# ---- cases.md C1, one test a case (3 and 14 are about exports and stand in test_exports.py)


def test_c1_01_a_nan_is_a_crash_and_never_a_metric(tmp_path: Path) -> None:
    verdict = run(tmp_path, 'print("val_bpb: nan")')

    assert (short(verdict), verdict.metric) == ("crash:nonfinite", None)


def test_c1_02_nan_never_becomes_best() -> None:
    spec = MetricSpec(name="val_bpb")
    verdicts = [judge(b"val_bpb: nan\n"), judge(b"val_bpb: 0.99\n")]
    best: float | None = None
    for verdict in verdicts:
        if verdict.metric is not None and (best is None or spec.better(verdict.metric, best)):
            best = verdict.metric

    assert best == 0.99


def test_c1_04_of_two_lines_the_summary_wins_and_is_flagged() -> None:
    verdict = judge(b"val_bpb: 1.2\nstep 200\n---\nval_bpb: 0.9\n")

    assert (short(verdict), verdict.metric) == ("scored", 0.9)
    assert verdict.flags == ("multiple_metric_lines",)
    assert short(judge(b"val_bpb: 1.2\nval_bpb: 0.9\n")) == "crash:ambiguous_metric"


def test_c1_05_lookalikes_do_not_count() -> None:
    verdict = judge(b"val_bpb: 0.99\nbest_val_bpb=0.5\nbest_val_bpb: 0.5\n")

    assert (short(verdict), verdict.metric) == ("scored", 0.99)


def test_c1_06_scientific_notation() -> None:
    assert judge(b"val_bpb: 9.97e-01\n").metric == 0.997


def test_a_candidate_that_took_too_much_disk_is_a_crash_that_says_what() -> None:
    verdict = judge(exit=Exit.DISK, exit_code=None, over="more than 64 MiB of disk")

    assert (verdict.status, verdict.reason) == (Status.CRASH, "disk")
    assert verdict.detail == "killed: it took more than 64 MiB of disk"
    assert verdict.signature == "disk:killed"


def test_open_files_that_ran_out_are_named(tmp_path: Path) -> None:
    script = "held = []\nwhile True: held.append(open('/dev/null'))\n"
    verdict = run(tmp_path, script, prelude="ulimit -n 64")

    assert (verdict.status, verdict.reason) == (Status.CRASH, "open_files")
    assert "Too many open files" in verdict.detail


@pytest.mark.parametrize("text", ["0,997", "1,234.5", "0.997 bpb", "99.7%"])
def test_c1_07_units_and_separators_are_refused_with_the_raw_text(text: str) -> None:
    verdict = judge(f"val_bpb: {text}\n".encode())

    assert short(verdict) == "crash:metric_unparsable"
    assert text in verdict.detail
    assert verdict.claims == (Claim(name="val_bpb", value=text),)


def test_c1_08_colour() -> None:
    assert judge(b"\x1b[32mval_bpb: 0.99\x1b[0m\n").metric == 0.99


def test_c1_09_carriage_returns() -> None:
    assert judge(b"step 1\rstep 2\rval_bpb: 0.9\n").metric == 0.9


def test_c1_11_a_metric_and_then_a_failure_is_a_crash_with_the_metric_as_a_claim(
    tmp_path: Path,
) -> None:
    verdict = run(tmp_path, 'import sys\nprint("val_bpb: 0.9")\nsys.exit(1)')

    assert (short(verdict), verdict.metric) == ("crash:exit_code", None)
    assert verdict.flags == ("metric_seen",)
    assert verdict.claims == (Claim(name="val_bpb", value="0.9"),)


def test_c1_12_exit_0_without_a_metric(tmp_path: Path) -> None:
    verdict = run(tmp_path, "import sys\nsys.exit(0)")

    assert short(verdict) == "crash:no_metric"
    assert verdict.detail == "no line 'val_bpb: <number>' in the output"


def test_c1_15_direction_decides_what_is_better() -> None:
    low, high = judge(b"val_bpb: 0.7\n").metric, judge(b"val_bpb: 0.8\n").metric
    assert low is not None
    assert high is not None

    assert MetricSpec(name="auc", direction=Direction.MAXIMIZE).better(high, low)
    assert not MetricSpec(name="loss", direction=Direction.MINIMIZE).better(high, low)


def test_c1_16_an_equal_value_is_not_better() -> None:
    first, second = judge(b"val_bpb: 1.0\n").metric, judge(b"val_bpb: 1.00\n").metric
    assert first is not None
    assert second is not None

    for direction in Direction:
        assert not MetricSpec(name="acc", direction=direction).better(second, first)


# ---- real failures of real scripts


@pytest.mark.parametrize(
    ("script", "expected", "words"),
    [
        ("x = = 1", "crash:syntax", "SyntaxError: invalid syntax"),
        ("def f():\nreturn 1", "crash:syntax", "IndentationError"),
        ("if 1:\n\tx = 1\n        y = 2", "crash:syntax", "TabError"),
        ("import no_such_module", "crash:import", "ModuleNotFoundError: No module named"),
        ("from os import nothing_here", "crash:import", "ImportError: cannot import"),
        ("bytearray(10**18)", "crash:oom", "MemoryError"),
        (
            "class OutOfMemoryError(RuntimeError): ...\nOutOfMemoryError.__module__ = 'torch'\n"
            "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB')",
            "crash:oom",
            "CUDA out of memory",
        ),
        ("raise RuntimeError('CUDA error: out of memory')", "crash:oom", "CUDA error"),
        ("open('/dev/full', 'wb', buffering=0).write(b'x')", "crash:disk", "No space left"),
        ("input('proceed? ')", "crash:asked_for_input", "EOFError"),
        (
            "raise ValueError('bad\\x1b[31m shape\\u2028x')",
            "crash:exit_code",
            "ValueError: bad shape",
        ),
        ("import sys; sys.exit(7)", "crash:exit_code", "exit code 7"),
        (
            "import sys; sys.exit('data is missing')",
            "crash:exit_code",
            "exit code 1: data is missing",
        ),
        (
            "try:\n    import no_such_module\nexcept ImportError as e:\n    print(repr(e))"
            "\nraise KeyError('depth')",
            "crash:exit_code",
            "KeyError: 'depth'",
        ),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    import no_such_module",
            "crash:import",
            "ModuleNotFoundError",
        ),
        ("raise FloatingPointError('loss is nan')", "crash:nonfinite", "loss is nan"),
        (
            "def f():\n    class LocalError(Exception): ...\n    raise LocalError('deep')\nf()",
            "crash:exit_code",
            "LocalError: deep",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crash:exit_code", "SIGSEGV"),
        ("import os; os.abort()", "crash:exit_code", "SIGABRT"),
        (
            "import os, sys\nsys.stderr.write('terminate called: std::bad_alloc\\n')\n"
            "sys.stderr.flush()\nos.abort()",
            "crash:oom",
            "SIGABRT",
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "crash:exit_code",
            "not sent by us",
        ),
        ("import sys; sys.exit(139)", "crash:exit_code", "SIGSEGV"),
        (
            "class Noisy:\n    def __del__(self): raise RuntimeError('out of memory')\n"
            "noisy = Noisy()\nraise ValueError('the cause')",
            "crash:exit_code",
            "ValueError: the cause",
        ),
    ],
)
def test_a_real_failure_has_its_reason_and_one_safe_line(
    tmp_path: Path, script: str, expected: str, words: str
) -> None:
    verdict = run(tmp_path, script)

    assert short(verdict) == expected
    assert words in verdict.detail
    assert len(verdict.detail.splitlines()) == 1
    assert "\x1b" not in verdict.detail
    assert verdict.signature is not None


def test_a_file_larger_than_allowed_is_disk(tmp_path: Path) -> None:
    verdict = run(tmp_path, "open('big', 'wb').write(b'x' * 100_000)", prelude="ulimit -f 4")

    assert short(verdict) == "crash:disk"


def test_the_traceback_is_found_above_the_stdout_flushed_after_it(tmp_path: Path) -> None:
    verdict = run(tmp_path, "for i in range(200): print('step', i)\nimport no_such_module")

    assert short(verdict) == "crash:import"
    assert verdict.signature == "import:ModuleNotFoundError train.py:<module>"


def test_a_traceback_on_stdout_is_found_too() -> None:
    text = (
        b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nTypeError: no\n'
    )
    verdict = judge(text, exit_code=1)

    assert verdict.detail == "TypeError: no"
    assert verdict.signature == "exit_code:TypeError a.py:f"


def test_a_launcher_error_is_explained_by_what_failed_below_it() -> None:
    text = (
        b'Traceback (most recent call last):\n  File "train.py", line 9, in main\n'
        b"torch.OutOfMemoryError: CUDA out of memory.\n"
        b'Traceback (most recent call last):\n  File "run.py", line 1, in launch\n'
        b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"
    )

    assert short(judge(b"", text, exit_code=1)) == "crash:oom"


def test_signatures_compare_kinds_of_crashes_not_lines_or_folders(tmp_path: Path) -> None:
    def crash(folder: str, padding: int, message: str) -> str | None:
        place = tmp_path / folder
        place.mkdir()
        script = "\n" * padding + f"def layer7():\n    raise ValueError('{message}')\nlayer7()\n"
        return run(place, script).signature

    first, moved = crash("a", 0, "at 0x7f12"), crash("b", 9, "at 0x9999")
    other = run(tmp_path, "def other():\n    raise ValueError('x')\nother()").signature

    assert first == moved == "exit_code:ValueError train.py:layer#"
    assert other != first


# ---- endings from outside


def test_a_kill_of_ours_is_cancelled_whatever_was_printed() -> None:
    verdict = judge(b"val_bpb: 0.9\n", exit=Exit.KILLED, exit_code=None)

    assert (short(verdict), verdict.metric) == ("cancelled", None)


def test_the_kernels_memory_kill_is_oom_even_after_a_metric() -> None:
    verdict = judge(b"val_bpb: 0.9\n", exit=Exit.OOM, exit_code=None, signal=9)

    assert (short(verdict), verdict.metric) == ("crash:oom", None)
    assert verdict.flags == ("metric_seen",)


def test_a_deadline_is_a_timeout_with_a_printed_metric_as_a_claim() -> None:
    verdict = judge(b"val_bpb: 0.9\n", exit=Exit.DEADLINE_WALL, exit_code=None, wall_seconds=10.02)

    assert short(verdict) == "timeout:train"
    assert verdict.detail == "killed after 10.0 s (deadline 10 s)"
    assert verdict.claims == (Claim(name="val_bpb", value="0.9"),)


def test_a_known_phase_is_named() -> None:
    execution = replace(OK, exit=Exit.DEADLINE_WALL, exit_code=None)

    assert classify(execution, parse(b""), JOB, phase="eval").reason == "eval"


@pytest.mark.parametrize(
    ("job", "share", "cpu", "expected"),
    [
        (CPU_JOB, 0.1, 5.0, "infra:starved"),
        (CPU_JOB, 0.49, 9.9, "infra:starved"),
        (CPU_JOB, 0.5, 5.0, "timeout:train"),
        (CPU_JOB, 0.1, 10.0, "timeout:train"),
        (CPU_JOB, None, 5.0, "infra:starved"),
        (CPU_JOB, None, None, "timeout:train"),
        (JOB, 0.1, 1.0, "timeout:train"),
    ],
)
def test_only_a_cpu_gate_without_cpu_is_starved(
    job: ExperimentJob, share: float | None, cpu: float | None, expected: str
) -> None:
    execution = replace(
        OK,
        exit=Exit.DEADLINE_WALL,
        exit_code=None,
        wall_seconds=50.0,
        cpu_share=share,
        cpu_seconds=cpu,
    )

    assert short(classify(execution, parse(b""), job)) == expected


def test_the_cpu_deadline_is_a_timeout() -> None:
    execution = replace(OK, exit=Exit.DEADLINE_CPU, exit_code=None, cpu_seconds=10.1)
    verdict = classify(execution, parse(b""), CPU_JOB)

    assert short(verdict) == "timeout:train"
    assert verdict.detail == "killed at its limit of 10 s of CPU (10.1 CPU-seconds used)"


def test_survivors_are_flagged_and_change_nothing_else() -> None:
    clean, dirty = judge(b"val_bpb: 0.9\n"), judge(b"val_bpb: 0.9\n", survivors=2)

    assert dirty == replace(clean, flags=("survivors",))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0, None, "held:implausible"),
        (None, 0.5, "held:implausible"),
        (0.9, 0.9, "scored"),
        (None, None, "scored"),
    ],
)
def test_an_implausible_metric_is_held_and_kept(
    low: float | None, high: float | None, expected: str
) -> None:
    bounds = Plausible(min=low, max=high)
    verdict = classify(OK, parse(b"val_bpb: 0.9\n"), JOB, plausible=bounds)

    assert (short(verdict), verdict.metric) == (expected, 0.9)


def test_an_error_survived_is_told_beside_the_missing_metric(tmp_path: Path) -> None:
    script = "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()\n"
    verdict = run(tmp_path, script)

    assert short(verdict) == "crash:no_metric"
    assert verdict.detail.endswith("the last error was ZeroDivisionError: division by zero")


hostile = st.binary(max_size=200) | st.lists(
    st.sampled_from(
        [
            b'  File "x\x1b]0;t\x07.py", line 3, in f',
            b"\nValueError: \xe2\x80\xa8\x1b[1m",
            b"\n",
            b"val_bpb: 1",
            b"---",
            b"Traceback (most recent call last):",
            b"MemoryError",
            b"\xff",
            b"x" * 3000,
            b"peak_vram_mb: 1",
            b"=cmd|: x",
        ]
    ),
    max_size=12,
).map(b"".join)


@given(
    hostile,
    hostile,
    st.sampled_from(Exit),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(1, 80),
    st.integers(0, 3),
)
def test_every_verdict_fits_in_a_result(
    stdout: bytes, stderr: bytes, ended: Exit, code: int | None, number: int | None, survivors: int
) -> None:
    execution = replace(OK, exit=ended, exit_code=code, signal=number, survivors=survivors)
    verdict = classify(execution, parse(stdout, stderr), JOB, plausible=Plausible(min=0.5))
    result = ExperimentResult.model_validate(
        {
            "id": 2,
            "attempt": 1,
            "sender": "runner-0",
            "status": verdict.status,
            "reason": verdict.reason,
            "detail": verdict.detail,
            "metric": verdict.metric,
            "claims": verdict.claims,
            "flags": verdict.flags,
            "signature": verdict.signature,
        }
    )

    assert decode(ExperimentResult, encode(result)) == result
    assert (verdict.metric is not None) == (verdict.status in {Status.SCORED, Status.HELD})
    assert (verdict.signature is not None) == (verdict.status is Status.CRASH)
    assert len(verdict.detail.splitlines()) <= 1
