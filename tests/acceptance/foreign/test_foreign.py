"""Repositories that were never made for Overnight: `init --yes`, then a session that decides."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.acceptance.foreign import repositories
from tests.acceptance.foreign.repositories import Builder
from tests.e2e.stage import Stage, stage

__all__ = ["stage"]


@dataclass(frozen=True)
class Case:
    """One repository, and what `init` must have found in it."""

    build: Builder
    metric: tuple[str, str]
    command: list[str]
    edits: list[str]
    more: dict[str, Any] = field(default_factory=dict)  #: further keys of loop.run.yaml
    below: str = ""  #: where `init` is called, relative


CASES = {
    "upstream": Case(
        repositories.upstream,
        ("val_bpb", "minimize"),
        ["python", "train.py"],
        ["train.py"],
        {
            "budget": 0.3,
            "reads": ["~/.cache/tinyresearch"],
            "prepare": ["python", "prepare.py"],
        },
    ),
    "speedrun": Case(
        repositories.speedrun,
        ("train_time", "minimize"),
        ["bash", "run.sh"],
        ["train_gpt.py"],
        {
            "constraints": [
                {"name": "val_loss", "max": 3.28, "regex": r"\bval_loss:\s*([^\s,;)]+)"}
            ]
        },
    ),
    "trainer": Case(
        repositories.trainer,
        ("eval_loss", "minimize"),
        ["python", "run_clm.py", "--model_name_or_path", "tiny", "--num_train_epochs", "2",
         "--output_dir", "test-clm"],
        ["run_clm.py"],
        {"gate": "epochs", "budget": 2},
    ),
    "folds": Case(
        repositories.folds,
        ("mean_accuracy", "maximize"),
        ["python", "classify.py"],
        ["classify.py"],
        {"reads": ["data"]},
    ),
    "package": Case(
        repositories.package,
        ("valid_loss", "minimize"),
        ["python", "-m", "tinynet.train", "--seconds", "1"],
        ["src/tinynet/train.py"],
        {"env": {"PYTHONPATH": "src"}, "budget": 1},
    ),
    "monorepo": Case(
        repositories.monorepo,
        ("ndcg", "maximize"),
        ["python", "train.py"],
        ["train.py"],
        below="packages/ranker",
    ),
    "folder": Case(
        repositories.folder,
        ("final_mse", "minimize"),
        ["python", "main.py"],
        ["main.py"],
    ),
    "prompt": Case(
        repositories.prompt,
        ("pass_rate", "maximize"),
        ["python", "answer.py"],
        ["prompt.py"],
    ),
}  # fmt: skip
SOURCES = {
    "speedrun": {"regex": r"\btrain_time:\s*([^\s,;)]+?)ms", "take": "last"},
    "trainer": {"json": "test-clm/all_results.json", "key": "eval_loss"},
    "folds": {"regex": r"\bmean\s+accuracy:\s*([^\s,;)]+)", "take": "last"},
    "folder": {"regex": r"\bfinal\s+mse:\s*([^\s,;)]+)", "take": "last"},
    "prompt": {"command": ["python", "score.py"]},
}


def built(stage: Stage, build: Builder) -> Path:
    home = stage.folder / "home"
    home.mkdir()
    build(stage.repo, home)
    return home


@pytest.mark.parametrize("name", CASES)
def test_a_foreign_repository_runs_a_session_after_init_alone(name: str, stage: Stage) -> None:
    case = CASES[name]
    built(stage, case.build)
    repo = stage.repo / case.below
    made = stage.ask("init", str(repo), "--yes", "--json")

    assert made.code == 0, made
    written = yaml.safe_load((repo / "loop.run.yaml").read_text())
    assert (written["metric"]["name"], written["metric"]["direction"]) == case.metric
    assert written["metric"].get("source") == SOURCES.get(name)
    assert written["run_cmd"] == case.command
    assert written["editable_files"] == case.edits
    assert {key: written[key] for key in case.more} == case.more
    evidence = json.loads(made.output)["evidence"]
    assert ":" in evidence["metric.name"], "file:line"

    done = stage.start("run", str(repo), "--max", "3", "--runners", "1", "--json").wait(90)

    assert done.code == 0, done
    ideas = [event for event in map(json.loads, done.output.splitlines())
             if event.get("event") == "decision" and event["id"] > 1]  # fmt: skip
    assert len({event["id"] for event in ideas}) == 3, done
    verdicts = {event["verdict"] for event in ideas}
    assert verdicts <= {"keep", "discard", "crash", "timeout"}, done
    assert verdicts & {"keep", "discard"}, done
    assert done.last["baseline"] is not None
    assert stage.alive() == [], "no process is left"


def test_a_readme_that_lies_about_the_direction_is_refused_with_both_places(stage: Stage) -> None:
    built(stage, repositories.liar)
    refused = stage.ask("init", str(stage.repo), "--yes")

    assert refused.code == 2, refused
    assert "README.md:3 says higher is better" in refused.errors
    assert "train.py:5 keeps the lower one" in refused.errors
    assert refused.errors.count("\n") == 1
    assert not (stage.repo / "loop.run.yaml").exists()


def test_a_monorepo_can_be_bound_at_its_root_too(stage: Stage) -> None:
    built(stage, repositories.monorepo)
    made = stage.ask("init", str(stage.repo), "--yes", "--json")

    assert made.code == 0, made
    found = json.loads(made.output)
    assert found["run_cmd"] == ["env", "-C", "packages/ranker", "python", "train.py"]
    assert found["editable_files"] == ["packages/ranker/train.py"]
