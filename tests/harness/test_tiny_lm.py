"""What the track tiny_lm promises: whole data, exact bytes, a firm budget, a known baseline."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TRACK = Path(__file__).resolve().parents[2] / "harness" / "tracks" / "tiny_lm"
VOCABS = (256, 512, 1024, 2048, 4096)
MANIFEST = json.loads((TRACK / "data" / "MANIFEST.json").read_text())


def load_prepare() -> ModuleType:
    """A fresh copy of prepare.py: its budget is counted once a module."""
    spec = importlib.util.spec_from_file_location("tiny_lm_prepare", TRACK / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("GATE", "BUDGET", "SEED", "OUT"):
        monkeypatch.delenv(f"OVERNIGHT_{name}", raising=False)
    return load_prepare()


def train(
    folder: Path, edits: dict[str, str] | None = None, **overnight: object
) -> subprocess.CompletedProcess[str]:
    """Run train.py with some texts in it replaced; keywords become OVERNIGHT_<NAME>."""
    source = (TRACK / "train.py").read_text()
    for old, new in (edits or {}).items():
        assert source.count(old) == 1
        source = source.replace(old, new)
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(source)
    if not (folder / "prepare.py").exists():
        (folder / "prepare.py").symlink_to(TRACK / "prepare.py")
    env = {key: value for key, value in os.environ.items() if not key.startswith("OVERNIGHT_")}
    env |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {f"OVERNIGHT_{name}": str(value) for name, value in overnight.items()}
    return subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=env, capture_output=True, text=True
    )


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    block = done.stdout.split("---\n")[1]
    return dict(re.findall(r"(?m)^(\w+):\s+(\S+)$", block))


# --- data


def test_every_data_file_is_the_one_in_the_manifest_and_none_is_missing() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (TRACK / "data").glob("*.zz")
    }

    assert found == MANIFEST["files"]


def test_the_licence_legend_travels_with_the_data() -> None:
    licence = " ".join((TRACK / "data" / "LICENSE.txt").read_text().split())

    assert "provided for unrestricted use provided that this legend is included" in licence


def test_the_committed_track_is_small() -> None:
    files = [path for path in TRACK.rglob("*.*") if "__pycache__" not in path.parts]
    size = sum(path.stat().st_size for path in files)

    assert size < 2 * 1024**2


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("vocab", VOCABS)
def test_each_table_gives_the_bytes_of_the_text_back(
    prepare: ModuleType, split: str, vocab: int
) -> None:
    table = prepare.token_bytes(vocab)
    tokens = prepare.load_tokens(split, vocab)
    decoded = b"".join([table[token] for token in tokens.tolist()])

    assert len(table) == vocab
    assert len(tokens) == MANIFEST["tables"][str(vocab)][f"{split}_tokens"]
    assert len(decoded) == MANIFEST["splits"][split]["bytes"]
    assert decoded == prepare.load_text(split)
    assert hashlib.sha256(decoded).hexdigest() == MANIFEST["splits"][split]["sha256"]


@pytest.mark.parametrize("vocab", VOCABS)
def test_each_table_has_the_digest_that_a_handoff_names(prepare: ModuleType, vocab: int) -> None:
    table = prepare.token_bytes(vocab)
    packed = bytes(len(token) for token in table) + b"".join(table)

    assert hashlib.sha256(packed).hexdigest() == MANIFEST["tables"][str(vocab)]["sha256"]
    assert table[:256] == [bytes([byte]) for byte in range(256)]


def test_the_metric_counts_the_bytes_of_the_raw_text(prepare: ModuleType) -> None:
    assert len(prepare.load_text("val")) == prepare.EVAL_BYTES
    assert MANIFEST["splits"]["val"]["bytes"] == prepare.EVAL_BYTES


def test_the_validation_text_is_not_in_the_training_text(prepare: ModuleType) -> None:
    train_text = prepare.load_text("train")
    verses = prepare.load_text("val").splitlines(keepends=True)
    runs = [b"".join(verses[i : i + 10]) for i in range(0, len(verses), 10)]

    assert len(verses) == 600
    assert not [run for run in runs if run in train_text]


def test_a_changed_data_file_is_refused(tmp_path: Path) -> None:
    track = shutil.copytree(TRACK, tmp_path / "track")
    path = track / "data" / "val.1024.zz"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    done = subprocess.run([sys.executable, "prepare.py"], cwd=track, capture_output=True, text=True)

    assert done.returncode == 1
    assert "val.1024.zz is not the file that MANIFEST.json names" in done.stderr


def test_the_shipped_data_passes_its_own_check(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TRACK / "prepare.py"], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("whole") == 2


# --- metric


def uniform_model(vocab: int):  # type: ignore[no-untyped-def]
    import torch

    class Uniform(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.zeros(*x.shape, vocab)

    return Uniform()


@pytest.mark.parametrize("vocab", VOCABS)
@pytest.mark.parametrize("seq", [1, 100, 512])
def test_a_uniform_model_needs_log2_of_the_vocabulary_for_each_token(
    prepare: ModuleType, vocab: int, seq: int
) -> None:
    tokens = MANIFEST["tables"][str(vocab)]["val_tokens"]
    bpb = prepare.evaluate_bpb(uniform_model(vocab), vocab, seq)

    assert bpb == pytest.approx(math.log2(vocab) * tokens / prepare.EVAL_BYTES, rel=1e-6)


def test_a_model_that_shifts_its_logits_gains_nothing(prepare: ModuleType) -> None:
    model = uniform_model(256)
    plain = prepare.evaluate_bpb(model, 256, 128)
    model.forward = lambda x: uniform_model(256)(x) + 7.0

    assert prepare.evaluate_bpb(model, 256, 128) == pytest.approx(plain, rel=1e-5)


def test_logits_over_another_vocabulary_are_refused(prepare: ModuleType) -> None:
    with pytest.raises(ValueError, match="logits have shape"):
        prepare.evaluate_bpb(uniform_model(2), 256, 128)


def test_a_model_that_looks_ahead_is_refused(prepare: ModuleType) -> None:
    import torch

    class Peek(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return 9.0 * torch.nn.functional.one_hot(x.roll(-1, dims=1), 256).float()

    with pytest.raises(ValueError, match="looks at later tokens"):
        prepare.evaluate_bpb(Peek(), 256, 128)


@pytest.mark.parametrize("seq", [0, 513])
def test_a_context_outside_the_bounds_is_refused(prepare: ModuleType, seq: int) -> None:
    with pytest.raises(ValueError, match="SEQ is"):
        next(prepare.batches(1024, 8, seq))
    with pytest.raises(ValueError, match="SEQ is"):
        prepare.evaluate_bpb(uniform_model(1024), 1024, seq)


# --- budget


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_the_steps_gate_ends_after_exactly_so_many_batches(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setenv("OVERNIGHT_GATE", "steps")
    monkeypatch.setenv("OVERNIGHT_BUDGET", str(steps))
    prepare = load_prepare()
    shares = [progress for _, _, progress in prepare.batches(256, 2, 16)]

    assert shares == [i / steps for i in range(steps)]


def test_a_spent_budget_gives_no_batch_to_any_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERNIGHT_BUDGET", "5")
    prepare = load_prepare()
    first, second = prepare.batches(256, 2, 16), prepare.batches(1024, 4, 32)
    taken = [next(first), next(second), next(first), *second]

    assert len(taken) == 5
    assert list(first) == []
    assert list(prepare.batches(256, 1, 1)) == []
    assert prepare.clock.seconds() >= 0.0


def test_the_epochs_gate_counts_the_training_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERNIGHT_GATE", "epochs")
    monkeypatch.setenv("OVERNIGHT_BUDGET", "0.1")
    prepare = load_prepare()
    batches = sum(1 for _ in prepare.batches(4096, 8, 512))

    assert batches == math.ceil(0.1 * MANIFEST["tables"]["4096"]["train_tokens"] / (8 * 512))
    assert list(prepare.batches(256, 8, 512)) == []  # a longer epoch reopens nothing


def test_the_seed_and_the_step_alone_decide_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_starts(seed: int) -> list[list[int]]:
        monkeypatch.setenv("OVERNIGHT_SEED", str(seed))
        prepare = load_prepare()
        return [next(prepare.batches(1024, 1, 16))[0][0].tolist() for _ in range(2)]

    once, again, other = first_starts(1), first_starts(1), first_starts(2)

    assert once == again
    assert once != other
    assert once[0] != once[1]  # a second loader does not repeat the first one's batches


@pytest.mark.parametrize("gate", ["cpu_time", "time"])
def test_a_time_gate_ends_at_its_budget_and_leaves_out_the_free_steps(
    monkeypatch: pytest.MonkeyPatch, gate: str
) -> None:
    monkeypatch.setenv("OVERNIGHT_GATE", gate)
    monkeypatch.setenv("OVERNIGHT_BUDGET", "10")
    prepare = load_prepare()
    clock = iter(range(0, 1000))  # each look at the clock is a second later
    monkeypatch.setattr(prepare.Clock, "now", lambda self: (float(next(clock)),) * 2)
    shares = [progress for _, _, progress in prepare.batches(256, 1, 8)]

    assert shares == [0.0] * prepare.FREE_STEPS + [i / 10 for i in range(1, 10)]


def test_the_cpu_gate_counts_all_threads_and_ended_children(prepare: ModuleType) -> None:
    before = prepare.cpu_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)

    assert prepare.cpu_seconds() - before > 0.05


@pytest.mark.parametrize(
    ("name", "value"), [("GATE", "moon"), ("BUDGET", "0"), ("BUDGET", "nan"), ("BUDGET", "inf")]
)
def test_a_budget_that_can_not_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"OVERNIGHT_{name}", value)

    with pytest.raises(ValueError, match=f"OVERNIGHT_{name} is"):
        load_prepare()


# --- train.py


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two runs of 20 steps with one seed, weights in a/ and b/: their folder and metrics."""
    folder = tmp_path_factory.mktemp("twins")
    runs = [train(folder, BUDGET=20, SEED=1, OUT=folder / name) for name in ("a", "b")]
    return folder, [summary(done)["val_bpb"] for done in runs]


def test_the_same_seed_gives_the_same_run_to_the_last_bit(twins: tuple[Path, list[str]]) -> None:
    """Weights show what six printed decimals can't."""
    folder, metrics = twins
    weights = [(folder / name / "model.safetensors").read_bytes() for name in ("a", "b")]

    assert metrics[0] == metrics[1]
    assert weights[0] == weights[1]


def test_another_seed_gives_another_run(twins: tuple[Path, list[str]], tmp_path: Path) -> None:
    assert summary(train(tmp_path, BUDGET=20, SEED=2))["val_bpb"] not in twins[1]


def test_the_handoff_is_all_that_rescoring_needs(twins: tuple[Path, list[str]]) -> None:
    folder, metrics = twins
    handoff = json.loads((folder / "a" / "handoff.json").read_text())
    rescore = (
        "import prepare, train; from safetensors.torch import load_model;"
        "model = train.build_model(); load_model(model, 'a/model.safetensors');"
        f"print(prepare.evaluate_bpb(model, {handoff['vocab']}, {handoff['seq']}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", rescore], cwd=folder, capture_output=True, text=True, check=True
    )

    assert f"{float(done.stdout):.6f}" == metrics[0]
    assert handoff == {
        "track": "tiny_lm",
        "vocab": 1024,
        "seq": 128,
        "table_sha256": MANIFEST["tables"]["1024"]["sha256"],
    }


def test_a_vocabulary_without_a_table_is_refused_in_one_clear_line(tmp_path: Path) -> None:
    done = train(tmp_path, {"VOCAB         = 1024": "VOCAB         = 1000"}, BUDGET=2)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ValueError: VOCAB is 1000: this track has token tables for "
        "(256, 512, 1024, 2048, 4096) only"
    )
    assert "val_bpb" not in done.stdout


def test_a_run_that_diverges_fails_before_it_prints_a_metric(tmp_path: Path) -> None:
    done = train(tmp_path, {"LR            = 1e-3": "LR            = 1e30"}, BUDGET=20)

    assert done.returncode == 1
    assert "FAIL: the loss is not finite" in done.stdout
    assert "val_bpb" not in done.stdout


def test_a_run_does_not_import_the_compiler_and_writes_nothing(tmp_path: Path) -> None:
    """The compiler's import costs more than a CPU-second in each run."""
    check = {"    main()\n": "    main()\n    print('torch._dynamo' in sys.modules)\n"}
    done = train(tmp_path, check, BUDGET=4)

    assert done.stdout.endswith("False\n"), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prepare.py", "train.py"]


def test_the_shipped_script_prints_the_recorded_baseline(tmp_path: Path) -> None:
    """300 fixed steps, about 12 s: the one test that trains in earnest."""
    recorded = json.loads((TRACK / "baseline.json").read_text())
    done = train(tmp_path)  # no variables: the defaults are the recorded gate, budget and seed 0
    block = summary(done)

    assert recorded["gate"] == "steps"
    assert block["num_steps"] == str(recorded["budget"]) == "300"
    assert float(block["val_bpb"]) == pytest.approx(recorded["val_bpb_mean"], abs=0.02)
    assert re.search(r"(?m)^val_bpb:\s+\d\.\d{6}$", done.stdout)
    assert {"training_seconds", "total_seconds", "peak_vram_mb", "total_tokens_M", "num_params_M",
            "depth"} <= block.keys()  # fmt: skip


@pytest.mark.parametrize(("name", "digits"), [("README.md", 4), ("program.md", 3)])
def test_the_texts_quote_the_recorded_baseline(name: str, digits: int) -> None:
    recorded = json.loads((TRACK / "baseline.json").read_text())

    assert f"{recorded['val_bpb_mean']:.{digits}f}" in (TRACK / name).read_text()


# --- track.yaml


def test_the_bindings_are_ones_that_a_session_accepts() -> None:
    import yaml

    from overnight.contracts.loop import LoopConfig
    from overnight.contracts.wire import build

    bindings = build(LoopConfig, yaml.safe_load((TRACK / "track.yaml").read_text()))

    assert bindings.gate == "cpu_time"
    assert bindings.budget == 10
    assert bindings.editable_files == ("train.py",)
    assert bindings.metric.name == "val_bpb"
    assert bindings.env["OMP_NUM_THREADS"] == "1"
