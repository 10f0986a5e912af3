"""Eight repositories that were never made for Overnight, and one whose README lies.

Each has the shape of a kind of repository that people have: what it prints, where its data lies,
how its README starts it. All train for under a second with the standard library alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Files = dict[str, str]


def write(folder: Path, files: Files) -> None:
    """Put *files* there; a name that ends with .sh may be executed."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if name.endswith(".sh"):
            path.chmod(0o755)


def commit(folder: Path) -> None:
    """Everything that git does not ignore, as one commit."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True, capture_output=True)


def environment(folder: Path, package: str, text: str) -> None:
    """A .venv with a package that nobody else has."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True
    )
    (site,) = (folder / ".venv").glob("lib/python*/site-packages")
    (site / f"{package}.py").write_text(text)


# ---------------------------------------------------------------------------------------------
# 1: a single training file beside a frozen prepare.py; uv, a cache in the home folder, \r progress

UPSTREAM: Files = {
    ".gitignore": ".venv/\n__pycache__/\nrun.log\nresults.tsv\n",
    "pyproject.toml": '[project]\nname = "tiny-research"\nversion = "0.1"\n'
    'dependencies = ["bytecoder"]\n',
    "uv.lock": 'version = 1\nrequires-python = ">=3.10"\n',
    "program.md": "# Programme\n\nOnly edit `train.py`. Do not modify `prepare.py`.\n"
    "The goal: the lowest `val_bpb`.\n",
    "README.md": """\
# tiny research

One file is edited, one metric counts: **val_bpb** (validation bits per byte), lower is better.
Each run trains for a fixed time budget.

```bash
uv sync
uv run prepare.py     # once: data and tokenizer
uv run train.py
```
""",
    "prepare.py": """\
import os

# Constants (fixed, do not modify)
MAX_SEQ_LEN = 64
TIME_BUDGET = 0.3          # seconds of training
EVAL_TOKENS = 4 * 64

CACHE_DIR = os.path.join(os.path.expanduser("~"), ".cache", "tinyresearch")


def text():
    with open(os.path.join(CACHE_DIR, "shard_0.txt")) as file:
        return file.read()


if __name__ == "__main__":
    os.makedirs(CACHE_DIR, exist_ok=True)
    with open(os.path.join(CACHE_DIR, "shard_0.txt"), "w") as file:
        file.write("the quick brown fox jumps over the lazy dog\\n" * 200)
    print(f"Data: ready at {CACHE_DIR}")
""",
    "train.py": """\
import math
import time

import bytecoder
from prepare import EVAL_TOKENS, TIME_BUDGET, text

SMOOTHING = 0.5
ORDER = 1
DECAY = 0.9

data = bytecoder.encode(text())
held_out = data[-EVAL_TOKENS:]
train = data[:-EVAL_TOKENS]

t_start = time.time()
counts = {}
step, spent = 0, 0.0
while spent < TIME_BUDGET:
    t0 = time.time()
    for at in range(ORDER, len(train)):
        key = tuple(train[at - ORDER:at])
        row = counts.setdefault(key, [SMOOTHING] * 256)
        row[train[at]] += 1.0
    step += 1
    spent += time.time() - t0
    print(f"\\rstep {step:05d} ({100 * spent / TIME_BUDGET:.1f}%) | loss: {1 / step:.6f} | "
          f"dt: {1000 * (time.time() - t0):.0f}ms    ", end="", flush=True)
print()

nats = 0.0
for at in range(ORDER, len(held_out)):
    row = counts.get(tuple(held_out[at - ORDER:at]), [1.0] * 256)
    nats -= math.log(row[held_out[at]] * DECAY / sum(row))
val_bpb = nats / math.log(2) / len(held_out)

print("---")
print(f"val_bpb:          {val_bpb:.6f}")
print(f"training_seconds: {spent:.1f}")
print(f"total_seconds:    {time.time() - t_start:.1f}")
print(f"peak_vram_mb:     {0.0:.1f}")
print(f"num_steps:        {step}")
""",
}


def upstream(repo: Path, home: Path) -> None:
    """Its README's `uv run` would sync; its .venv has a package that no other Python has."""
    write(repo, UPSTREAM)
    environment(repo, "bytecoder", "def encode(text):\n    return list(text.encode())\n")
    commit(repo)
    subprocess.run(
        [sys.executable, "prepare.py"], cwd=repo, env={"HOME": str(home)}, check=True,
        capture_output=True,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# 2: a race to a target: one line holds all numbers, two processes meet on loopback

SPEEDRUN: Files = {
    "run.sh": "#!/bin/bash\npython launch.py --nproc 2 train_gpt.py\n",
    "README.md": """\
# speedrun

The metric is `train_time`: lower is better. val_loss must be at most 3.28 at the end.

```bash
./run.sh
```
""",
    "launch.py": """\
import argparse
import os
import socket
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--nproc", type=int, default=1)
parser.add_argument("script")
args = parser.parse_args()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
ranks = [
    subprocess.Popen([sys.executable, args.script], env={
        **os.environ, "RANK": str(rank), "WORLD_SIZE": str(args.nproc),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    for rank in range(args.nproc)
]
sys.exit(max(rank.wait() for rank in ranks))
""",
    "train_gpt.py": """\
import os
import socket
import time

LR = 0.3
MOMENTUM = 0.5
STEPS = 9

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def rendezvous():
    if rank == 0:
        server = socket.create_server(address)
        return [server.accept()[0] for _ in range(world - 1)]
    for _ in range(200):
        try:
            return [socket.create_connection(address)]
        except OSError:
            time.sleep(0.02)
    raise SystemExit("nobody at the rendezvous")


def average(value):
    if rank == 0:
        parts = [value] + [float(peer.recv(64)) for peer in peers]
        mean = sum(parts) / len(parts)
        for peer in peers:
            peer.sendall(f"{mean:.17g}".encode().ljust(64))
        return mean
    peers[0].sendall(f"{value:.17g}".encode().ljust(64))
    return float(peers[0].recv(64))


def print0(s):
    if rank == 0:
        print(s, flush=True)


peers = rendezvous()
weight, speed = 4.0, 0.0
t0 = time.perf_counter()
for step in range(1, STEPS + 1):
    gradient = average(weight - 1.0 + 0.01 * rank)
    speed = MOMENTUM * speed + gradient
    weight -= LR * speed
    time.sleep(0.01)
    val_loss = 3.0 + (weight - 1.0) ** 2 / 10
    training_time_ms = 1000 * (time.perf_counter() - t0)
    print0(f"step:{step}/{STEPS} val_loss:{val_loss:.4f} train_time:{training_time_ms:.0f}ms "
           f"step_avg:{training_time_ms / step:.2f}ms")
""",
}


def speedrun(repo: Path, home: Path) -> None:
    """Without loopback in the sandbox, or with one process, nothing is printed."""
    write(repo, SPEEDRUN)
    commit(repo)


# ---------------------------------------------------------------------------------------------
# 3: a Trainer script: options on many lines, numbers in all_results.json, none on a line alone

TRAINER: Files = {
    "README.md": """\
# Language modelling example

```bash
python run_clm.py \\
    --model_name_or_path tiny \\
    --num_train_epochs 2 \\
    --output_dir /tmp/test-clm
```
""",
    "requirements.txt": "",
    "hub.py": """\
import json
import os


class Trainer:
    def __init__(self, args):
        self.args = args

    def save_metrics(self, split, metrics):
        os.makedirs(self.args.output_dir, exist_ok=True)
        path = os.path.join(self.args.output_dir, "all_results.json")
        known = json.load(open(path)) if os.path.exists(path) else {}
        with open(path, "w") as file:
            json.dump({**known, **metrics}, file, indent=4)

    def log_metrics(self, split, metrics):
        print(f"***** {split} metrics *****")
        for key, value in metrics.items():
            print(f"  {key:<26}= {value:>10}")
""",
    "run_clm.py": """\
import argparse
import math

from hub import Trainer

LEARNING_RATE = 0.05
WARMUP_RATIO = 0.1
WEIGHT_DECAY = 0.01


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name_or_path")
    parser.add_argument("--num_train_epochs", type=int, default=3)
    parser.add_argument("--output_dir", default="out")
    args = parser.parse_args()
    trainer = Trainer(args)

    weight = 3.0
    for epoch in range(50 * args.num_train_epochs):
        weight -= LEARNING_RATE * (weight - 1.0) + WEIGHT_DECAY * weight * WARMUP_RATIO
    trainer.save_metrics("train", {"train_loss": (weight - 1.0) ** 2, "train_samples": 100})

    metrics = {"eval_loss": 2.0 + (weight - 1.0) ** 2, "eval_samples": 20}
    metrics["perplexity"] = math.exp(metrics["eval_loss"])
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)


if __name__ == "__main__":
    main()
""",
}


def trainer(repo: Path, home: Path) -> None:
    """What it writes to /tmp would be lost with the sandbox."""
    write(repo, TRAINER)
    commit(repo)


# ---------------------------------------------------------------------------------------------
# 4: cross-validation: a line a fold, then the mean; higher is better; the data is ignored by git

FOLDS: Files = {
    ".gitignore": "data/\n*.pyc\n",
    "README.md": "# Iris-like\n\nRun `python classify.py`. Mean accuracy over five folds counts: "
    "higher is better.\n",
    "classify.py": """\
import csv
import statistics

NEIGHBOURS = 5
SCALE = 0.5
FOLDS = 5


def load():
    with open("data/points.csv") as file:
        return [(float(x), float(y), label) for x, y, label in csv.reader(file)]


def predict(point, known):
    near = sorted(known, key=lambda k: (k[0] - point[0]) ** 2 + SCALE * (k[1] - point[1]) ** 2)
    labels = [k[2] for k in near[:max(1, int(NEIGHBOURS))]]
    return max(sorted(set(labels)), key=labels.count)


points = load()
scores = []
for fold in range(FOLDS):
    test = points[fold::FOLDS]
    known = [point for at, point in enumerate(points) if at % FOLDS != fold]
    accuracy = sum(predict(point, known) == point[2] for point in test) / len(test)
    scores.append(accuracy)
    print(f"fold {fold + 1}/{FOLDS} accuracy: {accuracy:.4f}")
print(f"mean accuracy: {statistics.mean(scores):.4f} (+/- {statistics.stdev(scores):.4f})")
""",
}


def folds(repo: Path, home: Path) -> None:
    """Its data lies in the repository, but in no commit."""
    write(repo, FOLDS)
    commit(repo)
    rows = []
    for at in range(100):
        x, y = (at * 37 % 100) / 100, (at * 61 % 100) / 100
        rows.append(f"{x},{y},{'a' if x + 0.3 * y > 0.6 else 'b'}")
    write(repo, {"data/points.csv": "\n".join(rows) + "\n"})


# ---------------------------------------------------------------------------------------------
# 5: a package below src/, started as a module

PACKAGE: Files = {
    "pyproject.toml": '[project]\nname = "tinynet"\nversion = "0.1"\n\n'
    '[project.scripts]\ntinynet-train = "tinynet.train:main"\n',
    "README.md": "# tinynet\n\n```\npip install -e .\npython -m tinynet.train --seconds 1\n```\n",
    "src/tinynet/__init__.py": "",
    "src/tinynet/model.py": "def loss(weight):\n    return 0.5 + (weight - 2.0) ** 2\n",
    "src/tinynet/train.py": """\
import argparse

from tinynet.model import loss

RATE = 0.2
STEPS = 12


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.parse_args()
    weight, best_loss = 0.0, float("inf")
    for _ in range(STEPS):
        weight -= RATE * 2 * (weight - 2.0)
        valid_loss = loss(weight)
        if valid_loss < best_loss:
            best_loss = valid_loss
    print(f"valid_loss: {valid_loss:.6f}")


if __name__ == "__main__":
    main()
""",
}


def package(repo: Path, home: Path) -> None:
    """Nothing installs it: the candidate's own copy below src/ must be the one that runs."""
    write(repo, PACKAGE)
    commit(repo)


# ---------------------------------------------------------------------------------------------
# 6: a folder of a monorepo; its environment is the workspace's, one folder above

MONOREPO: Files = {
    ".gitignore": ".venv/\n",
    "README.md": "# everything\n\n```\ncd packages/ranker && uv run python train.py\n```\n",
    "pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n',
    "packages/web/app.py": "print('hello')\n",
    "packages/ranker/README.md": "# ranker\n\nTunes ndcg.\n\n```\nuv run python train.py\n```\n",
    "packages/ranker/features.py": "VALUES = [0.1, 0.4, 0.9, 0.3]\n",
    "packages/ranker/train.py": """\
from workspace_only import combine

from features import VALUES

WEIGHT = 0.4
BIAS = 0.2

ndcg = 1.0 - abs(combine(VALUES, WEIGHT) - BIAS) / 10
print(f"ndcg: {ndcg:.6f}")
""",
}


def monorepo(repo: Path, home: Path) -> None:
    """Only the workspace's environment has the package."""
    write(repo, MONOREPO)
    code = "def combine(values, weight):\n    return sum(values) * weight\n"
    environment(repo, "workspace_only", code)
    commit(repo)


# ---------------------------------------------------------------------------------------------
# 7: a folder that nobody put under version control

FOLDER: Files = {
    "data/points.csv": "".join(f"{x / 10},{3 * x / 10 + 1}\n" for x in range(20)),
    "notes.txt": "tried rate 1: explodes\n",
    "main.py": """\
import csv

RATE = 0.1
DECAY = 0.99

points = [(float(x), float(y)) for x, y in csv.reader(open("data/points.csv"))]
slope = 0.0
rate = RATE
for _ in range(30):
    slope += rate * sum((y - slope * x) * x for x, y in points) / len(points)
    rate *= DECAY
mse = sum((y - slope * x) ** 2 for x, y in points) / len(points)
print("final mse: %.6f" % mse)
""",
}


def folder(repo: Path, home: Path) -> None:
    """No git at all."""
    write(repo, FOLDER)


# ---------------------------------------------------------------------------------------------
# 8: no model is trained: a prompt is edited, another command scores the answers

PROMPT: Files = {
    "README.md": """\
# prompt tuning

Edit `prompt.py` only. The objective is `pass_rate`, the share of right answers: higher is better.

```
python answer.py
python score.py
```
""",
    "prompt.py": 'TEMPLATE = "Add the numbers: {question}"\nEXAMPLES = 2\nCAREFUL = False\n',
    "answer.py": """\
import json

from prompt import CAREFUL, EXAMPLES, TEMPLATE

questions = [[a, b] for a in range(6) for b in range(6)]
answers = []
for a, b in questions:
    slip = (a * 7 + b * 3) % (2 + max(0, int(EXAMPLES)) + (3 if CAREFUL else 0)) == 0
    assert TEMPLATE.format(question=f"{a}+{b}")
    answers.append(a + b + (1 if slip else 0))
with open("answers.json", "w") as file:
    json.dump({"answers": answers}, file)
""",
    "score.py": """\
import json

with open("answers.json") as file:
    answers = json.load(file)["answers"]
truth = [a + b for a in range(6) for b in range(6)]
right = sum(said == true for said, true in zip(answers, truth))
print(f"pass_rate: {right / len(truth):.4f}")
""",
}


def prompt(repo: Path, home: Path) -> None:
    """The run itself prints nothing."""
    write(repo, PROMPT)
    commit(repo)


# ---------------------------------------------------------------------------------------------
# 9: the README says the opposite of what the code keeps

LIAR: Files = {
    "README.md": "# liar\n\n`python train.py` prints val_loss; higher is better.\n",
    "train.py": """\
RATE = 0.1
best_val_loss = float("inf")
for step in range(10):
    val_loss = 1.0 / (1 + RATE * step)
    if val_loss < best_val_loss:
        best_val_loss = val_loss
print(f"val_loss: {val_loss:.6f}")
""",
}


def liar(repo: Path, home: Path) -> None:
    """Whichever is right, a night would be lost on the other."""
    write(repo, LIAR)


Builder = Callable[[Path, Path], None]
