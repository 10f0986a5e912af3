"""Every way to print a metric ends in the status and reason that design gives it.

Each case runs as a real program with its exit code and both its streams; some of them again as
candidates of a real session.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import truth
from tests.e2e.stage import Stage

from overnight.contracts.execution import Execution, Exit
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.status import Status
from overnight.runner.parse import MetricParser
from overnight.runner.verdict import classify

Expected = tuple[str, str | None, float | None]  #: status, reason, metric

#: name -> (the candidate's code, what it must come to). Codes need `sys` only.
CASES: dict[str, tuple[str, Expected]] = {
    "a plain value": ("print('val_bpb: 0.997')", ("scored", None, 0.997)),
    "nan": ("print('val_bpb: nan')", ("crash", "nonfinite", None)),
    "NaN": ("print('val_bpb: NaN')", ("crash", "nonfinite", None)),
    "-nan": ("print('val_bpb: -nan')", ("crash", "nonfinite", None)),
    "inf": ("print('val_bpb: inf')", ("crash", "nonfinite", None)),
    "-Infinity": ("print('val_bpb: -Infinity')", ("crash", "nonfinite", None)),
    "too large for a double": ("print('val_bpb: 1e999')", ("crash", "nonfinite", None)),
    "a value, then nan at the end": (
        "print('val_bpb: 0.9'); print('---'); print('val_bpb: nan')",
        ("crash", "nonfinite", None),
    ),
    "nan on the way, a value at the end": (
        "print('val_bpb: nan'); print('---'); print('val_bpb: 0.9')",
        ("scored", None, 0.9),
    ),
    "twice, the last in the summary": (
        "print('val_bpb: 1.2'); print('---'); print('val_bpb: 0.9')",
        ("scored", None, 0.9),
    ),
    "two summaries": (
        "print('---\\nval_bpb: 1.2\\n---\\nval_bpb: 0.9')",
        ("scored", None, 0.9),
    ),
    "twice in one summary": (
        "print('---\\nval_bpb: 1.2\\nval_bpb: 0.9')",
        ("scored", None, 0.9),
    ),
    "twice without a summary": (
        "print('val_bpb: 1.2'); print('val_bpb: 0.9')",
        ("crash", "ambiguous_metric", None),
    ),
    "the same value twice": (
        "print('val_bpb: 0.9'); print('val_bpb: 0.90')",
        ("scored", None, 0.9),
    ),
    "lookalikes around it": (
        "print('best_val_bpb: 0.5\\nval_bpb_ema: 0.4\\nval_bpb: 0.9\\nbest_val_bpb=0.5\\n'"
        "'the val_bpb: 0.3\\nval_bpb = 0.2')",
        ("scored", None, 0.9),
    ),
    "only lookalikes": (
        "print('best_val_bpb: 0.5\\nval_bpb_ema: 0.4\\nVAL_BPB: 0.3\\nfinal val_bpb: 0.2')",
        ("crash", "no_metric", None),
    ),
    "scientific": ("print('val_bpb: 9.97e-01')", ("scored", None, 0.997)),
    "scientific, upper case and sign": ("print('val_bpb: +9.97E+00')", ("scored", None, 9.97)),
    "negative": ("print('val_bpb: -0.5')", ("scored", None, -0.5)),
    "an integer": ("print('val_bpb: 1')", ("scored", None, 1.0)),
    "a comma for a point": ("print('val_bpb: 0,997')", ("crash", "metric_unparsable", None)),
    "thousands": ("print('val_bpb: 1,234.5')", ("crash", "metric_unparsable", None)),
    "a unit": ("print('val_bpb: 0.997 bpb')", ("crash", "metric_unparsable", None)),
    "percent": ("print('val_bpb: 99.7%')", ("crash", "metric_unparsable", None)),
    "underscores": ("print('val_bpb: 1_0')", ("crash", "metric_unparsable", None)),
    "Arabic digits": (
        "sys.stdout.buffer.write('val_bpb: \\u0661\\n'.encode())",
        ("crash", "metric_unparsable", None),
    ),
    "hexadecimal": ("print('val_bpb: 0x1p-1')", ("crash", "metric_unparsable", None)),
    "no value": ("print('val_bpb:')", ("crash", "metric_unparsable", None)),
    "5000 digits": ("print('val_bpb: ' + '9' * 5000)", ("crash", "metric_unparsable", None)),
    "coloured": ("print('\\x1b[32mval_bpb: 0.99\\x1b[0m')", ("scored", None, 0.99)),
    "coloured inside": ("print('val_bpb: \\x1b[1;32m0.99\\x1b[0m')", ("scored", None, 0.99)),
    "behind a window title": ("print('\\x1b]0;t\\x07val_bpb: 0.99')", ("scored", None, 0.99)),
    "after a progress bar": (
        "sys.stdout.write('step 1\\rstep 2\\rval_bpb: 0.9\\n')",
        ("scored", None, 0.9),
    ),
    "with a carriage return": ("sys.stdout.write('val_bpb: 0.9\\r\\n')", ("scored", None, 0.9)),
    "without a newline": ("sys.stdout.write('val_bpb: 0.9')", ("scored", None, 0.9)),
    "between bytes that are no text": (
        "sys.stdout.buffer.write(b'\\xff\\xfe\\nval_bpb: 0.9\\n\\xff')",
        ("scored", None, 0.9),
    ),
    "on stderr alone": ("print('val_bpb: 0.9', file=sys.stderr)", ("scored", None, 0.9)),
    "on both, stdout counts": (
        "print('val_bpb: 0.5', file=sys.stderr); print('val_bpb: 0.9')",
        ("scored", None, 0.9),
    ),
    "above the last rule only": (
        "print('val_bpb: 0.9'); print('---'); print('done: 1')",
        ("crash", "no_metric", None),
    ),
    "a value, then exit 1": (
        "print('val_bpb: 0.9'); sys.exit(1)",
        ("crash", "exit_code", None),
    ),
    "a value, then an exception": (
        "print('val_bpb: 0.9'); raise ValueError('plot')",
        ("crash", "exit_code", None),
    ),
    "nothing and exit 0": ("sys.exit(0)", ("crash", "no_metric", None)),
    "a missing module": ("import no_such_module", ("crash", "import", None)),
    "a syntax error": ("exec('x = = 1')", ("crash", "syntax", None)),
    "out of memory": ("raise MemoryError", ("crash", "oom", None)),
    "a question": ("input('go on? ')", ("crash", "asked_for_input", None)),
    "a zero": ("print('val_bpb: 0.000000')", ("scored", None, 0.0)),
}
JOB = ExperimentJob(
    sid="0123456789ab", tag="mar5", id=2, attempt=1, commit="a" * 40, tree_digest="b" * 64,
    run_cmd=("python", "train.py"), metric="val_bpb",
    editable_files=("train.py",), budget=5.0, gate="time", wall_seconds=10.0, cpu_seconds=None,
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_output_ends_as_it_should(name: str) -> None:
    code, expected = CASES[name]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys\n{code}"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    parser = MetricParser("val_bpb")
    parser.feed("stdout", done.stdout)
    parser.feed("stderr", done.stderr)

    verdict = classify(_execution(done.returncode), parser.finish(), JOB)

    assert (verdict.status.value, verdict.reason, verdict.metric) == expected
    if verdict.status is Status.CRASH and b"val_bpb: 0.9" in done.stdout and done.returncode:
        assert [(c.name, c.value) for c in verdict.claims] == [("val_bpb", "0.9")]


def test_the_same_endings_in_a_real_session(stage: Stage) -> None:
    """A candidate's knob picks its case, so that each experiment meets another one."""
    stage.write({"train.py": _train(), "cases.json": json.dumps([c for c, _ in CASES.values()])})
    stage.bind()

    finished = stage.run(14)
    rows = truth.check_session(stage.root, 14)
    finals = truth.final_of(rows)
    met = {}
    for experiment, final in finals.items():
        name = _case_of(stage.root / f"iter{experiment}" / "code_snapshot" / "train.py")
        met[name] = (final["status"], final["reason"], final["metric"])
    print(f"\nmet: {sorted(met)}")

    assert finished.code == 0, finished
    assert {name: CASES[name][1] for name in met} == met
    assert len(met) >= 8
    assert len({status for status, _, _ in met.values()}) == 2


def _execution(code: int) -> Execution:
    return Execution(
        exit=Exit.EXITED, exit_code=code, signal=None, wall_seconds=1.0, cpu_seconds=0.1,
        cpu_source="cgroup", cpu_share=0.1, kill_latency_seconds=None, survivors=0,
        max_rss_bytes=None, isolation="namespaces", log_bytes=0, log_truncated=False,
        start_seconds=0.1,
    )  # fmt: skip


def _train() -> str:
    return (
        "import hashlib, json, sys\n\n"
        "LR = 0.1\nWARMUP = 0.3\nDECAY = 0.02\n\n"
        "cases = json.load(open('cases.json'))\n"
        "knobs = f'{LR} {WARMUP} {DECAY}'\n"
        "first = knobs == '0.1 0.3 0.02'\n"
        "mood = 0 if first else hashlib.sha256(knobs.encode()).digest()[0] % len(cases)\n"
        "exec(cases[mood])\n"
    )


def _case_of(train: Path) -> str:
    """What this candidate was bound to do."""
    text = train.read_text()
    values = (float(re.search(rf"^{k} = (.+)$", text, re.M)[1]) for k in ("LR", "WARMUP", "DECAY"))
    knobs = "{} {} {}".format(*values)
    first = knobs == "0.1 0.3 0.02"
    mood = 0 if first else hashlib.sha256(knobs.encode()).digest()[0] % len(CASES)
    return list(CASES)[mood]
