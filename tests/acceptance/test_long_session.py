"""Ten thousand experiments: every verb that reads still answers, and none loads a log whole.

Times are ratios to what it costs to parse and hash the same ledger; memory is the peak of a process
of its own, as the kernel counts it. `diff` is part of `show`, `results --top` of `results`.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.acceptance import long_session
from tests.e2e.cli_driver import Cli

MANY, FEW = 10_000, 50
#: Times the floor, in CPU-seconds, beside what starting takes. Measured: 3 to 5, report 8.
RATIO = 16
#: Of the peak, for each experiment: what a fold holds of one, 3 kB in the file. Measured: 11,200.
BYTES_EACH = 20_000
LOG_SLACK = 6 * 1024 * 1024  #: of a log of 9 MiB, its copies included

FLOOR = """
import hashlib, json, sys
prev = ""
for line in open(sys.argv[1], "rb"):
    row = json.loads(line)
    prev = hashlib.sha256(prev.encode() + json.dumps(row, sort_keys=True).encode()).hexdigest()
"""
LAUNCH = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


@dataclass(frozen=True)
class Cost:
    """Of one process."""

    out: str
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Long:
    """Two sessions: a long one, and a short one whose log is as long."""

    many: Path
    few: Path
    cli: Cli


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Long:
    """Written once."""
    base = tmp_path_factory.mktemp("long")
    long_session.write(base / "many", MANY)
    long_session.write(base / "few", FEW)
    return Long(base / "many", base / "few", Cli(base))


def _cost(argv: list[str], env: dict[str, str]) -> Cost:
    """By a small process between: what is forked off a large one counts as large from its start."""
    ran = subprocess.run([sys.executable, "-c", LAUNCH, *argv], env=env, capture_output=True,
                         text=True, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    *errors, last = ran.stderr.splitlines()
    code, seconds, kilobytes = last.split()
    assert code == "0", (argv, errors, ran.stdout[-500:])
    return Cost(ran.stdout, float(seconds), int(kilobytes) * 1024)


@pytest.fixture(scope="module")
def floor(long: Long) -> float:
    """CPU-seconds to parse and hash the long ledger, without a word of ours."""
    ledger = long.many / "sandbox/ledger.jsonl"
    return _cost([sys.executable, "-c", FLOOR, str(ledger)], long.cli.env).cpu_seconds


@pytest.fixture(scope="module")
def start(long: Long) -> Cost:
    """Of a verb that has next to nothing to read."""
    return _cost(long.cli.argv("status", "--dir", str(long.few)), long.cli.env)


VERBS = {
    "status": ("status", "--dir", "REPO"),
    "results": ("results", "--dir", "REPO"),
    "show": ("show", "best", "--dir", "REPO"),
    "log": ("log", "best", "--dir", "REPO"),
    "wait": ("wait", "5000", "--dir", "REPO"),
    "runs": ("runs", "REPO"),
    "report": ("report", "--full", "--html", "REPO/r.html", "--force", "--dir", "REPO"),
    "program next": ("program", "next", "REPO", "--force"),
    "prompt": ("prompt", "summary", "--dir", "REPO"),
    "verify": ("verify", "--dir", "REPO"),
}
SAYS = {
    "status": "tried     the baseline and 9999 ideas",
    "results": "010   K",
    "show": "verdict   keep",
    "log": "val_bpb: 1.0",
    "wait": "5000",
    "runs": "9999",
    "report": "already tried",
    "program next": "wrote ",
    "prompt": "the experiments, without 99",
    "verify": "chain ok, every decision follows",
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_answers_and_holds_little_of_each_experiment(
    long: Long, floor: float, start: Cost, verb: str
) -> None:
    """What a verb holds of an experiment must be of its size, whatever its logs are."""
    words = (word.replace("REPO", str(long.many)) for word in VERBS[verb])
    many = _cost(long.cli.argv(*words), long.cli.env)
    ratio = (many.cpu_seconds - start.cpu_seconds) / floor
    each = (many.peak_bytes - start.peak_bytes) / MANY
    print(f"{verb}: {many.cpu_seconds:.1f} CPU-seconds, {ratio:.1f} x floor {floor:.2f}, "
          f"{each:.0f} bytes each, peak {many.peak_bytes / 1e6:.0f} MB")  # fmt: skip

    assert SAYS[verb] in many.out
    assert ratio < RATIO
    assert each < BYTES_EACH


@pytest.mark.parametrize("verb", ["log", "show"])
def test_a_long_log_is_read_from_its_end_alone(long: Long, verb: str) -> None:
    """Of the short session: what the fold takes does not hide what the log would."""
    argv = [verb, "best", "--dir", str(long.few)]
    log = next((long.few / "sandbox").glob("iter*/run.log"))
    with_log = _cost(long.cli.argv(*argv), long.cli.env)
    assert log.stat().st_size > 9_000_000
    whole = log.read_text()
    log.write_text("val_bpb: 1.0\n")
    without = _cost(long.cli.argv(*argv), long.cli.env)
    log.write_text(whole)

    assert with_log.peak_bytes - without.peak_bytes < LOG_SLACK
