"""Reads a status object (JSON, the last line of standard input) and judges gain and timeouts.

usage: ... status --json | gain.py NAME AT_LEAST_PERCENT
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    """0 when the session gained enough, nothing timed out and nothing failed by our fault."""
    name, at_least = sys.argv[1], float(sys.argv[2])
    status = json.loads(sys.stdin.read().splitlines()[-1])
    baseline, best, counts = status["baseline"], status["best"]["metric"], status["counts"]
    sign = 1 if status["direction"] == "minimize" else -1
    percent = 100 * sign * (baseline - best) / abs(baseline)
    tried = sum(counts.values())
    print(f"{name}: {baseline:.4f} -> {best:.4f}, a gain of {percent:.2f} % "
          f"in {tried} experiments, {counts['timeout']} timeouts")  # fmt: skip
    problems = [f"a gain below {at_least} %"] if percent < at_least else []
    problems += [f"{counts[bad]} {bad}" for bad in ("timeout", "infra") if counts[bad]]
    problems += [f"state {status['state']}"] if status["state"] != "closed" else []
    for problem in problems:
        print(f"{name}: FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
