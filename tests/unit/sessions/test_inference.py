"""Bindings are inferred with the place that is evidence, or the flag to give is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.contracts.errors import UsageError
from overnight.sessions.inference import Inferred, infer

TRAIN = "loss = 1.0\nprint(f'val_loss: {loss:.6f}')\n"


def look(folder: Path, files: dict[str, str], **more: Any) -> Inferred:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environ = more.pop("environ", {})
    return infer(folder, {key.replace("__", "."): value for key, value in more.items()}, environ)


def refusal(folder: Path, files: dict[str, str], **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        look(folder, files, **more)
    assert str(caught.value).isprintable()
    return str(caught.value).replace(str(folder), "REPO")


def test_a_research_repository_is_read_whole(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        {
            "train.py": "from prepare import x\nprint('---')\nv = 1.0\n"
            "print(f'val_bpb:          {v:.6f}')\nprint(f'training_seconds: {v:.1f}')\n"
            "print(f'peak_vram_mb:     {v:.1f}')\nprint(f'num_params_M:     {v:.1f}')\n",
            "prepare.py": "import os\nTIME_BUDGET = 5 * 60  # seconds\n"
            "CACHE = os.path.join(os.path.expanduser('~'), '.cache', 'autoresearch')\n",
            "README.md": "# x\nThe metric is **val_bpb**: lower is better.\n"
            "```bash\nuv run prepare.py\nuv run train.py\n```\n",
            "home/.cache/autoresearch/x": "",
        },
        environ={"HOME": str(tmp_path / "home")},
    )

    assert {key: (one.value, one.evidence) for key, one in found.findings().items()} == {
        "metric.name": ("val_bpb", "train.py:4 prints it"),
        "metric.direction": ("minimize", "README.md:2 says so"),
        "metric.source": ("stdout_line", "train.py:4"),
        "run_cmd": (["python", "train.py"], "README.md:5: uv run train.py"),
        "python": ("auto", f"{sys.executable}: Overnight's own"),
        "editable_files": (["train.py"], "the training script; all else stays frozen"),
        "gate": ("time", "what the budget counts"),
        "budget": (300.0, "seconds; prepare.py:2 TIME_BUDGET"),
        "reads": (["~/.cache/autoresearch"], "prepare.py:3"),
        "prepare": (["python", "prepare.py"], "README.md:4; once, by `overnight prepare`"),
    }
    assert found.warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        "print(f'val_loss: {x:.6f}')",
        "print(f'val_loss:    {x}', flush=True)",
        "print('val_loss:', x)",
        "print('val_loss: %.4f' % x)",
        "print('val_loss: {:.4f}'.format(x))",
        "print('val_loss: ' + str(x))",
        "print(f'---\\nval_loss: {x}\\nseconds: {x}')",
        "import sys; sys.stdout.write(f'val_loss: {x}\\n')",
        "def main():\n    if True:\n        print(f'val_loss: {x}')",
    ],
)
def test_every_common_way_to_print_a_metric_is_seen(tmp_path: Path, line: str) -> None:
    assert look(tmp_path, {"train.py": f"x = 1\n{line}\n"}).metric.value == "val_loss"


@pytest.mark.parametrize(
    "line",
    [
        "print('loss')",
        "log(f'loss: {x}')",
        "print(f'peak_vram_mb: {x}')",
        "print(f'total_seconds: {x}')",
        "print(f'{x}: {x}')",
    ],
)
def test_what_is_no_metric_is_not_taken_for_one(tmp_path: Path, line: str) -> None:
    text = f"x = 1\n{line}\n"

    assert refusal(tmp_path, {"train.py": text}).startswith("no metric found: train.py must")


def test_a_held_out_metric_beats_training_and_best_so_far(tmp_path: Path) -> None:
    text = "".join(f"print(f'{n}: {{x}}')\n" for n in ("loss", "train_loss", "val_loss"))
    text += "print(f'best_val_loss: {x}')\n"

    assert look(tmp_path, {"train.py": text}).metric.value == "val_loss"


def test_two_equal_metrics_are_asked_about_unless_the_readme_names_one(tmp_path: Path) -> None:
    files = {"train.py": "print(f'val_loss: {x}')\nprint(f'val_acc: {x}')\n"}

    assert refusal(tmp_path, files) == (
        "several metrics are printed: val_loss (train.py:1), val_acc (train.py:2): "
        "choose with --metric NAME"
    )
    files["README.md"] = "We watch val_acc.\n"
    found = look(tmp_path, files)
    assert (found.metric.value, found.direction.value) == ("val_acc", "maximize")
    found = look(tmp_path, files, metric__name="val_loss")
    assert found.metric.evidence == "given; train.py:1 prints it"


def test_a_metric_that_an_imported_file_prints_is_found(tmp_path: Path) -> None:
    files = {
        "train.py": "from evaluate import report\nreport()\n",
        "evaluate.py": "def report():\n    print(f'val_f1: {1}')\n",
        "other.py": "print(f'val_loss: {1}')\n",
    }

    assert look(tmp_path, files).metric.evidence == "evaluate.py:2 prints it"


def test_a_summary_that_the_readme_shows_is_evidence(tmp_path: Path) -> None:
    files = {
        "train.py": "import summary\nsummary.show()\n",
        "README.md": "It prints:\n```\nval_bpb:   0.997900\npeak_vram_mb: 45060.2\n```\n",
    }

    assert look(tmp_path, files).metric.evidence == "README.md:3 shows it"


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("val_bpb", "minimize"),
        ("error", "minimize"),
        ("test_perplexity", "minimize"),
        ("accuracy", "maximize"),
        ("val/f1", "maximize"),
    ],
)
def test_a_known_name_is_evidence_of_the_direction(
    tmp_path: Path, metric: str, direction: str
) -> None:
    found = look(tmp_path, {"train.py": f"print(f'{metric}: {{x}}')\n"})

    assert found.direction.value == direction
    assert found.direction.evidence.startswith("by its name")


def test_an_unknown_name_needs_words_or_a_flag(tmp_path: Path) -> None:
    files = {"train.py": "print(f'score: {x}')\n"}

    assert refusal(tmp_path, files) == (
        "score: is lower or higher better? Say --direction minimize or maximize"
    )
    assert look(tmp_path, files, metric__direction="maximize").direction.value == "maximize"
    files["README.md"] = "One number, score (higher is better).\n"
    assert look(tmp_path, files).direction.value == "maximize"
    files["program.md"] = "Minimize the score.\n"
    assert refusal(tmp_path, files) == (
        "score: the text says lower and higher (README.md:1, program.md:1): "
        "choose with --direction minimize or maximize"
    )


def test_words_about_another_metric_are_no_evidence(tmp_path: Path) -> None:
    files = {"train.py": "print(f'score: {x}')\n", "README.md": "For loss, lower is better.\n"}

    assert "is lower or higher better?" in refusal(tmp_path, files)


@pytest.mark.parametrize(
    ("readme", "command"),
    [
        ("```\nuv run train.py\n```", ["python", "train.py"]),
        ("```\n$ python3 train.py --size small\n```", ["python", "train.py", "--size", "small"]),
        ("Run `python train.py` and wait.", ["python", "train.py"]),
        ("    uv run python -u train.py > run.log 2>&1", ["python", "-u", "train.py"]),
        ("```\ntorchrun --standalone train.py\n```", ["torchrun", "--standalone", "train.py"]),
        ("python train.py is what you run", ["python", "train.py"]),
        ("```\npython train.py --data $DATA\n```", ["python", "train.py"]),
        ("```\npython train.py --x 1\npython train.py\n```", ["python", "train.py"]),
        ("```\npython eval.py --all\n```", ["python", "train.py"]),
    ],
)
def test_the_command_is_the_one_that_the_readme_shows(
    tmp_path: Path, readme: str, command: list[str]
) -> None:
    found = look(tmp_path, {"train.py": TRAIN, "eval.py": "", "README.md": readme + "\n"})

    assert found.run_cmd.value == command


def test_a_script_of_another_name_is_found_by_the_readme_or_when_it_is_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    readme = {"src/train_gpt.py": TRAIN, "x.py": TRAIN, "README.md": "`python src/train_gpt.py`\n"}

    assert look(tmp_path / "a", readme).editable_files.value == ["src/train_gpt.py"]
    assert look(tmp_path / "b", {"main.py": TRAIN, "lib.py": ""}).run_cmd.value == [
        "python",
        "main.py",
    ]


def test_without_a_script_the_flag_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"a.py": "", "b.py": ""}) == (
        "no training script found in REPO: name it with --run-cmd 'python FILE.py'"
    )
    assert refusal(tmp_path, {}, run_cmd="python c.py") == "--run-cmd: c.py does not exist in REPO"
    assert look(tmp_path, {"b.py": TRAIN}, run_cmd="python b.py -v").run_cmd.value == [
        "python",
        "b.py",
        "-v",
    ]


def test_a_syntax_error_names_the_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"train.py": "x = 1\ny = (\n"}).startswith(
        "train.py:2: syntax error: mend it first"
    )


@pytest.mark.parametrize(
    ("files", "seconds"),
    [
        ({"train.py": TRAIN + "TIME_BUDGET = 60\n"}, 60.0),
        ({"train.py": TRAIN + "MAX_MINUTES = 2\n"}, 120.0),
        ({"train.py": TRAIN + "TIME_LIMIT: float = 1.5\n"}, 1.5),
        ({"train.py": TRAIN, "README.md": "A fixed 5-minute time budget.\n"}, 300.0),
        ({"train.py": TRAIN, "README.md": "budget: 90 seconds\n"}, 90.0),
        ({"train.py": TRAIN, "other.py": "TIME_BUDGET = 60\n"}, 300.0),
        ({"train.py": TRAIN + "TIME_BUDGET = None\n"}, 300.0),
        ({"train.py": TRAIN + "TIME_BUDGET = 0\n"}, 300.0),
        ({"train.py": TRAIN, "README.md": "It took 7 minutes.\n"}, 300.0),
    ],
)
def test_the_budget_is_the_one_that_the_run_has_already(
    tmp_path: Path, files: dict[str, str], seconds: float
) -> None:
    assert look(tmp_path, files).budget.value == seconds


def test_what_is_given_wins_and_is_called_so(tmp_path: Path) -> None:
    found = look(
        tmp_path, {"train.py": TRAIN + "TIME_BUDGET = 60\n"}, budget=7.0, editable_files="train.py"
    )

    assert (found.budget.value, found.budget.evidence) == (7.0, "given")
    assert found.editable_files.value == ["train.py"]


def test_a_lock_file_without_its_environment_is_a_warning(tmp_path: Path) -> None:
    (found,) = look(tmp_path, {"train.py": TRAIN, "uv.lock": ""}).warnings

    assert "run `overnight setup`" in found


def test_environments_and_caches_are_not_searched(tmp_path: Path) -> None:
    files = {
        "train.py": "x = 1\n",
        ".venv/lib/train.py": TRAIN,
        "myenv/pyvenv.cfg": "",
        "myenv/train.py": TRAIN,
        "node_modules/a.py": TRAIN,
        "a/b/c/d/deep.py": TRAIN,
    }

    assert refusal(tmp_path, files).startswith("no metric found")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(max_size=80), st.text(max_size=80))
def test_whatever_the_files_hold_the_answer_is_bindings_or_one_line(
    tmp_path: Path, code: str, readme: str
) -> None:
    (tmp_path / "train.py").write_bytes(code.encode("utf-8", "replace"))
    (tmp_path / "README.md").write_bytes(readme.encode("utf-8", "replace"))
    message = ""
    try:
        infer(tmp_path, {}, {})
    except UsageError as error:
        message = str(error)
    assert message.isprintable(), repr(message)
