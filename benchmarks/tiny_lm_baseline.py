"""
Figures of the track tiny_lm: baseline, noise, single edits, start-up and evaluation cost.

    python benchmarks/tiny_lm_baseline.py          # all of it, 15 minutes on a quiet core
    python benchmarks/tiny_lm_baseline.py --only steps --record
    python benchmarks/tiny_lm_baseline.py --only edits --jobs 2 --edits-seeds 2

`--record` writes the mean of the fixed-step runs to harness/tracks/tiny_lm/baseline.json, which a
test checks to within 0.02. Only fixed steps can be compared across machines: figures by CPU-seconds
depend on the processor and on its neighbours, so compare them inside one table only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TRACK = Path(__file__).resolve().parents[1] / "harness" / "tracks" / "tiny_lm"
STEPS = 300
CPU_SECONDS = 10
EDITS: list[dict[str, object]] = [
    {},
    {"LR": 3e-3},
    {"LR": 1e-2},
    {"DEPTH": 1},
    {"DEPTH": 4},
    {"VOCAB": 2048},
    {"VOCAB": 4096},
    {"VOCAB": 512},
    {"DIM": 96},
    {"BATCH": 4},
    {"BATCH": 16},
    {"ACTIVATION": "relu2"},
    {"WARMDOWN": 0.5},
    {"LR": 3e-3, "ACTIVATION": "relu2"},
    {"LR": 3e-3, "ACTIVATION": "relu2", "DEPTH": 1},
    {"LR": 3e-3, "ACTIVATION": "relu2", "DEPTH": 1, "VOCAB": 2048},
    {"LR": 5e-3, "ACTIVATION": "relu2", "DEPTH": 1, "VOCAB": 2048, "BATCH": 4, "WARMDOWN": 0.6},
]
PROFILE = """
import time
import torch
imported = time.process_time()
import prepare
import train
start = time.process_time()
torch.manual_seed(0)
model = train.build_model()
next(iter(prepare.batches(train.VOCAB, train.BATCH, train.SEQ)))
ready = time.process_time()
prepare.evaluate_bpb(model, train.VOCAB, train.SEQ)
print(imported, ready - imported, time.process_time() - ready)
"""


def with_edit(source: str, edit: dict[str, object]) -> str:
    """train.py with some of its constants set to other values."""
    for name, value in edit.items():
        source, found = re.subn(rf"(?m)^({name} *= *)\S+", rf"\g<1>{value!r}", source)
        if found != 1:
            raise SystemExit(f"train.py has {found} lines that set {name}")
    return source


def run(edit: dict[str, object], gate: str, budget: float, seed: int, code: str = "") -> str:
    """The output of one run in its own folder, where only train.py may differ."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OVERNIGHT_GATE": gate,
        "OVERNIGHT_BUDGET": str(budget),
        "OVERNIGHT_SEED": str(seed),
    }
    command = [sys.executable, "-c", code] if code else [sys.executable, "train.py"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "prepare.py").symlink_to(TRACK / "prepare.py")
        Path(folder, "train.py").write_text(with_edit((TRACK / "train.py").read_text(), edit))
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{edit or 'baseline'} seed {seed} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def summary(output: str) -> dict[str, float]:
    """The numbers after the last `---`."""
    block = output.split("---\n")[-1]
    return {key: float(value) for key, value in re.findall(r"(?m)^(\w+): +([0-9.]+)$", block)}


def report_baseline(pool: ThreadPoolExecutor, gate: str, budget: int, seeds: int) -> list[float]:
    """Mean and noise of the shipped train.py over seeds."""
    results = list(pool.map(lambda seed: summary(run({}, gate, budget, seed)), range(seeds)))
    values = [result["val_bpb"] for result in results]
    steps = [round(result["num_steps"]) for result in results]
    print(
        f"{gate} {budget}, seeds 0..{seeds - 1}: val_bpb mean {statistics.mean(values):.4f}, "
        f"sd {statistics.stdev(values):.4f}, {min(steps)}-{max(steps)} steps:",
        " ".join(f"{value:.6f}" for value in values),
        flush=True,
    )
    return values


def record_baseline(values: list[float]) -> None:
    """Write baseline.json."""
    figures = {
        "gate": "steps",
        "budget": STEPS,
        "seeds": len(values),
        "val_bpb_mean": round(statistics.mean(values), 4),
        "val_bpb_sd": round(statistics.stdev(values), 4),
    }
    (TRACK / "baseline.json").write_text(json.dumps(figures, indent=1) + "\n")


def report_edits(pool: ThreadPoolExecutor, seeds: int) -> None:
    """The same CPU-seconds for single edits; seeds in turn, so that all meet the same minutes."""
    jobs = [(seed, i) for seed in range(seeds) for i in range(len(EDITS))]
    results = list(
        pool.map(lambda job: summary(run(EDITS[job[1]], "cpu_time", CPU_SECONDS, job[0])), jobs)
    )
    base = None
    print(f"\n{CPU_SECONDS} CPU-seconds, mean of {seeds} seeds:\n")
    print("| edit | val_bpb | seeds' range | gain | steps |\n|---|---|---|---|---|")
    for i, edit in enumerate(EDITS):
        mine = [result for job, result in zip(jobs, results, strict=True) if job[1] == i]
        values = [result["val_bpb"] for result in mine]
        mean = statistics.mean(values)
        base = base or mean
        name = ", ".join(f"{key} {value}" for key, value in edit.items()) or "none (baseline)"
        steps = statistics.mean(result["num_steps"] for result in mine)
        print(
            f"| {name} | {mean:.3f} | {min(values):.3f}-{max(values):.3f} "
            f"| {100 * (1 - mean / base):+.1f} % | {steps:.0f} |",
            flush=True,
        )


def report_costs(runs: int) -> None:
    """CPU-seconds beside training, medians."""
    parts = [
        [float(part) for part in run({}, "steps", STEPS, 0, PROFILE).split()] for _ in range(runs)
    ]
    imports, start, evaluation = (statistics.median(column) for column in zip(*parts, strict=True))
    print(
        f"\nCPU-seconds, median of {runs}: interpreter and import torch {imports:.2f}, "
        f"from there to the first batch {start:.2f}, evaluation {evaluation:.2f}",
        flush=True,
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--only", choices=["steps", "cpu", "edits", "costs"])
    parser.add_argument("--seeds", type=int, default=8, help="of the baseline")
    parser.add_argument("--edits-seeds", type=int, default=2, help="of each edit")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, at most one a core")
    parser.add_argument("--record", action="store_true", help="write baseline.json")
    args = parser.parse_args()
    with ThreadPoolExecutor(args.jobs) as pool:
        if args.only in (None, "steps"):
            values = report_baseline(pool, "steps", STEPS, args.seeds)
            if args.record:
                record_baseline(values)
        if args.only in (None, "cpu"):
            report_baseline(pool, "cpu_time", CPU_SECONDS, args.seeds)
        if args.only in (None, "edits"):
            report_edits(pool, args.edits_seeds)
    if args.only in (None, "costs"):
        report_costs(5)


if __name__ == "__main__":
    main()
