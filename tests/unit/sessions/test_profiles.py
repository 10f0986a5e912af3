"""What `open` registers is what a runner asks for, to the byte: else nothing would run."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import yaml

from overnight.contracts.experiment import ExperimentJob
from overnight.executors.docker import DockerExecutor
from overnight.ledger.files import GUARD, SCORE, SessionFiles
from overnight.orchestrator.jobs import in_every_job, launch_of
from overnight.runner.specs import Bench, check_spec, run_spec
from overnight.sessions.opening import Opened, Request, open_session
from overnight.sessions.profiles import register_profiles

GPU = "GPU-11111111-2222-3333-4444-555555555555"


def _opened(repo: Path, **keys: object) -> Opened:
    repo.mkdir()
    (repo / "train.py").write_text("LR = 0.1\n")
    (repo / "score.py").write_text("print(1)\n")
    bindings = {
        "metric": {
            "name": "loss", "direction": "minimize", "source": {"command": ["python", "score.py"]},
        },
        "run_cmd": ["python", "train.py"], "editable_files": ["train.py"], "budget": 5,
        "guard": ["python", "-c", "pass"], "env": {"MODE": "night"}, "pass_env": ["TOKEN"],
        "pools": {"default": {"executor": "docker"}}, **keys,
    }  # fmt: skip
    (repo / "loop.run.yaml").write_text(yaml.safe_dump(bindings))
    request = Request(
        repo=repo, flags={}, environ=ENVIRON, today=date(2026, 3, 5), services=True
    )  # fmt: skip
    opened = open_session(request)
    opened.release()
    return opened


ENVIRON = {"REDIS_URL": "redis://localhost:1/0", "PATH": "/usr/bin:/bin", "TOKEN": "t"}


def _asked_for(opened: Opened, tmp_path: Path) -> set[str]:
    """Digests of what a runner with a GPU asks for, in its own folders, of the 7th experiment."""
    executor = DockerExecutor({"protected": [str(opened.files.root)]})
    launch = launch_of(opened.opening, opened.config)
    job = ExperimentJob(
        sid=opened.sid, tag=opened.tag, id=7, attempt=2, commit="1" * 40, tree_digest="2" * 64,
        wall_seconds=10.0, cpu_seconds=None, **in_every_job(opened.config, launch),
    )  # fmt: skip
    bench = Bench(
        files=SessionFiles(opened.files.root), folder=tmp_path / "runner", executor=executor,
        runner="r3", hardware="h", environ=ENVIRON, devices=(GPU,),
    )  # fmt: skip
    work = tmp_path / "work"
    work.mkdir()
    run = run_spec(bench, job, work, opened.files.root.parent)
    score = check_spec(bench, job, run, SCORE, job.source.command)
    guard = check_spec(bench, job, run, GUARD, job.guard or ())
    return {executor.profile(spec).digest for spec in (run, score, guard)}


def test_run_score_and_guard_are_registered_as_a_runner_will_ask_for_them(tmp_path: Path) -> None:
    opened = _opened(tmp_path / "repo")
    folder = tmp_path / "profiles"
    folder.mkdir()

    assert register_profiles(opened, folder, ENVIRON) == 3
    assert {path.stem for path in folder.iterdir()} == _asked_for(opened, tmp_path)
    assert register_profiles(opened, folder, ENVIRON) == 3
    assert len(list(folder.iterdir())) == 3


def test_nothing_is_registered_where_no_spawner_is_asked(tmp_path: Path) -> None:
    opened = _opened(tmp_path / "repo", pools={"default": {"executor": "process"}})

    assert register_profiles(opened, tmp_path / "nowhere", ENVIRON) == 0
