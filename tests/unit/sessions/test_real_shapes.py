"""Inference on the shapes that real repositories have, reduced to the lines that decide."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from overnight.contracts.errors import UsageError
from overnight.sessions.inference import Inferred, UnknownBindingError, infer, prepare_command

NUMBER = r"([^\s,;)]+)"


def look(folder: Path, files: dict[str, str], **given: Any) -> Inferred:
    environ = given.pop("environ", {})
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return infer(folder, {key.replace("__", "."): value for key, value in given.items()}, environ)


def refusal(folder: Path, files: dict[str, str], **given: Any) -> str:
    with pytest.raises(UsageError) as caught:
        look(folder, files, **given)
    assert str(caught.value).isprintable()
    return str(caught.value).replace(str(folder), "REPO")


def git(folder: Path, *words: str) -> None:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
    subprocess.run(named, cwd=folder, check=True, capture_output=True)


# ------------------------------------------------------------------------------ whole repositories


def test_a_trainer_with_a_config_file_and_git_ignored_data(tmp_path: Path) -> None:
    """Losses in the middle of a line, a subscript compared with the best, *.bin ignored."""
    git(tmp_path, "init", "-q")
    found = look(
        tmp_path,
        {
            ".gitignore": "*.bin\nout/\n",
            "README.md": "```\npython data/chars/prepare.py\n```\nThen train:\n"
            "```sh\npython train.py config/train_chars.py\n```\nOr all:\n"
            "```\npython train.py\n```\n",
            "config/train_chars.py": "batch_size = 64\n",
            "data/chars/prepare.py": "open('train.bin', 'wb')\n",
            "data/chars/train.bin": "x",
            "data/chars/val.bin": "x",
            "out/ckpt.bin": "x",
            "train.py": "import os\nbest_val_loss = 1e9\ndata_dir = os.path.join('data', 'chars')\n"
            "open(os.path.join(data_dir, 'train.bin'))\nopen(os.path.join(data_dir, 'val.bin'))\n"
            "for iter_num in range(10):\n"
            "    losses = estimate()\n"
            "    print(f\"step {iter_num}: train loss {losses['train']:.4f}, "
            "val loss {losses['val']:.4f}\")\n"
            "    if losses['val'] < best_val_loss or always:\n"
            "        best_val_loss = losses['val']\n"
            "    print(f'iter {iter_num}: loss {lossf:.4f}, time {dt:.2f}ms, mfu {mfu:.2f}%')\n",
        },
    )

    assert found.metric.value == "val_loss"
    assert found.source.value == {"regex": rf"\bval\s+loss\s+{NUMBER}", "take": "last"}
    assert found.direction.value == "minimize"
    assert found.direction.evidence == "train.py:9 keeps the lower one"
    assert found.run_cmd.value == ["python", "train.py", "config/train_chars.py"]
    assert found.reads.value == ["data/chars/train.bin", "data/chars/val.bin"]
    assert found.bindings["prepare"].value == ["python", "data/chars/prepare.py"]


def test_a_speedrun_whose_time_is_the_metric_and_whose_loss_is_the_bound(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "README.md": "To reproduce:\n```bash\nchmod +x run.sh\n./run.sh\n```\n"
            "The objective is `train_time` (lower is better) while `val_loss` stays <= 3.28.\n",
            "run.sh": "torchrun --standalone --nproc_per_node=8 train_gpt.py\n",
            "train_gpt.py": "def print0(s, console=False): ...\n"
            "for step in range(9):\n"
            "    print0(f'step:{step}/{n} val_loss:{v:.4f} train_time:{t:.0f}ms '\n"
            "           f'step_avg:{t/step:.2f}ms', console=True)\n",
        },
    )

    assert (found.metric.value, found.direction.value) == ("train_time", "minimize")
    assert found.source.value["regex"] == r"\btrain_time:\s*([^\s,;)]+?)ms"
    assert found.bindings["constraints"].value == [
        {"name": "val_loss", "max": 3.28, "regex": rf"\bval_loss:\s*{NUMBER}"}
    ]
    assert found.run_cmd.value == ["bash", "run.sh"]
    assert found.editable_files.value == ["train_gpt.py"]


def test_a_hub_trainer_script_writes_its_numbers_to_a_file(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "README.md": "```bash\npython run_clm.py \\\n    --model_name_or_path gpt2 \\\n"
            "    --max_steps 50 \\\n    --do_eval \\\n    --output_dir /tmp/test-clm\n```\n",
            "run_clm.py": "from transformers import Trainer\nmetrics = trainer.evaluate()\n"
            "metrics['perplexity'] = 1\ntrainer.log_metrics('eval', metrics)\n"
            "trainer.save_metrics('eval', metrics)\n",
            "home/.cache/huggingface/x": "",
        },
        environ={"HOME": str(tmp_path / "home")},
    )

    assert (found.metric.value, found.direction.value) == ("eval_loss", "minimize")
    assert found.source.value == {"json": "test-clm/all_results.json", "key": "eval_loss"}
    assert found.run_cmd.value[-2:] == ["--output_dir", "test-clm"], "not lost in a private /tmp"
    assert (found.bindings["gate"].value, found.budget.value) == ("steps", 50)
    assert found.reads.value == ["~/.cache/huggingface"]


def test_greater_is_better_is_evidence_in_code(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "train.py": "args = TrainingArguments(output_dir='out', "
            "metric_for_best_model='matthews', greater_is_better=True)\n"
            "metrics = {'matthews': 1.0}\nimport json\n"
            "json.dump(metrics, open('out/all_results.json', 'w'))\n"
        },
    )

    assert (found.metric.value, found.direction.value) == ("matthews", "maximize")
    assert found.direction.evidence == "train.py:1 keeps the higher one"


def test_a_lightning_module_logs_its_metric(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "train.py": "class Net(LightningModule):\n"
            "    def training_step(self, batch, i):\n        self.log('train_loss', 1.0)\n"
            "    def validation_step(self, batch, i):\n        self.log('val_quality', 1.0)\n"
            "callback = ModelCheckpoint(monitor='val_quality', mode='max')\n"
        },
    )

    assert (found.metric.value, found.direction.value) == ("val_quality", "maximize")
    assert "val_quality" in found.source.value["regex"]


def test_a_hydra_script_logs_through_logging(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "README.md": "Run `python main.py trainer=gpu +experiment=small`.\n",
            "conf/config.yaml": "lr: 0.1\n",
            "main.py": "import logging\nimport hydra\nlog = logging.getLogger(__name__)\n"
            "@hydra.main(config_path='conf')\ndef main(cfg):\n"
            "    log.info('valid accuracy: %.4f after %d steps', acc, n)\nmain()\n",
        },
    )

    assert (found.metric.value, found.direction.value) == ("valid_accuracy", "maximize")
    assert found.source.value == {"regex": rf"\bvalid\s+accuracy:\s*{NUMBER}", "take": "last"}
    assert found.run_cmd.value == ["python", "main.py", "trainer=gpu", "+experiment=small"]


def test_a_template_says_in_its_settings_what_it_keeps(tmp_path: Path) -> None:
    """The metric is logged by a module that only a YAML file names."""
    found = look(
        tmp_path,
        {
            "README.md": "```\npython src/train.py trainer=cpu\n```\n",
            "configs/callbacks.yaml": 'checkpoint:\n  monitor: "val/quality"\n  save_last: True\n'
            '  mode: "max" # or min\n',
            "src/train.py": "import hydra\nlog.info(f'Best ckpt path: {path}')\n",
            "src/models/net.py": "class Net:\n    def step(self):\n"
            "        self.log('train/loss', 1)\n        self.log('val/loss', 1)\n"
            "        self.log('val/quality', 1)\n",
        },
    )

    assert (found.metric.value, found.direction.value) == ("val/quality", "maximize")
    assert found.metric.evidence == "src/models/net.py:5 logs it, for the framework's tables"
    assert found.direction.evidence == "configs/callbacks.yaml:2 keeps the higher one"


def test_a_function_of_the_scripts_own_that_prints_is_print(tmp_path: Path) -> None:
    """And the least so far is no more the metric than the best so far."""
    found = look(
        tmp_path,
        {
            "train.py": "def log0(msg, console=True):\n    if console:\n        print(msg)\n"
            "    with open('log.txt', 'a') as file:\n        print(msg, file=file)\n"
            "log0(f'step {s} | Validation bpb: {v:.4f}')\n"
            "log0(f'Minimum validation bpb: {m:.4f}')\n"
        },
    )

    assert found.metric.value == "validation_bpb"
    assert found.source.value["regex"] == rf"\bValidation\s+bpb:\s*{NUMBER}"


@pytest.mark.parametrize(
    ("code", "take"),
    [
        ("for e in range(3):\n    print(f'val_loss: {v}')\n", "last"),
        ("while True:\n    print(f'val_loss: {v}')\n", "last"),
        ("def evaluate():\n    print(f'val_loss: {v}')\nfor e in x:\n    evaluate()\n", "last"),
        ("for e in x:\n    print(f'val_loss: {v}')\nprint('---')\nprint(f'val_loss: {v}')\n", None),
        ("def main():\n    print(f'val_loss: {v}')\nmain()\n", None),
    ],
)
def test_a_line_that_is_printed_again_and_again_is_the_last_one(
    tmp_path: Path, code: str, take: str | None
) -> None:
    """As a plain line it would be ambiguous, and each run of the night a crash."""
    found = look(tmp_path, {"train.py": code}).source.value

    if take is None:
        assert found == "stdout_line"
    else:
        assert found == {"regex": r"^\s*val_loss\s*:\s*(\S+)\s*$", "take": "last"}


@pytest.mark.parametrize(
    ("line", "regex"),
    [
        ("print(json.dumps({'step': 1, 'val_loss': v}))", r'"val_loss":\s*([^\s,}]+)'),
        ("print({'val_loss': v, 'epoch': 1})", r"'val_loss':\s*([^\s,}]+)"),
    ],
)
def test_a_dictionary_that_is_printed_is_read(tmp_path: Path, line: str, regex: str) -> None:
    found = look(tmp_path, {"train.py": f"import json\n{line}\n"})

    assert (found.metric.value, found.source.value["regex"]) == ("val_loss", regex)


def test_a_label_that_is_not_ascii_has_a_name_that_is(tmp_path: Path) -> None:
    found = look(tmp_path, {"train.py": "print(f'Précision moyenne: {1:.3f}')\n"},
                 metric__direction="maximize")  # fmt: skip

    assert found.metric.value == "precision_moyenne"
    assert found.source.value["regex"] == rf"\bPrécision\s+moyenne:\s*{NUMBER}"
    (tmp_path / "train.py").write_text("print(f'準確率: {1:.3f}')\n")
    assert "no metric found" in refusal(tmp_path, {})


def test_behind_a_thin_module_the_one_with_the_work_is_edited(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "README.md": "`python -m net --size 3`\n",
            "net/__init__.py": "",
            "net/__main__.py": "from net.loop import main\nmain()\n",
            "net/loop.py": "RATE = 1\ndef main():\n    print(f'val_loss: {1}')\n",
        },
    )

    assert found.run_cmd.value == ["python", "-m", "net", "--size", "3"]
    assert found.editable_files.value == ["net/loop.py"]


def test_a_scoring_command_keeps_its_arguments(tmp_path: Path) -> None:
    files = {
        "README.md": "`python score.py --model small`. Edit `prompt.txt`.\n",
        "score.py": "open('prompt.txt')\nprint(f'accuracy: {1}')\n",
        "prompt.txt": "x",
    }
    found = look(tmp_path, files)

    assert found.run_cmd.value == ["python", "score.py", "--model", "small"]
    assert found.editable_files.value == ["prompt.txt"]


def test_a_collection_of_trainings_is_asked_about(tmp_path: Path) -> None:
    files = {
        f"{name}/{file}": text
        for name in ("mnist", "vae")
        for file, text in (("main.py", LOSS), ("README.md", "```\npython main.py\n```\n"))
    }
    text = refusal(tmp_path, files)

    assert "several folders train something (mnist, vae)" in text
    assert "overnight init REPO/mnist" in text


def test_a_file_that_belongs_to_no_run_is_not_edited(tmp_path: Path) -> None:
    files = {
        "README.md": "Edit `config/fine.py` to try it.\n",
        "config/fine.py": "",
        "train.py": LOSS,
    }

    assert look(tmp_path, files).editable_files.value == ["train.py"]


def test_the_mean_over_folds_counts_and_folds_alone_are_asked_about(tmp_path: Path) -> None:
    fold = "for train_idx, fold in enumerate(folds):\n    print(f'fold {fold} acc: {a:.3f}')\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    found = look(tmp_path / "a", {"cv.py": fold + "print('CV acc: %.3f (+/- %.3f)' % (m, s))\n"})

    assert found.metric.value == "cv_acc"
    assert "print their mean" in refusal(tmp_path / "b", {"cv.py": fold})


def test_a_package_below_src_runs_the_candidates_own_copy(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project.scripts]\nfit-it = "pkg.fit:main"\n',
        "README.md": "```\nuv run fit-it --fast\n```\n",
        "src/pkg/fit.py": "def main():\n    print(f'loss: {1}')\n",
    }
    found = look(tmp_path, files)

    assert found.run_cmd.value == [
        "python", "-c", "import sys; from pkg.fit import main; sys.exit(main())", "--fast",
    ]  # fmt: skip
    assert found.bindings["env"].value == {"PYTHONPATH": "src"}
    assert found.editable_files.value == ["src/pkg/fit.py"]


def test_a_launcher_is_not_the_training_script(tmp_path: Path) -> None:
    readme = (
        "```\nOMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=0 accelerate launch launch.py train.py\n```"
    )
    found = look(
        tmp_path,
        {"README.md": readme, "launch.py": "", "train.py": "print(f'val_loss: {1}')\n"},
    )

    assert found.editable_files.value == ["train.py"]
    assert found.bindings["env"].value == {"OMP_NUM_THREADS": "1"}


# ---------------------------------------------------------------------------------- one direction


LOSS = "print(f'val_loss: {val_loss}')\n"


@pytest.mark.parametrize(
    ("code", "direction"),
    [
        ("if q < best_q:\n    best_q = q\n", "minimize"),
        ("if q > self.best_q and ok:\n    self.best_q = q\n", "maximize"),
        ("if best_q is None or best_q < q:\n    best_q = q\n", "maximize"),
        ("if q > best_q:\n    bad += 1\nelse:\n    best_q = q\n", "minimize"),
        ("best_q = min(best_q, q)\n", "minimize"),
        ("is_best = q > best_q\n", "maximize"),
        ("stop = EarlyStopping(monitor='q', mode='min')\n", "minimize"),
    ],
)
def test_code_that_keeps_a_value_is_evidence(tmp_path: Path, code: str, direction: str) -> None:
    found = look(tmp_path, {"train.py": f"q = 1\n{code}print(f'q: {{q}}')\n"})

    assert found.direction.value == direction
    assert found.direction.evidence.startswith("train.py:")


@pytest.mark.parametrize(
    "code",
    [
        "if q > best_q:\n    patience += 1\n",  # says nothing of what is kept
        "if q > 3:\n    print('high')\n",
        "if other < best_other:\n    best_other = other\n",
        "best = q\n",
    ],
)
def test_code_that_keeps_nothing_is_none(tmp_path: Path, code: str) -> None:
    text = refusal(tmp_path, {"train.py": f"q = 1\n{code}print(f'q: {{q}}')\n"})

    assert text == "q: is lower or higher better? Say --direction minimize or maximize"


@pytest.mark.parametrize(
    ("readme", "code", "both"),
    [
        ("val_loss: higher is better.", LOSS,
         ("README.md:1 says higher is better", "its name means lower is better")),
        ("Maximize val_loss!", "if val_loss < best:\n    best = val_loss\n" + LOSS,
         ("README.md:1 says higher is better", "train.py:2 keeps the lower one")),
        ("", "if val_loss > best:\n    best = val_loss\n" + LOSS,
         ("train.py:2 keeps the higher one", "its name means lower is better")),
        ("Lower score is better.\n\nA score: the higher the better.", "print(f'score: {1}')\n",
         ("README.md:1", "README.md:3")),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_with_both_places(
    tmp_path: Path, readme: str, code: str, both: tuple[str, str]
) -> None:
    files = {"README.md": readme + "\n", "train.py": "best = 1\n" + code}
    text = refusal(tmp_path, files)

    assert all(place in text for place in both), text
    assert "--direction minimize or maximize" in text
    chosen = look(tmp_path, files, metric__direction="minimize")
    assert chosen.direction.evidence == "given"


def test_a_clause_about_something_else_says_nothing(tmp_path: Path) -> None:
    """One line names two measures; each clause is about its own."""
    readme = "We report `quality`; for `latency`, lower is better.\n"
    text = refusal(tmp_path, {"README.md": readme, "train.py": "print(f'quality: {1}')\n"})

    assert "quality: is lower or higher better?" in text


@pytest.mark.parametrize(("seconds", "grace"), [(1, 15.0), (29.5, 15.0), (30, None), (300, None)])
def test_a_short_budget_leaves_time_for_imports(
    tmp_path: Path, seconds: float, grace: float | None
) -> None:
    found = look(tmp_path, {"train.py": f"TIME_BUDGET = {seconds}\n{LOSS}"}).bindings

    assert (found["startup_grace"].value if "startup_grace" in found else None) == grace


@pytest.mark.parametrize("option", ["--epochs 3", "--max_iters=80"])
def test_what_the_baseline_times_has_room_for_a_busier_machine(tmp_path: Path, option: str) -> None:
    files = {"train.py": LOSS, "README.md": f"```\npython train.py {option}\n```\n"}

    assert look(tmp_path, files).bindings["startup_grace"].value == 15.0


@pytest.mark.parametrize("last", ["", "print(f'best val loss {best:.4f}')\n"])
@pytest.mark.parametrize(
    "goal",
    ["The goal is the lowest validation loss.", "The metric is validation loss.",
     "We minimise the held-out loss.", "Minimize loss on the val split: lower val loss is better."],
)  # fmt: skip
def test_a_validation_loss_is_never_the_loss_of_the_last_batch(
    tmp_path: Path, goal: str, last: str
) -> None:
    """A nanoGPT shape: the batch's loss is printed after the evaluation's."""
    code = (
        "for it in range(9):\n"
        "    print(f'step {it}: train loss {a:.4f}, val loss {b:.4f}')\n"
        "    print(f'iter {it}: loss {c:.4f}, time {d:.2f}ms')\n"
    )
    found = look(tmp_path, {"train.py": code + last, "README.md": f"{goal}\n"})

    assert found.metric.value == "val_loss"
    assert found.source.value["regex"].startswith(r"\bval\s+loss")


def test_a_number_inside_a_written_dictionary_has_a_dotted_key(tmp_path: Path) -> None:
    """The folder comes from a configuration file: only the README says where."""
    code = (
        "import json\nfrom pathlib import Path\ndef main(cfg):\n    out = Path(cfg['out'])\n"
        "    (out / 'metrics.json').write_text(json.dumps({'eval': {'rmse': rmse, 'n': 5}}))\n"
    )
    readme = (
        "```\npython train.py\n```\nwrites `runs/latest/metrics.json`. Lowest `eval.rmse` wins.\n"
    )
    found = look(tmp_path, {"train.py": code, "README.md": readme})

    assert found.metric.value == "eval.rmse"
    assert found.source.value == {"json": "runs/latest/metrics.json", "key": "eval.rmse"}
    assert found.direction.value == "minimize"


# ------------------------------------------------------------------------------------------ bounds


@pytest.mark.parametrize(
    ("sentence", "bound"),
    [
        ("`memory_mb` must stay below 4000.", {"max": 4000.0}),
        ("memory_mb must be at most 4,000", {"max": 4000.0}),
        ("The memory_mb is <= 4000 on our card", {"max": 4000.0}),
        ("memory_mb should be at least 12.5", {"min": 12.5}),
        ("memory_mb must not exceed 4e3", {"max": 4000.0}),
        ("memory_mb was 4000 last week", None),
        ("keep memory_mb below 80% of the card", None),
        ("val_loss must stay below 4", None),
    ],
)
def test_a_stated_bound_on_another_printed_number_is_a_constraint(
    tmp_path: Path, sentence: str, bound: dict[str, float] | None
) -> None:
    files = {"README.md": sentence + "\n", "train.py": "print(f'memory_mb: {1}')\n" + LOSS}
    found = look(tmp_path, files).bindings.get("constraints")

    assert (found.value if found else None) == ([{"name": "memory_mb", **bound}] if bound else None)


# ------------------------------------------------------------------------------------------- reads


def test_data_outside_is_found_by_whatever_names_it(tmp_path: Path) -> None:
    repo, outside = tmp_path / "repo", tmp_path / "data-of-all"
    for folder in (repo, outside / "images", tmp_path / "home/datasets/text", tmp_path / "hub"):
        folder.mkdir(parents=True)
    code = (
        "import os, torch, transformers\nfrom pathlib import Path\n"
        "text = Path.home() / 'datasets/text'\nroot = os.environ['IMAGES']\nother = '/nowhere/x'\n"
    )
    found = look(
        repo,
        {"train.py": code + LOSS},
        environ={
            "HOME": str(tmp_path / "home"),
            "HF_HOME": str(tmp_path / "hub"),
            "IMAGES": str(outside / "images"),
        },
    )

    assert found.reads.value == [
        "~/datasets/text", str(outside / "images"), str(tmp_path / "hub"),
    ]  # fmt: skip
    assert found.bindings["pass_env"].value == ["IMAGES", "HF_HOME"]
    assert found.bindings["pass_env"].evidence == "train.py:4 IMAGES, train.py:1 HF_HOME"


def test_no_login_is_shown_whatever_names_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in (".ssh/id_rsa", ".cache/huggingface/token", ".cache/huggingface/hub/x",
                 ".kaggle/kaggle.json"):  # fmt: skip
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    (tmp_path / "repo").mkdir()
    code = "import transformers\nfrom pathlib import Path\nk = open('~/.ssh/id_rsa')\n"
    code += "j = Path.home() / '.kaggle/kaggle.json'\n"
    found = look(tmp_path / "repo", {"train.py": code + LOSS}, environ={"HOME": str(home)})

    assert found.reads.value == ["~/.cache/huggingface/hub"]


def test_what_git_ignores_is_data_only_where_code_names_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    found = look(
        tmp_path,
        {
            ".gitignore": "data/\ncorpus.txt\nwandb/\n.venv/\n*.log\nold/\n",
            "train.py": "open('data/a.csv'); open('corpus.txt'); open('wandb/x')\n" + LOSS,
            "data/a.csv": "1",
            "corpus.txt": "1",
            "wandb/x": "1",
            ".venv/pyvenv.cfg": "",
            "run.log": "",
            "old/b.csv": "1",
        },
    )

    assert found.reads.value == ["corpus.txt", "data"]


def test_a_cache_that_prepare_will_make_is_named_before_it_is_there(tmp_path: Path) -> None:
    files = {
        "train.py": "import prepare\n" + LOSS,
        "prepare.py": "import os\nD = os.path.join(os.path.expanduser('~'), '.cache', 'mine')\n"
        "if __name__ == '__main__':\n    pass\n",
    }
    found = look(tmp_path, files, environ={"HOME": str(tmp_path)})

    assert found.reads.value == ["~/.cache/mine"]
    assert prepare_command(tmp_path) == ("python", "prepare.py")


def test_ignored_data_that_prepare_will_make_is_named_before_it_is_there(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    found = look(
        tmp_path,
        {
            ".gitignore": "*.bin\ninput.txt\n",
            "README.md": "`python data/chars/prepare.py`, then `python train.py`\n",
            "data/chars/prepare.py": "import os\nhere = os.path.dirname(__file__)\n"
            "os.path.join(here, 'input.txt')\nos.path.join(here, 'train.bin')\n",
            "train.py": "open(data_dir + '/train.bin')\n" + LOSS,
        },
    )

    assert found.reads.value == ["data/chars/train.bin"], "input.txt is for prepare.py alone"
    assert found.reads.evidence == "data/chars/prepare.py:4 makes it"


# --------------------------------------------------------------------------------------- edits


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        ("Only edit `model.py`. Never change `train.py`.", ["model.py"]),
        ("You may modify `train.py` and `model.py`.", ["train.py", "model.py"]),
        ("Do not modify `model.py`.", ["train.py"]),
        ("`model.py` is read-only, do not edit it.", ["train.py"]),
        ("Edit `nothere.py`.", ["train.py"]),
    ],
)
def test_what_a_sentence_lets_candidates_edit(tmp_path: Path, text: str, edits: list[str]) -> None:
    files = {"program.md": text + "\n", "train.py": "import model\n" + LOSS, "model.py": "x = 1\n"}

    assert look(tmp_path, files).editable_files.value == edits


# ---------------------------------------------------------------------------------- not ours


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"SKILL.md": "# x", "README.md": "x"}, ("SKILL.md", "skill-autoresearch")),
        ({"prompts/system.md": "You are", "README.md": "x"}, ("prompts/", "skill-autoresearch")),
        ({"promptfooconfig.yaml": "x"}, ("promptfoo", "LangSmith, Braintrust, Weave or Promptfoo")),
        ({"survey.md": "x", "refs.bib": "x"}, ("only text", "survey tool")),
    ],
)
def test_a_repository_that_is_not_for_this_is_sent_on(
    tmp_path: Path, files: dict[str, str], words: tuple[str, str]
) -> None:
    text = refusal(tmp_path, files)

    assert all(word in text for word in words), text
    assert "--run-cmd" in text


def test_a_prompt_with_a_command_that_prints_a_number_is_for_this(tmp_path: Path) -> None:
    files = {"prompts/p.md": "x", "SKILL.md": "x", "score.py": "print(f'accuracy: {1}')\n"
             "open('prompts/p.md')\n"}  # fmt: skip
    found = look(tmp_path, files)

    assert found.metric.value == "accuracy"
    assert found.editable_files.value == ["prompts/p.md"], "never what scores"


def test_an_unknown_binding_names_its_key(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(f'score: {1}')\n")
    with pytest.raises(UnknownBindingError) as caught:
        infer(tmp_path, {}, {})

    assert caught.value.key == "metric.direction"
    assert os.path.exists(tmp_path / "train.py")


@pytest.mark.parametrize(
    "code",
    [
        "CACHE = Path.home() / '.cache/shards'",
        'CACHE = Path.home() / ".cache" / "shards"',
        "CACHE = f'{HOME}/.cache/shards/v1'",
        "CACHE = os.path.expanduser('~/.cache/shards')",
        "CACHE = os.path.join(os.environ['HOME'], '.cache', 'shards')",
    ],
)
def test_a_cache_in_the_home_folder_is_found_however_it_is_spelled(
    tmp_path: Path, code: str
) -> None:
    (tmp_path / "home/.cache/shards").mkdir(parents=True)
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "prepare.py").write_text(f"import os\n{code}\n")
    (repo / "train.py").write_text("import prepare\nprint(f'val_loss: {1.0:.6f}')\n")
    found = infer(repo, {}, {"HOME": str(tmp_path / "home")})
    assert found.reads.value == ["~/.cache/shards"]
    assert found.reads.evidence == "prepare.py:2"
