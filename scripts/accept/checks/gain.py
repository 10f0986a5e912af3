"""Judges status objects (JSON, the last line of each FILE): gain, timeouts, faults of ours.

usage: gain.py NAME AT_LEAST_PERCENT FILE...    of several files the median gain counts
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any


def gain_percent(status: dict[str, Any]) -> float:
    """How much better the best is than the baseline, in percent of it."""
    baseline, best = status["baseline"], status["best"]["metric"]
    sign = 1 if status["direction"] == "minimize" else -1
    return float(100 * sign * (baseline - best) / abs(baseline))


def main() -> int:
    """0 when all is as it should be; what is not is printed."""
    name, at_least = sys.argv[1], float(sys.argv[2])
    states = [json.loads(Path(file).read_text().splitlines()[-1]) for file in sys.argv[3:]]
    problems = []
    for status in states:
        counts = status["counts"]
        print(
            f"{name}: {status['baseline']:.4f} -> {status['best']['metric']:.4f}, "
            f"a gain of {gain_percent(status):.2f} % in {sum(counts.values())} experiments, "
            f"{counts['timeout']} timeouts"
        )
        problems += [f"{counts[bad]} {bad}" for bad in ("timeout", "infra") if counts[bad]]
        problems += [f"state {status['state']}"] if status["state"] != "closed" else []
    gain = statistics.median(map(gain_percent, states))
    problems += [f"a gain of {gain:.2f} %, below {at_least} %"] if gain < at_least else []
    for problem in problems:
        print(f"{name}: FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
