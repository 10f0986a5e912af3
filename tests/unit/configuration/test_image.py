"""`image`, `gpus` and the container's python: a wrong use is one line, a right one is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.configuration import changed_track_keys, resolve_command, resolve_loop, track_digest
from overnight.contracts.errors import ConfigError
from overnight.contracts.loop import ImageBuild, LoopConfig

PLAIN = "metric: val_bpb\nrun_cmd: python train.py\neditable_files: train.py\n"
DOCKER = "pools: {default: {executor: docker}}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "env").mkdir(parents=True)
    (folder / "train.py").write_text("LR = 1\n")
    (folder / "env/Dockerfile").write_text("FROM python:3.11-slim-bookworm\n")
    return folder


def resolved(repo: Path, text: str, **flags: object) -> LoopConfig:
    given = {name.replace("__", "."): value for name, value in flags.items()}
    return resolve_loop(repo, flags=given, environ={}, loop_text=PLAIN + text).config


WRONG = {
    "image: python:3.11": "loop.run.yaml:4: image: only a container has one: "
    "pools: {default: {executor: docker}}, or --executor docker",
    "image: {build: env}": "loop.run.yaml:4: image: only a container has one: "
    "pools: {default: {executor: docker}}, or --executor docker",
    "gpus: true": "loop.run.yaml:4: gpus: must be a whole number, not true",
    "gpus: -1": "loop.run.yaml:4: gpus: -1 is out of range: "
    "input should be greater than or equal to 0",
    DOCKER + "image: 7": "loop.run.yaml:5: image: must be an image's name, or {build: DIR}, not 7",
    DOCKER + "image: --privileged": "loop.run.yaml:5: image: must be an image's name, or "
    "{build: DIR}, not '--privileged'",
    DOCKER + "image: {dockerfile: env}": "loop.run.yaml:5: image: must be an image's name, or "
    "{build: DIR}, not {'dockerfile': 'env'}",
    DOCKER + "image: {build: ../elsewhere}": "loop.run.yaml:5: image.build: '../elsewhere' leads "
    "out of the repository",
    DOCKER + "image: {build: nothing}": "loop.run.yaml:5: image.build: nothing does not exist in "
    "REPO: correct the name or add the file",
    DOCKER + "image: {build: .}": "loop.run.yaml:5: image.build: no Dockerfile in REPO: name the "
    "folder that has it",
    DOCKER + "image: {build: train.py}": "loop.run.yaml:5: image.build: train.py is no folder",
    DOCKER + "image: {build: env}\npython: bin/none": "loop.run.yaml:6: python: REPO/bin/none is "
    "no program that can be run",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_use_is_one_line_with_its_place(repo: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved(repo, text)

    assert str(caught.value) == WRONG[text].replace("REPO", str(repo))


def test_the_file_that_makes_the_image_is_no_candidate_s_to_edit(repo: Path) -> None:
    with pytest.raises(ConfigError, match="env/Dockerfile makes the image that candidates run in"):
        resolve_loop(
            repo, flags={}, environ={},
            loop_text="metric: val_bpb\nrun_cmd: python train.py\n"
            "editable_files: [train.py, env/Dockerfile]\n" + DOCKER + "image: {build: env}\n",
        )  # fmt: skip


@pytest.mark.parametrize(
    "image",
    ["python:3.11", "ghcr.io/a/b@sha256:" + "0" * 64, "sha256:" + "1" * 64, "localhost:5000/x"],
)
def test_a_name_is_kept_as_it_is(repo: Path, image: str) -> None:
    assert resolved(repo, f"{DOCKER}image: {image}\n").image == image


def test_the_flag_and_the_variables_choose_a_container(repo: Path) -> None:
    by_flag = resolved(repo, "image: {build: env}\ngpus: 2\n", pools__default__executor="docker")
    environ = {"OVERNIGHT_POOLS__DEFAULT__EXECUTOR": "docker", "OVERNIGHT_IMAGE": "a:1"}
    by_variable = resolve_loop(repo, flags={}, environ=environ, loop_text=PLAIN).config

    assert (by_flag.image, by_flag.gpus, by_flag.in_container) == (ImageBuild(build="env"), 2, True)
    assert (by_variable.image, by_variable.in_container) == ("a:1", True)


RUN = {
    "python train.py": ("python", "train.py"),
    "uv run train.py": ("python", "train.py"),
    "uv run --no-sync -- torchrun train.py": ("torchrun", "train.py"),
    "/opt/conda/bin/python train.py": ("/opt/conda/bin/python", "train.py"),
}


@pytest.mark.parametrize("run_cmd", RUN)
def test_a_container_runs_the_image_s_own_programs(repo: Path, run_cmd: str) -> None:
    """Nothing of the host is looked for: not its .venv, not its PATH."""
    (repo / ".venv/bin").mkdir(parents=True)
    (repo / ".venv/bin/python").symlink_to("/bin/true")
    config = resolve_loop(
        repo, flags={}, environ={}, loop_text=PLAIN.replace("python train.py", run_cmd) + DOCKER
    ).config
    command = resolve_command(repo, config, {"PATH": "/nowhere"})

    assert (command.python, command.argv) == (None, RUN[run_cmd])


def test_a_python_of_this_host_is_used_where_it_is_named(repo: Path) -> None:
    folder = repo.parent / "venv/bin"
    folder.mkdir(parents=True)
    for name in ("python", "torchrun"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    text = DOCKER + f"python: {folder}/python\n"
    plain = resolve_command(repo, resolved(repo, text), {})
    config = resolve_loop(
        repo, flags={"run_cmd": "torchrun train.py"}, environ={}, loop_text=PLAIN + text
    ).config

    assert plain.python == folder / "python"
    assert plain.argv == (str(folder / "python"), "train.py")
    assert resolve_command(repo, config, {}).argv == (str(folder / "torchrun"), "train.py")


def test_an_image_and_having_a_container_are_part_of_the_track(repo: Path) -> None:
    process, own, named = (resolved(repo, text) for text in ("", DOCKER, DOCKER + "image: a:1\n"))
    digests = {track_digest(config, "frozen") for config in (process, own, named)}

    assert len(digests) == 3
    assert changed_track_keys(process, own) == ('image: no container -> "Overnight\'s own"',)
    assert changed_track_keys(own, named) == ('image: "Overnight\'s own" -> "a:1"',)
