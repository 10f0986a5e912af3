"""The host's side: interpreter, command, candidate environment, Redis, folders, digests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from overnight.configuration import (
    candidate_env,
    changed_track_keys,
    config_digest,
    device_lock_dir,
    redis_candidates,
    redis_source,
    resolve_command,
    resolve_python,
    socket_dir,
    state_dir,
    track_digest,
)
from overnight.contracts.errors import ConfigError, InfrastructureError, UsageError
from overnight.contracts.loop import RESUMABLE, LoopConfig
from overnight.contracts.wire import build

FROZEN = "f" * 64


def loop(**more: Any) -> LoopConfig:
    base = {"metric": {"name": "loss"}, "run_cmd": ["python", "train.py"]}
    return build(LoopConfig, {**base, "editable_files": ["train.py"], **more})


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


# ---- the user's interpreter and command


def test_the_interpreter_is_venv_then_active_then_conda_then_ours(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    conda = program(tmp_path / "conda/bin/python")
    active = program(tmp_path / "active/bin/python")
    environ = {"CONDA_PREFIX": str(conda.parents[1])}

    assert resolve_python(repo, loop(), {}) == Path(sys.executable)
    assert resolve_python(repo, loop(), environ) == conda
    environ["VIRTUAL_ENV"] = str(active.parents[1])
    assert resolve_python(repo, loop(), environ) == active
    own = program(repo / ".venv/bin/python")
    assert resolve_python(repo, loop(), environ) == own
    assert resolve_python(repo, loop(python=str(conda)), environ) == conda


def test_a_workspace_s_environment_lies_above_its_folders(tmp_path: Path) -> None:
    """Up to the root of the repository, no further; what is active for Overnight is no choice."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    program(tmp_path / ".venv/bin/python")  # of nobody: outside the repository
    repo = tmp_path / "work/packages/one"
    repo.mkdir(parents=True)
    ours = {"VIRTUAL_ENV": sys.prefix}

    assert resolve_python(repo, loop(), ours) == Path(sys.executable), "no repository at all"
    (tmp_path / "work/.git").mkdir()
    assert resolve_python(repo, loop(), ours) == Path(sys.executable)
    above = program(tmp_path / "work/.venv/bin/python")
    assert resolve_python(repo, loop(), ours) == above
    active = program(tmp_path / "active/bin/python")
    environ = {"VIRTUAL_ENV": str(active.parents[1])}
    assert resolve_python(repo, loop(), environ) == active


def test_a_locked_repository_without_an_environment_is_refused_with_the_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "uv.lock").touch()
    with pytest.raises(UsageError, match="run `overnight setup`"):
        resolve_python(tmp_path, loop(), {"VIRTUAL_ENV": sys.prefix})


def test_the_link_of_a_virtual_environment_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)

    assert resolve_python(tmp_path, loop(), {}) == tmp_path / ".venv/bin/python"


def test_an_environment_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/none/such")

    with pytest.raises(UsageError, match=r"leads nowhere: recreate the environment .*\.venv$"):
        resolve_python(tmp_path, loop(), {})


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (["python", "train.py"], ["PY", "train.py"]),
        (["python3", "-u", "train.py"], ["PY", "-u", "train.py"]),
        (["python3.11", "train.py"], ["PY", "train.py"]),
        (["uv", "run", "train.py", "--lr", "1"], ["PY", "train.py", "--lr", "1"]),
        (["uv", "run", "--frozen", "python", "train.py"], ["PY", "train.py"]),
        (["uv", "run", "-m", "pkg.train"], ["PY", "-m", "pkg.train"]),
        (["uv", "run", "--", "torchrun", "train.py"], ["BIN/torchrun", "train.py"]),
        (["torchrun", "train.py"], ["BIN/torchrun", "train.py"]),
        (["./run.sh"], ["./run.sh"]),
        (["sh", "run.sh"], ["PATH/sh", "run.sh"]),
    ],
)
def test_a_command_becomes_a_program_that_starts(
    tmp_path: Path, command: list[str], argv: list[str]
) -> None:
    python = program(tmp_path / ".venv/bin/python")
    program(tmp_path / ".venv/bin/torchrun")
    sh = program(tmp_path / "path/sh")
    found = resolve_command(tmp_path, loop(run_cmd=command), {"PATH": str(sh.parent)})

    spelled = [
        word.replace(str(python), "PY")
        .replace(str(python.parent), "BIN")
        .replace(str(sh.parent), "PATH")
        for word in found.argv
    ]
    assert spelled == argv
    assert found.python == python


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["nonesuch", "x"], "no program 'nonesuch' beside"),
        (["/none/such"], "run_cmd: /none/such is no program that can be run"),
        (["uv", "sync"], "only `uv run COMMAND` of uv is understood"),
        (["uv", "run", "--with", "x", "a.py"], "uv run --with: not understood"),
        (["uv", "run"], "uv run nothing to run: not understood"),
    ],
)
def test_a_command_that_can_not_start_is_a_usage_error(
    tmp_path: Path, command: list[str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_command(tmp_path, loop(run_cmd=command), {"PATH": str(tmp_path)})

    assert message in str(caught.value)


def test_uv_without_its_environment_names_the_command_that_makes_it(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("")

    with pytest.raises(UsageError, match="run `uv sync` in"):
        resolve_command(tmp_path, loop(run_cmd=["uv", "run", "train.py"]), {})


# ---- what a candidate sees


def test_a_candidate_sees_the_allow_list_and_nothing_else() -> None:
    environ = {"AWS_SECRET": "s", "HOME": "/root", "PATH": "/bin", "CUDA_HOME": "/c", "A": "there"}
    config = loop(env={"LR": "1", "WANDB_MODE": "disabled"}, pass_env=["CUDA_HOME", "GONE", "A"])

    assert candidate_env(config, environ, 7) == {
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_HOME": "/c",
        "A": "there",
        "LR": "1",
        "OVERNIGHT_SEED": "7",
        "OVERNIGHT_GATE": "time",
        "OVERNIGHT_BUDGET": "300",
    }


def test_a_budget_that_is_not_whole_is_not_rounded() -> None:
    assert candidate_env(loop(budget=0.1), {}, 0)["OVERNIGHT_BUDGET"] == "0.1"


# ---- what makes results comparable

CHANGES: dict[str, Any] = {
    "metric": {"name": "loss", "direction": "maximize"},
    "run_cmd": ["python", "train.py", "-x"],
    "editable_files": ["train.py", "b.py"],
    "frozen_files": ["c.py"],
    "gate": "steps",
    "budget": 60,
    "kill_factor": 3,
    "startup_grace": 1,
    "eval_grace": 1,
    "deadline_seconds": 9,
    "seed": 1,
    "env": {"A": "1"},
    "network": "host",
    "policy": {"prefetch": 0},
    "proposer": {"name": "random"},
    "pools": {"default": {"runners": 2}},
    "reads": ["/x"],
    "sandbox_root": "./runs",
}


MAY_CHANGE = RESUMABLE | {"policy"}  # of the policy only these; the test below has the rest


@pytest.mark.parametrize("key", CHANGES)
def test_a_change_opens_a_new_track_unless_it_may_change_on_resume(key: str) -> None:
    before, after = loop(), loop(**{key: CHANGES[key]})

    may_change = key in MAY_CHANGE
    assert (track_digest(before, FROZEN) == track_digest(after, FROZEN)) == may_change
    assert [change.split(":")[0] for change in changed_track_keys(before, after)] == (
        [] if may_change else [key]
    )
    assert config_digest(before) != config_digest(after)


def test_another_rule_of_what_is_kept_is_another_track() -> None:
    stricter = loop(policy={"confirm": {"max_share": 0.5}})

    assert track_digest(loop(), FROZEN) != track_digest(stricter, FROZEN)


def test_other_frozen_files_are_another_track() -> None:
    assert track_digest(loop(), FROZEN) != track_digest(loop(), "e" * 64)


def test_a_change_reads_as_old_and_new_value() -> None:
    assert changed_track_keys(loop(), loop(budget=60)) == ("budget: 300.0 -> 60.0",)


# ---- Redis and folders


def test_redis_is_the_url_then_the_path_then_the_bundled_binary(tmp_path: Path) -> None:
    valkey = program(tmp_path / "valkey-server")
    redis = program(tmp_path / "redis-server")
    found = redis_candidates({"REDIS_URL": "redis://localhost:1/0", "PATH": str(tmp_path)})

    assert [one.url or one.binary for one in found[:3]] == ["redis://localhost:1/0", redis, valkey]
    assert found[3].origin == "bundled"
    assert found[3].binary is not None
    assert os.access(found[3].binary, os.X_OK)
    assert redis_source({"PATH": str(tmp_path)}).binary == redis


def test_without_any_redis_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(InfrastructureError, match="apt-get install redis-server") as caught:
        redis_source({"PATH": "/none"})
    assert caught.value.exit_code == 3


def test_a_bad_redis_url_is_refused_without_showing_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        redis_candidates({"REDIS_URL": "http://user:hunter2@host"})

    assert str(caught.value) == "REDIS_URL must start with redis://, rediss:// or unix://"


def test_folders_come_from_the_environment_or_the_temp_folder() -> None:
    environ = {"OVERNIGHT_STATE": "/x/y/", "OVERNIGHT_DEVICE_LOCKS": "/x/locks"}

    assert state_dir(environ) == Path("/x/y")
    assert device_lock_dir(environ) == Path("/x/locks")
    assert state_dir({}).name == f"overnight-{os.getuid()}"
    assert device_lock_dir({}).name == "overnight-devices"


def test_a_relative_state_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^OVERNIGHT_STATE: must be an absolute path"):
        state_dir({"OVERNIGHT_STATE": "relative"})


def test_a_file_where_a_folder_should_be_is_named_with_the_fix(tmp_path: Path) -> None:
    """Later it would be `File exists`, which helps nobody."""
    file = tmp_path / "state"
    file.write_text("")
    for name, read in (("OVERNIGHT_STATE", state_dir), ("OVERNIGHT_DEVICE_LOCKS", device_lock_dir)):
        with pytest.raises(ConfigError, match=rf"^{name}: .* is no folder: move it away or name"):
            read({name: str(file)})


def test_sockets_have_a_short_folder_of_their_own_where_the_state_folder_is_long() -> None:
    short, long = {"OVERNIGHT_STATE": "/x/y"}, {"OVERNIGHT_STATE": "/" + "x" * 80}

    assert socket_dir(short) == Path("/x/y")
    assert len(str(socket_dir(long))) < 64
    assert socket_dir(long) == socket_dir(long)
    assert socket_dir(long) != socket_dir({"OVERNIGHT_STATE": "/" + "y" * 80})
