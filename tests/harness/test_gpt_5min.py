"""The track gpt_5min at toy size on a CPU: nothing is fetched, and the metric can be trusted.

It was not run on a GPU. What only a GPU shows (speed, memory, bfloat16) is not tested here.
"""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRACK = Path(__file__).resolve().parents[2] / "harness" / "tracks" / "gpt_5min"


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("OVERNIGHT_")}
    env |= {
        "GPT_5MIN_TOY": "1", "GPT_5MIN_DATA": str(folder / "data"), "OVERNIGHT_GATE": "steps",
        "OVERNIGHT_BUDGET": "30", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(folder), "http_proxy": "http://127.0.0.1:9", **environment,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *command], cwd=TRACK, env=env, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt_5min")
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    rng = random.Random(1)
    text = folder / "text.txt"
    text.write_text(" ".join(rng.choice(words) for _ in range(300_000)))
    done = run(folder, "prepare.py", "--text", str(text))
    assert done.returncode == 0, done.stderr
    return folder


def test_a_few_steps_train_a_toy_model_and_print_the_summary(prepared: Path) -> None:
    done = run(prepared, "train.py")
    assert done.returncode == 0, done.stderr
    block = dict(re.findall(r"(?m)^(\w+): +(\S+)$", done.stdout.split("---\n")[1]))

    assert 0 < float(block["val_bpb"]) < 7.2  # 8 before the first step
    assert block["num_steps"] == "30"
    assert {"peak_vram_mb", "training_seconds", "total_seconds", "num_params_M"} <= set(block)


def test_without_data_one_line_says_what_to_do_and_nothing_is_fetched(tmp_path: Path) -> None:
    done = run(tmp_path, "train.py")

    assert done.returncode != 0
    assert "run `python prepare.py` once" in done.stderr
    assert not (tmp_path / "data").exists()


def test_too_little_text_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short")
    done = run(tmp_path, "prepare.py", "--text", str(tmp_path / "a.txt"))

    assert done.returncode != 0
    assert "too few" in done.stderr
    assert not (tmp_path / "data").exists()


METRICS = """
import torch, prepare
class Model(torch.nn.Module):
    def __init__(self, f):
        super().__init__(); self.f = f
    def forward(self, x): return self.f(x)
def knows_nothing(x): return torch.zeros(*x.shape, 256)
def looks_ahead(x): return torch.nn.functional.one_hot(x.roll(-1, 1), 256) * 50.0
def leaves_bytes_out(x): return torch.zeros(*x.shape, 255)
for f in (knows_nothing, looks_ahead, leaves_bytes_out):
    try:
        print(prepare.evaluate_bpb(Model(f), 64, "cpu"))
    except ValueError as error:
        print(error)
"""


def test_ignorance_has_eight_bits_a_byte_and_looking_ahead_is_refused(prepared: Path) -> None:
    done = run(prepared, "-c", METRICS)
    eight, ahead, out = done.stdout.splitlines()

    assert math.isclose(float(eight), 8.0, rel_tol=1e-5), done.stderr
    assert "later tokens" in ahead
    assert "logits have shape" in out


def test_the_time_budget_ends_training(prepared: Path) -> None:
    done = run(prepared, "train.py", OVERNIGHT_GATE="time", OVERNIGHT_BUDGET="1.5")
    seconds = float(re.findall(r"(?m)^training_seconds: +(\S+)$", done.stdout)[0])

    assert 1.5 <= seconds < 4.0


def test_search_finds_its_constants_and_they_are_said_to_be_untested_on_a_gpu() -> None:
    from overnight.proposers.constants import parse
    from overnight.proposers.space import build_space

    text = (TRACK / "train.py").read_text()
    names = {knob.name for knob in build_space({"t": parse("t", text)}, {}).knobs}

    assert {"DEPTH", "DIM", "LR", "EMBED_LR", "WARMDOWN", "TOTAL_BATCH", "COMPILE"} <= names
    for file in ("train.py", "prepare.py", "track.yaml", "program.md"):
        assert re.search("not run on a gpu", (TRACK / file).read_text(), re.I), file
